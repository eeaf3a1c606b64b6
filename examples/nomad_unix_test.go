//go:build unix

package examples_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/process/nomad/nomadtest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Nomad runs three instances that find each other in a Consul with ACLs, with the tokens of their own identities. One
// leads, and another one when its allocation is stopped.
func TestNomadCluster_RunsThreeInstancesOfWhichOneLeads(t *testing.T) {
	t.Parallel()
	testtools.Nomad(t)
	consul := consultest.Start(t, consultest.WithACLs())
	agent := nomadtest.Start(t, nomadtest.WithConsul(consul.Addr(), consultest.ManagementToken))
	setup := exec.CommandContext(t.Context(), testtools.Nomad(t), "setup", "consul", "-y", "-jwks-url", agent.Addr()+"/.well-known/jwks.json")
	setup.Env = append(quietEnviron(), "NOMAD_ADDR="+agent.Addr(), "CONSUL_HTTP_ADDR="+consul.Addr(), "CONSUL_HTTP_TOKEN="+consultest.ManagementToken)
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("nomad setup consul: %v\n%s", err, out)
	}
	permit(t, consul)
	if err := consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-1", Address: "10.0.0.1", Port: 8080}); err != nil {
		t.Fatal(err)
	}
	tasks := archive(t, map[string]string{
		"tasks.yaml":    "task: {name: web, module: ./modules/web, condition: {services: {names: [web]}}}\n",
		"modules/web/x": "", "modules/web/main.tf": "variable \"services\" {}\nresource \"terraform_data\" \"web\" {\n  input = var.services\n}\n",
	})
	job := filepath.Join(t.TempDir(), "job.hcl")
	write(t, job, onThisMachine(t, read(t, example(t, "nomad/cluster.nomad.hcl")), t.TempDir()))
	out, err := agent.Command("job", "run", "-detach", "-var", "image=none", "-var", "tasks="+tasks, "-var", "consul="+consul.Addr(), "-var", "instance=instance-${NOMAD_ALLOC_INDEX}", job)
	if err != nil {
		t.Fatalf("nomad job run: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			explain(t, agent)
		}
		_, _ = agent.Command("job", "stop", "-detach", "terrapulse-cluster")
	})

	leaders := func() (leaders, healthy []string) {
		services, _, err := consul.Client().Health().Service("terrapulse", "", true, nil) // Nomad's health check passes
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range services {
			at := fmt.Sprintf("http://%s:%d", s.Service.Address, s.Service.Port)
			healthy = append(healthy, at)
			if strings.Contains(get(at+"/v1/metrics"), "\nterrapulse_leader 1\n") {
				leaders = append(leaders, at)
			}
		}
		return leaders, healthy
	}
	var first string
	eventually(t, "three instances are healthy, and one leads", func() bool {
		leads, healthy := leaders()
		if len(healthy) == 3 && len(leads) == 1 {
			first = leads[0]
		}
		return first != ""
	})
	eventually(t, "the task is applied", func() bool {
		return strings.Contains(get(first+"/v1/status/tasks/web"), `"successful"`)
	})
	var cluster struct {
		Members []struct {
			ID      string
			Healthy bool
		}
	}
	if err := json.Unmarshal([]byte(get(first+"/v1/status/cluster")), &cluster); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range cluster.Members {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	if fmt.Sprint(ids) != "[instance-0 instance-1 instance-2]" {
		t.Errorf("members %+v", cluster.Members)
	}
	tokens, _, err := consul.Client().ACL().TokenList(nil)
	if err != nil {
		t.Fatal(err)
	}
	logins := slices.DeleteFunc(tokens, func(token *api.ACLTokenListEntry) bool {
		return token.AuthMethod == "" || !slices.ContainsFunc(token.Roles, func(role *api.ACLLink) bool { return role.Name == "terrapulse" })
	})
	if len(logins) != 3 {
		t.Errorf("the instances do not use the tokens of their identities: %+v", tokens)
	}

	if out, err := agent.Command("alloc", "stop", "-detach", allocationAt(t, agent, first)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "another instance leads, and Nomad has replaced the one that was stopped", func() bool {
		leads, healthy := leaders()
		return len(healthy) == 3 && len(leads) == 1 && leads[0] != first
	})
}

// The templates of the cluster's job are valid settings with every value that Nomad and Vault put into them.
func TestNomadCluster_ItsSettingsAreValid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := map[string]string{"INSTANCE": "instance-0", "NOMAD_PORT_api": "8558", "NOMAD_IP_api": "10.0.0.1", "NOMAD_JOB_NAME": "terrapulse-cluster", "NOMAD_SECRETS_DIR": dir, "VAULT_ADDR": "https://vault.example.com:8200"}
	secrets := map[string]string{"api_token": "a-token-that-is-long-enough", "api_read_token": "another-token-that-is-long-enough"}
	write(t, filepath.Join(dir, "vault_token"), "token")
	write(t, filepath.Join(dir, "tasks", "web.hcl"), "task {\n  name = \"web\"\n  module = \"example/web/local\"\n  condition \"services\" {\n    names = [\"web\"]\n  }\n}\n")
	args := []string{"validate", "-config-dir", filepath.Join(dir, "tasks")}
	given := blocks(t, "cluster.nomad.hcl", "env")
	if len(given) != 1 {
		t.Fatalf("%d blocks env", len(given))
	}
	for _, block := range blocks(t, "cluster.nomad.hcl", "template") {
		file := filepath.Join(dir, filepath.Base(text(t, block, "destination")))
		settings, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{
			"env": func(name string) (string, error) {
				if _, set := given[0].Body.Attributes[name]; env[name] == "" || !set && !strings.HasPrefix(name, "NOMAD_") {
					return "", fmt.Errorf("the job does not set %s", name)
				}
				return env[name], nil
			},
			"secret": func(path string) (any, error) {
				if path != "kv/data/terrapulse" {
					return nil, fmt.Errorf("the README does not name %s", path)
				}
				return map[string]any{"Data": map[string]any{"data": secrets}}, nil
			},
		}).Parse(text(t, block, "data"))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var rendered strings.Builder
		if err := settings.Execute(&rendered, nil); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		write(t, file, rendered.String())
		args = append(args, "-config-file", file)
	}
	if len(args) != 7 {
		t.Fatalf("the job has other templates than instance.hcl and api.hcl: %q", args)
	}
	validate := exec.CommandContext(t.Context(), build(t), args...)
	validate.Env = quietEnviron()
	if out, err := validate.CombinedOutput(); err != nil || strings.Contains(string(out), "Warning") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The jobs start the program with a command and flags that it has, and read the files of their templates.
func TestNomadJobs_StartTheProgramWithFlagsThatItHas(t *testing.T) {
	t.Parallel()
	for _, job := range []string{"cluster.nomad.hcl", "terrapulse.nomad.hcl", "runner.nomad.hcl"} {
		var read []string
		for _, block := range blocks(t, job, "template") {
			read = append(read, filepath.Base(text(t, block, "destination")))
		}
		tasks := blocks(t, job, "config")
		if len(tasks) != 1 {
			t.Fatalf("%s has %d tasks", job, len(tasks))
		}
		value, diags := tasks[0].Body.Attributes["args"].Expr.Value(directories)
		if diags.HasErrors() {
			t.Fatalf("%s: %v", job, diags)
		}
		args := []string{}
		for _, arg := range value.AsValueSlice() {
			args = append(args, arg.AsString())
			if file, ok := strings.CutPrefix(arg.AsString(), "-config-file="); ok {
				read = slices.DeleteFunc(read, func(name string) bool { return name == filepath.Base(file) })
			}
		}
		if len(read) > 0 {
			t.Errorf("%s does not read its templates %q", job, read)
		}
		// Flags are read in their order, so the first one that is unknown is the last.
		out, err := exec.CommandContext(t.Context(), build(t), append(args, "-no-such-flag")...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "no-such-flag") {
			t.Errorf("%s: terrapulse %s: %v\n%s", job, strings.Join(args, " "), err, out)
		}
	}
}

// directories are those that Nomad's variables in a job name.
var directories = &hcl.EvalContext{Variables: map[string]cty.Value{"NOMAD_TASK_DIR": cty.StringVal("/local"), "NOMAD_SECRETS_DIR": cty.StringVal("/secrets")}}

// blocks returns the blocks of a type, wherever they are in a job.
func blocks(t *testing.T, job, kind string) (found []*hclsyntax.Block) {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(read(t, example(t, "nomad/"+job))), job, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var walk func(body *hclsyntax.Body)
	walk = func(body *hclsyntax.Body) {
		for _, block := range body.Blocks {
			if block.Type == kind {
				found = append(found, block)
			}
			walk(block.Body)
		}
	}
	walk(file.Body.(*hclsyntax.Body))
	return found
}

// text is the value of an attribute of a block.
func text(t *testing.T, block *hclsyntax.Block, name string) string {
	t.Helper()
	value, diags := block.Body.Attributes[name].Expr.Value(directories)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return value.AsString()
}

// onThisMachine is the job with raw_exec in place of Docker and its volume, on one machine, and without Vault.
func onThisMachine(t *testing.T, job, dir string) string {
	t.Helper()
	for _, replace := range []struct{ pattern, with string }{
		{`driver = "docker"`, `driver = "raw_exec"`},
		{`(?s)image        = var.image\n.*?(work_dir)`, fmt.Sprintf("command = %q\n        $1", build(t))},
		{`(?s)\n\n        readonly_rootfs = .*?mount \{.*?\n        \}`, ""},
		{`(?s)    # /var/lib/terrapulse: .*?volume "work" \{.*?\n    \}\n`, ""},
		{`(?s)      volume_mount \{.*?\n      \}\n`, ""},
		{`(?s)      # Templates in task files read.*?\n      vault \{.*?\n      \}\n`, ""},
		{`(?s)          vault \{\n.*?\n          \}\n`, ""},
		{`(?s)      # The token of the API.*?EOT\n.*?EOT\n      \}\n`, ""},
		{`"-config-file=\$\{NOMAD_SECRETS_DIR\}/api.hcl", `, ""},
		{`operator = "distinct_hosts"\n\s+value    = "true"`, "operator = \"distinct_hosts\"\n      value    = \"false\""},
		{`"/var/lib/terrapulse/sync-tasks"`, fmt.Sprintf(`"%s/{{ env "INSTANCE" }}"`, dir)},
		{`HOME( +)= "/var/lib/terrapulse"`, fmt.Sprintf("HOME$1= %q\n        PATH = %q\n        TF_CLI_CONFIG_FILE = %q", dir, path(t), testtools.TerraformRC(t))},
		{`cpu    = 500\n        memory = 1024`, "cpu    = 100\n        memory = 128"},
		{`kill_timeout = "10m"`, `kill_timeout = "1m"`},
		{`min_healthy_time  = "10s"`, `min_healthy_time  = "1s"`},
		{`interval = "10s"`, `interval = "1s"`},
	} {
		pattern := regexp.MustCompile(replace.pattern)
		if len(pattern.FindAllString(job, -1)) != 1 {
			t.Fatalf("the job does not have once: %s", replace.pattern)
		}
		job = pattern.ReplaceAllString(job, replace.with)
	}
	return job
}

// archive serves task files as a tarball, until the test ends.
func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	tarball := tar.NewWriter(zipped)
	for name, text := range files {
		if err := tarball.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := tarball.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	tarball.Close()
	zipped.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed.Bytes()) }))
	t.Cleanup(server.Close)
	return server.URL + "/tasks.tar.gz"
}

// permit does in Consul what the README of the example says.
func permit(t *testing.T, consul *consultest.Server) {
	t.Helper()
	readme := read(t, example(t, "nomad/README.md"))
	policy := regexp.MustCompile("(?s)```hcl\n(key_prefix.*?)```").FindStringSubmatch(readme)[1]
	file := filepath.Join(t.TempDir(), "policy.hcl")
	write(t, file, policy)
	commands := regexp.MustCompile("(?s)```sh\n(consul acl.*?)```").FindStringSubmatch(readme)[1]
	sh := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	sh.Dir = filepath.Dir(file)
	sh.Env = append(quietEnviron(), "CONSUL_HTTP_ADDR="+consul.Addr(), "CONSUL_HTTP_TOKEN="+consultest.ManagementToken,
		"PATH="+filepath.Dir(testtools.Consul(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

type allocation struct {
	ID, ClientStatus   string
	AllocatedResources struct {
		Shared struct{ Ports []struct{ Value int } }
	}
}

// allocationAt returns the id of the allocation whose API is at an address.
func allocationAt(t *testing.T, agent *nomadtest.Agent, address string) string {
	t.Helper()
	var all []struct{ ID, ClientStatus string }
	if err := agent.Call(http.MethodGet, "job/terrapulse-cluster/allocations", nil, &all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		var a allocation
		if err := agent.Call(http.MethodGet, "allocation/"+one.ID, nil, &a); err != nil {
			t.Fatal(err)
		}
		if ports := a.AllocatedResources.Shared.Ports; a.ClientStatus == "running" && len(ports) == 1 && strings.HasSuffix(address, fmt.Sprintf(":%d", ports[0].Value)) {
			return a.ID
		}
	}
	t.Fatalf("no allocation is at %s: %+v", address, all)
	return ""
}

// explain logs what the allocations say.
func explain(t *testing.T, agent *nomadtest.Agent) {
	t.Helper()
	status, _ := agent.Command("job", "status", "terrapulse-cluster")
	t.Log(status)
	var all []struct{ ID string }
	_ = agent.Call(http.MethodGet, "job/terrapulse-cluster/allocations", nil, &all)
	for _, one := range all {
		status, _ := agent.Command("alloc", "status", one.ID)
		log, _ := agent.Command("alloc", "logs", "-stderr", one.ID)
		t.Log(status, "\n", log)
	}
}
