//go:build unix

package examples_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"
	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// helm runs helm on the chart with some values.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testtools.Helm(t), args...)
	cmd.Dir = example(t, "kubernetes")
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func render(t *testing.T, version string, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", "network", "terrapulse", "-n", "netops", "--kube-version", version}, args...)...)
	if err != nil {
		t.Fatalf("helm template %s: %v\n%s", args, err, out)
	}
	return out
}

func valueFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(example(t, "kubernetes/values/*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("sets of values: %q, %v", files, err)
	}
	return files
}

func TestChart_FitsTheSchemasOfKubernetes(t *testing.T) {
	t.Parallel()
	validate := testtools.KubernetesValidate(t)
	for _, values := range valueFiles(t) {
		if out, err := helm(t, "lint", "--strict", "terrapulse", "-f", values); err != nil {
			t.Errorf("helm lint -f %s: %v\n%s", values, err, out)
		}
		for _, version := range []string{"1.27", "1.37"} {
			file := filepath.Join(t.TempDir(), "rendered.yaml")
			write(t, file, render(t, version, "-f", values))
			out, err := exec.CommandContext(t.Context(), validate, "-k", version, "--strict", file).CombinedOutput()
			// The schemas of custom resources are not there: the operator's types check this one.
			unknown := regexp.MustCompile(`(?m)^WARN .*kind ServiceMonitor .*\n`).ReplaceAllString(string(out), "")
			if err != nil || strings.Contains(unknown, "WARN") || strings.Count(unknown, " passed for ") < 5 {
				t.Errorf("Kubernetes %s, %s: %v\n%s", version, filepath.Base(values), err, out)
			}
		}
	}
}

func TestChart_ServiceMonitorHasTheOperatorsForm(t *testing.T) {
	t.Parallel()
	var monitors []string
	for _, document := range documents(render(t, "1.31", "-f", "values/production.yaml")) {
		if strings.Contains(document, "kind: ServiceMonitor") {
			monitors = append(monitors, document)
		}
	}
	if len(monitors) != 1 {
		t.Fatalf("%d monitors", len(monitors))
	}
	check := exec.CommandContext(t.Context(), "go", "run", "-trimpath", "./servicemonitor")
	check.Dir = filepath.Join(testtools.Root(t), "tools", "examples")
	check.Stdin = strings.NewReader(monitors[0])
	check.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// resource is what selects something in a rendered chart, or is selected.
type resource struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Replicas       int
		ServiceName    string         `yaml:"serviceName"`
		ClusterIP      string         `yaml:"clusterIP"`
		MaxUnavailable int            `yaml:"maxUnavailable"`
		Selector       map[string]any // of a Service, the labels; of others, matchLabels
		Ports          []struct {
			Name       string
			TargetPort string `yaml:"targetPort"`
		}
		Endpoints []struct{ Port string }
		Template  struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct{ Ports []struct{ Name string } }
			}
		}
	}
}

// selects reports whether a selector fits labels. An empty one fits everything, so it is wrong here.
func selects(selector map[string]any, labels map[string]string) bool {
	if inner, ok := selector["matchLabels"].(map[string]any); ok {
		selector = inner
	}
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return len(selector) > 0
}

func resources(t *testing.T, rendered, kind string) (found []resource) {
	t.Helper()
	for _, document := range documents(rendered) {
		var r resource
		if err := yaml.Unmarshal([]byte(document), &r); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if r.Kind == kind {
			found = append(found, r)
		}
	}
	return found
}

// While a node is drained, the budget keeps the instances of this release, and no others: all but one of them.
func TestChart_ABudgetKeepsAllInstancesButOne(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]int{"small": 1, "production": 1, "one-instance": 0} { // of one instance, there is no other that could continue
		rendered := render(t, "1.31", "-f", "values/"+values+".yaml")
		budgets, sets := resources(t, rendered, "PodDisruptionBudget"), resources(t, rendered, "StatefulSet")
		if len(budgets) != want || len(sets) != 1 {
			t.Errorf("%s: %d budgets, want %d, for %d sets of instances", values, len(budgets), want, len(sets))
			continue
		}
		for _, budget := range budgets {
			if instances := sets[0].Spec; budget.Spec.MaxUnavailable != 1 || instances.Replicas < 2 {
				t.Errorf("%s: of %d instances, %d may be evicted", values, instances.Replicas, budget.Spec.MaxUnavailable)
			}
			labels := sets[0].Spec.Template.Metadata.Labels
			if !selects(budget.Spec.Selector, labels) {
				t.Errorf("%s: the budget's selector %v does not fit the instances' labels %v", values, budget.Spec.Selector, labels)
			}
			other := resources(t, strings.ReplaceAll(rendered, "instance: network", "instance: other"), "StatefulSet")[0].Spec.Template.Metadata.Labels
			if selects(budget.Spec.Selector, other) {
				t.Errorf("%s: the budget's selector %v also fits another release", values, budget.Spec.Selector)
			}
		}
	}
}

// Prometheus scrapes each instance once: by the service that has the names of the instances, not by the one for people.
func TestChart_TheMonitorSelectsTheServiceOfTheInstances(t *testing.T) {
	t.Parallel()
	rendered := render(t, "1.31", "-f", "values/production.yaml")
	monitors, sets := resources(t, rendered, "ServiceMonitor"), resources(t, rendered, "StatefulSet")
	if len(monitors) != 1 || len(sets) != 1 || len(monitors[0].Spec.Endpoints) != 1 {
		t.Fatalf("%d monitors for %d sets of instances: %+v", len(monitors), len(sets), monitors)
	}
	instances, scraped := sets[0].Spec, []string{}
	for _, service := range resources(t, rendered, "Service") {
		if !selects(service.Spec.Selector, instances.Template.Metadata.Labels) {
			t.Errorf("the selector %v of service %s does not fit the instances' labels", service.Spec.Selector, service.Metadata.Name)
		}
		port := service.Spec.Ports[0]
		if port.TargetPort != instances.Template.Spec.Containers[0].Ports[0].Name {
			t.Errorf("service %s leads to the port %s, which the instances do not have", service.Metadata.Name, port.TargetPort)
		}
		if !selects(monitors[0].Spec.Selector, service.Metadata.Labels) {
			continue
		}
		scraped = append(scraped, service.Metadata.Name)
		if port.Name != monitors[0].Spec.Endpoints[0].Port || service.Spec.ClusterIP != "None" {
			t.Errorf("it is scraped by port %s of %+v", monitors[0].Spec.Endpoints[0].Port, service.Spec)
		}
	}
	if len(scraped) != 1 || scraped[0] != instances.ServiceName {
		t.Errorf("it scrapes the services %q, want %s", scraped, instances.ServiceName)
	}
}

func TestChart_RefusesWrongValues(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no image":                 {[]string{"--set", "consul.address=consul:8500"}, "repository"},
		"no Consul":                {[]string{"--set", "image.repository=terrapulse"}, "address"},
		"a value that is unknown":  {[]string{"-f", "values/small.yaml", "--set", "replica=2"}, "replica"},
		"no instance":              {[]string{"-f", "values/small.yaml", "--set", "replicas=0"}, "replicas"},
		"task files in two places": {[]string{"-f", "values/small.yaml", "--set", "tasks.claim=files"}, "only one of tasks.files"},
		"the token that allows everything for Prometheus": {[]string{"-f", "values/small.yaml", "--set", "serviceMonitor.enabled=true,api.token.secret=token"}, "needs api.readToken"},
	} {
		out, err := helm(t, append([]string{"template", "network", "terrapulse", "--kube-version", "1.31"}, tt.args...)...)
		if err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// The schema has the same values as values.yaml, which explains them.
func TestChart_EveryValueIsDocumented(t *testing.T) {
	t.Parallel()
	type node struct {
		Properties map[string]node `yaml:"properties"`
	}
	var schema node
	var values map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(read(t, example(t, "kubernetes/terrapulse/values.schema.json"))), &schema),
		yaml.Unmarshal([]byte(read(t, example(t, "kubernetes/terrapulse/values.yaml"))), &values)); err != nil {
		t.Fatal(err)
	}
	delete(schema.Properties, "global") // Helm's own
	var known, documented []string
	var walk func(at string, n node, values map[string]any)
	walk = func(at string, n node, values map[string]any) {
		for name, child := range n.Properties {
			known = append(known, at+name)
			if inner, ok := values[name].(map[string]any); ok && len(child.Properties) > 0 {
				walk(at+name+".", child, inner)
			}
		}
		for name := range values {
			documented = append(documented, at+name)
		}
	}
	walk("", schema, values)
	slices.Sort(known)
	slices.Sort(documented)
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("values.schema.json has other values than values.yaml (-schema +values):\n%s", diff)
	}
}

func documents(text string) []string { return regexp.MustCompile(`(?m)^---$`).Split(text, -1) }

// manifest is what the tests read of Kubernetes' objects.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template             struct{ Spec pod }
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type pod struct {
	SecurityContext map[string]any `yaml:"securityContext"`
	Containers      []struct {
		Args            []string
		SecurityContext map[string]any `yaml:"securityContext"`
		WorkingDir      string         `yaml:"workingDir"`
		Env             []struct {
			Name, Value string
			ValueFrom   struct {
				SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
			} `yaml:"valueFrom"`
		}
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
		StartupProbe   probe `yaml:"startupProbe"`
		LivenessProbe  probe `yaml:"livenessProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
	}
	Volumes []struct {
		Name      string
		EmptyDir  *struct{} `yaml:"emptyDir"`
		ConfigMap *struct {
			Name  string
			Items []struct{ Key, Path string }
		} `yaml:"configMap"`
		Secret *struct {
			Name string `yaml:"secretName"`
		}
	}
}

type probe struct {
	TCPSocket *struct{ Port string }               `yaml:"tcpSocket"`
	HTTPGet   *struct{ Path, Port, Scheme string } `yaml:"httpGet"`
}

// kubelet lays out the volumes of the pod of a rendered chart on this machine.
type kubelet struct {
	t       *testing.T
	dir     string
	port    int
	configs map[string]map[string]string
	secrets map[string]map[string]string
	pod     pod
	claims  []string
	paths   *strings.Replacer // of the container to those of this machine
}

func newKubelet(t *testing.T, rendered string, port int, secrets map[string]map[string]string) *kubelet {
	t.Helper()
	k := &kubelet{t: t, dir: t.TempDir(), port: port, configs: map[string]map[string]string{}, secrets: secrets}
	k.take(rendered)
	if len(k.pod.Containers) != 1 {
		t.Fatalf("containers: %+v", k.pod.Containers)
	}
	var paths []string
	for _, mount := range k.pod.Containers[0].VolumeMounts {
		paths = append(paths, mount.MountPath)
	}
	slices.SortFunc(paths, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, path := range paths {
		pairs = append(pairs, path, filepath.Join(k.dir, path))
	}
	k.paths = strings.NewReplacer(append(pairs, "port: 8558", fmt.Sprintf("port: %d", port))...)
	k.mount()
	return k
}

// take reads the objects of a rendered chart.
func (k *kubelet) take(rendered string) {
	k.t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(rendered)); ; {
		var m manifest
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			k.t.Fatal(err)
		}
		switch m.Kind {
		case "ConfigMap":
			k.configs[m.Metadata.Name] = m.Data
		case "StatefulSet":
			k.pod, k.claims = m.Spec.Template.Spec, nil
			for _, claim := range m.Spec.VolumeClaimTemplates {
				k.claims = append(k.claims, claim.Metadata.Name)
			}
		}
	}
}

// mount makes the folders of the volumes. Those of ConfigMaps and secrets are links to a folder that is replaced in
// one step, as the kubelet's are.
func (k *kubelet) mount() {
	k.t.Helper()
	for _, mount := range k.pod.Containers[0].VolumeMounts {
		dir := filepath.Join(k.dir, mount.MountPath)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			k.t.Fatal(err)
		}
		files, writable := k.volume(mount.Name)
		if writable == mount.ReadOnly {
			k.t.Errorf("%s is mounted with readOnly %v", mount.MountPath, mount.ReadOnly)
		}
		if !writable {
			k.fill(dir, files)
		}
	}
}

func (k *kubelet) volume(name string) (files map[string]string, writable bool) {
	k.t.Helper()
	if slices.Contains(k.claims, name) {
		return nil, true
	}
	for _, v := range k.pod.Volumes {
		if v.Name != name {
			continue
		}
		switch {
		case v.EmptyDir != nil:
			return nil, true
		case v.Secret != nil && k.secrets[v.Secret.Name] != nil:
			return k.secrets[v.Secret.Name], false
		case v.ConfigMap != nil && k.configs[v.ConfigMap.Name] != nil:
			data := k.configs[v.ConfigMap.Name]
			if len(v.ConfigMap.Items) == 0 {
				return data, false
			}
			files = map[string]string{}
			for _, item := range v.ConfigMap.Items {
				text, ok := data[item.Key]
				if !ok {
					k.t.Fatalf("the ConfigMap %s has no %s", v.ConfigMap.Name, item.Key)
				}
				files[item.Path] = text
			}
			return files, false
		}
		k.t.Fatalf("the content of the volume %s is not there: %+v", name, v)
	}
	k.t.Fatalf("there is no volume %s", name)
	return nil, false
}

func (k *kubelet) fill(dir string, files map[string]string) {
	k.t.Helper()
	content, err := os.MkdirTemp(dir, "..content-")
	if err != nil {
		k.t.Fatal(err)
	}
	for path, text := range files {
		write(k.t, filepath.Join(content, path), k.paths.Replace(text))
		first, _, _ := strings.Cut(path, "/")
		if err := os.Symlink(filepath.Join("..data", first), filepath.Join(dir, first)); err != nil && !errors.Is(err, os.ErrExist) {
			k.t.Fatal(err)
		}
	}
	fresh := filepath.Join(dir, "..data_tmp")
	if err := errors.Join(os.Symlink(filepath.Base(content), fresh), os.Rename(fresh, filepath.Join(dir, "..data"))); err != nil {
		k.t.Fatal(err)
	}
}

// start runs the container's program with its arguments and its environment.
func (k *kubelet) start() {
	k.t.Helper()
	c := k.pod.Containers[0]
	env := map[string]string{"PATH": path(k.t), "CHECKPOINT_DISABLE": "1"} // of the image
	for _, e := range c.Env {
		if ref := e.ValueFrom.SecretKeyRef; ref.Name != "" {
			e.Value = k.secrets[ref.Name][ref.Key]
		}
		env[e.Name] = k.paths.Replace(e.Value)
	}
	var list, args []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	for _, arg := range c.Args {
		args = append(args, k.paths.Replace(arg))
	}
	startProgram(k.t, k.paths.Replace(c.WorkingDir), list, args...)
}

// answers reports whether a probe of the container succeeds.
func (k *kubelet) answers(p probe) bool {
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(k.port))
	switch {
	case p.TCPSocket != nil:
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
		}
		return err == nil
	case p.HTTPGet != nil:
		// The kubelet does not verify certificates.
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
		resp, err := client.Get(strings.ToLower(p.HTTPGet.Scheme) + "://" + at + p.HTTPGet.Path)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode < 400
	}
	k.t.Fatalf("probe %+v", p)
	return false
}

// An instance runs with the arguments, the environment and the files that the rendered chart gives to its container,
// against a Consul with ACLs whose token may do what the README says.
func TestChart_AnInstanceRunsAsRendered(t *testing.T) {
	t.Parallel()
	testtools.Helm(t)
	consul, port := consultest.Start(t, consultest.WithACLs()), testtools.FreePort(t)
	policy := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindStringSubmatch(read(t, example(t, "kubernetes/README.md")))[1]
	if err := consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-1", Address: "10.0.0.1", Port: 8080}); err != nil {
		t.Fatal(err)
	}
	authority := testtools.NewAuthority(t)
	cert, key := authority.Server("network-terrapulse")
	const token, readToken = "a-token-that-allows-everything", "a-token-that-allows-reading"
	secrets := map[string]map[string]string{
		"consul": {"token": tokenFor(t, consul, policy)},
		"api":    {"token": token, "read-token": readToken},
		"tls":    {"tls.crt": read(t, cert), "tls.key": read(t, key)},
	}
	values := []string{"-f", "values/small.yaml", "--set", "consul.address=" + consul.Addr(), "--set", "consul.token.secret=consul,api.token.secret=api,api.readToken.secret=api,api.readToken.key=read-token,api.tlsSecret=tls,parallel=2,config.approval=never"}
	k := newKubelet(t, render(t, "1.31", values...), port, secrets)
	if got := fmt.Sprint(k.pod.SecurityContext["runAsNonRoot"], k.pod.SecurityContext["runAsUser"], k.pod.Containers[0].SecurityContext["readOnlyRootFilesystem"]); got != "true 65532 true" {
		t.Errorf("the container runs as non-root, user and with a read-only root: %s", got)
	}
	k.start()
	c := k.pod.Containers[0]
	for _, p := range []probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		eventually(t, "a probe is answered", func() bool { return k.answers(p) })
	}
	state := func(task string) bool {
		keys, _, err := consul.Client().KV().Keys("terrapulse/terraform-env:"+task, "", nil)
		return err == nil && slices.Contains(keys, "terrapulse/terraform-env:"+task)
	}
	eventually(t, "the task is applied, and its state is where the policy permits it", func() bool { return state("load-balancer") })

	// A changed ConfigMap is read without a restart.
	more := filepath.Join(t.TempDir(), "more.yaml")
	write(t, more, `tasks: {files: {more.yaml: "task: {name: second, module: /etc/terrapulse/tasks/modules/load-balancer, condition: {services: {names: [web]}}}"}}`)
	k.take(render(t, "1.31", append(values, "-f", more)...))
	k.mount()
	eventually(t, "the new task is applied", func() bool { return state("second") })
	if !k.answers(c.ReadinessProbe) {
		t.Error("it is not ready any more")
	}
	for _, mount := range c.VolumeMounts {
		if !mount.ReadOnly {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(k.dir, mount.MountPath))
		if err != nil {
			t.Fatal(err)
		}
		files, _ := k.volume(mount.Name)
		for _, e := range entries {
			if _, ok := files[e.Name()]; !ok && !strings.HasPrefix(e.Name(), "..") && e.Name() != "modules" {
				t.Errorf("it has written %s into %s, which is read-only", e.Name(), mount.MountPath)
			}
		}
	}
}

// The settings that the chart makes of each set of values are valid.
func TestChart_ItsSettingsAreValid(t *testing.T) {
	t.Parallel()
	program, authority := build(t), testtools.NewAuthority(t)
	cert, key := authority.Server("terrapulse")
	files := map[string]string{"tls.crt": read(t, cert), "tls.key": read(t, key), "token": "a-token-that-is-long-enough", "read-token": "another-token-that-is-long-enough"}
	for _, values := range valueFiles(t) {
		dir, mounted := t.TempDir(), t.TempDir()
		for _, document := range documents(render(t, "1.31", "-f", values)) {
			var m manifest
			if err := yaml.Unmarshal([]byte(document), &m); err != nil {
				t.Fatal(err)
			}
			if m.Kind != "ConfigMap" || m.Metadata.Name != "network-terrapulse" {
				continue
			}
			for name, text := range m.Data {
				for _, path := range regexp.MustCompile(`/etc/terrapulse/\S+`).FindAllString(text, -1) {
					write(t, mounted+path, files[filepath.Base(path)])
				}
				write(t, filepath.Join(dir, name), strings.ReplaceAll(text, "/etc/terrapulse/", mounted+"/etc/terrapulse/"))
			}
		}
		write(t, filepath.Join(dir, "task.yaml"), "task: {name: web, module: example/web/local, condition: {services: {names: [web]}}}")
		out, err := exec.CommandContext(t.Context(), program, "validate", "-config-dir", dir).CombinedOutput()
		if err != nil || strings.Contains(string(out), "Warning") {
			t.Errorf("%s: %v\n%s", filepath.Base(values), err, out)
		}
	}
}

// tokenFor returns a token for Consul that may do what a policy says.
func tokenFor(t *testing.T, consul *consultest.Server, policy string) string {
	t.Helper()
	acl := consul.Client().ACL()
	made, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "terrapulse", Rules: policy}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := acl.TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: made.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}
