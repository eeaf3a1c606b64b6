// Package examples_test runs every example against a real Consul with a real Terraform.
package examples_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestEveryExampleWritesItsFile(t *testing.T) {
	top := testtools.Root(t)
	if testing.Short() {
		t.Skip("runs Terraform for every example")
	}
	program := build(t)
	consul := consultest.Start(t)
	client := consul.Client()
	if err := client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		Name: "web", ID: "web-1", Address: "10.0.0.1", Port: 8080, Tags: []string{"public", "v2"},
	}); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"web/balance": "leastconn", "web/maintenance": "<Back> at noon", "features/search": "on",
	} {
		if _, err := client.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := client.ConfigEntries().Set(&api.ServiceIntentionsConfigEntry{Kind: api.ServiceIntentions, Name: "web", Sources: []*api.SourceIntention{
		{Name: "api", Action: api.IntentionActionAllow}, {Name: "db", Action: api.IntentionActionDeny},
	}}, nil); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+consul.Addr()+"/api/multicluster/v2/exportedservices/shop",
		strings.NewReader(`{"data": {"services": ["web", "api"], "consumers": [{"peer": "supplier"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(request); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("export services: %+v, %v", resp, err)
	}

	const (
		cloudState = "state of "
		haproxy    = "load-balancer/haproxy.cfg"
		page       = "maintenance/maintenance.html"
	)
	wants := map[string]map[string][]string{ // expected text in files, by example
		"quickstart/tasks.yaml": {
			haproxy: {"  balance leastconn\n", "  server web-1 10.0.0.1:8080 check\n"},
			page:    {"<h1>&lt;Back> at noon</h1>\n"},
		},
		"cts-hcl/tasks.hcl": {
			haproxy: {"  balance leastconn\n", "  server web-1 10.0.0.1:8080 check\n"},
			page:    {"<h1>&lt;Back> at noon</h1>\n"},
		},
		"canary/tasks.yaml":           {"web-muc/haproxy.cfg": {"  server web-1 10.0.0.1:8080 check\n"}, "web-ham/haproxy.cfg": {"  server web-1 10.0.0.1:8080 check\n"}},
		"catalog/tasks.yaml":          {"service-list/services.md": {"- consul\n", "- web: public, v2\n"}},
		"nodes/tasks.yaml":            {"targets/targets.json": {`"node":"consul-server"`, `"status":"passing"`, `"targets":["127.0.0.1:9100"]`}},
		"kv/tasks.yaml":               {"feature-flags/features.json": {`{"search":"on"}`}},
		"exports/tasks.yaml":          {"partners/partners.txt": {"supplier: api, web\n"}},
		"intentions/tasks.yaml":       {"firewall/rules.txt": {"allow api to web\n"}},
		"high-availability/tasks.hcl": {haproxy: {"  balance leastconn\n", "  server web-1 10.0.0.1:8080 check\n"}},
		"nomad/tasks.hcl":             {haproxy: {"  balance leastconn\n", "  server web-1 10.0.0.1:8080 check\n"}},
		"policy/tasks.yaml":           {"allow-list/rules/web-1.txt": {"allow 10.0.0.1\n"}},
		"terraform-cloud/tasks.hcl":   {cloudState + "cts-allow-list": {`"addresses": "10.0.0.1"`}},
		"schedule/tasks.yaml":         {"inventory/inventory.csv": {"service,address,port,node\n", "web,10.0.0.1,8080,consul-server\n"}},
	}
	found := 0
	for _, pattern := range []string{"*/tasks.yaml", "*/tasks.hcl"} {
		files, err := filepath.Glob(filepath.Join(top, "examples", filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		found += len(files)
	}
	if found != len(wants) {
		t.Errorf("%d examples, of which %d are tested", found, len(wants))
	}

	cloud := hcptest.New(t)
	for example, files := range wants {
		t.Run(filepath.Dir(example), func(t *testing.T) {
			if filepath.Dir(example) == "policy" {
				testtools.Conftest(t)
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(top, "examples"))); err != nil {
				t.Fatal(err)
			}
			dir = filepath.Join(dir, filepath.Dir(example))
			run := func(args ...string) string {
				cmd := exec.CommandContext(t.Context(), program, args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(),
					"CONSUL_HTTP_ADDR="+consul.Addr(),
					"TFC_HOSTNAME="+cloud.URL,
					"TFC_TOKEN="+cloud.Token,
					"TF_CLI_CONFIG_FILE="+testtools.TerraformRC(t),
					"PATH="+path(t))
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("terrapulse %s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			if out := run("validate", "-config-file", filepath.Base(example)); strings.Contains(out, "Warning") {
				t.Errorf("validate finds fault with it:\n%s", out)
			}
			run("start", "-once", "-config-file", filepath.Base(example))
			for file, texts := range files {
				workspace, remote := strings.CutPrefix(file, cloudState)
				content := cloud.Workspace(workspace).State
				if !remote {
					var err error
					if content, err = os.ReadFile(filepath.Join(dir, "sync-tasks", filepath.FromSlash(file))); err != nil {
						t.Error(err)
					}
				}
				for _, text := range texts {
					if !strings.Contains(string(content), text) {
						t.Errorf("%s lacks %q:\n%s", file, text, content)
					}
				}
			}
		})
	}
}

// path finds Terraform, and conftest where that is installed.
func path(t *testing.T) string {
	return strings.Join([]string{filepath.Dir(testtools.Terraform(t)), filepath.Join(testtools.Root(t), ".tools", "bin"), os.Getenv("PATH")}, string(os.PathListSeparator))
}

// built is the program, built once for all tests into a folder that TestMain removes.
var (
	programs string
	built    = sync.OnceValues(func() (string, error) {
		program := filepath.Join(programs, "terrapulse.exe") // the ending does no harm elsewhere
		return program, testtools.Build(program, "cmd/terrapulse")
	})
)

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "terrapulse-examples-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

func build(t *testing.T) string {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return program
}
