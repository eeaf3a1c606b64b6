package terraformcli

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestEnvironment_OfTheProcessFailsNoTask(t *testing.T) {
	for name, value := range map[string]string{
		"TF_VAR_services": "nonsense", "TF_LOG": "TRACE", "TF_LOG_PATH": "/nowhere/x", "TF_CLI_ARGS": "-bogus", "TF_CLI_ARGS_apply": "-bogus",
		"TF_WORKSPACE": "other", "TF_INPUT": "1", "TF_DATA_DIR": "elsewhere", "TF_REATTACH_PROVIDERS": "{", "TF_IN_AUTOMATION": "",
	} {
		t.Setenv(name, value)
	}
	f := newFixture(t, fileModule)
	d := f.open(func(o *Options) { o.Env = map[string]string{"SOME": "thing"} })
	f.init(d, true)
	f.apply(d)
	if got := read(t, filepath.Join(f.module, "names.txt")); got != "api" {
		t.Errorf("the file says %q", got)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "terraform.tfstate.d", "web")); err != nil {
		t.Error(err)
	}
}

func TestEnvironment_RefusesATaskEnvThatTerraformWouldNotGet(t *testing.T) {
	f := newFixture(t, fileModule)
	for name, want := range map[string]string{
		"TF_LOG":       "task_env of a provider of task web sets TF_LOG, which Terrapulse manages itself: remove it",
		"TF_VAR_x":     "use the task's variables",
		"TF_DATA_DIR":  "TF_DATA_DIR",
		"TF_WORKSPACE": "TF_WORKSPACE",
	} {
		opts := f.options()
		opts.Env = map[string]string{name: "secret-value"}
		_, err := f.bin.Open(f.dir, opts)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestEnvironment_WithholdsWhatTheTaskDoesNotNeed(t *testing.T) {
	for name, value := range map[string]string{
		"CONSUL_HTTP_TOKEN": "consul", "CONSUL_HTTP_TOKEN_FILE": "file", "CONSUL_TOKEN": "cts", "CONSUL_HTTP_AUTH": "auth", "VAULT_TOKEN": "vault",
		"TERRAPULSE_STORE": "ours", "CONSUL_HTTP_ADDR": "address", "VAULT_ADDR": "address", "PANOS_PASSWORD": "theirs", "AWS_SESSION_TOKEN": "theirs", "TF_TOKEN_app_terraform_io": "theirs",
	} {
		t.Setenv(name, value)
	}
	always := []string{"AWS_SESSION_TOKEN", "CONSUL_HTTP_ADDR", "PANOS_PASSWORD", "TF_TOKEN_app_terraform_io", "VAULT_ADDR"}
	for _, c := range []struct{ providers, more []string }{
		{nil, nil},
		{[]string{"panos", "vault"}, []string{"VAULT_TOKEN"}},
		{[]string{"consul"}, []string{"CONSUL_HTTP_AUTH", "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_TOKEN_FILE", "CONSUL_TOKEN"}},
	} {
		env, err := Options{Task: "web", Backend: config.Backend{Type: "local"}, Providers: c.providers}.environment()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for name := range env {
			if strings.HasPrefix(name, "CONSUL_") || strings.HasPrefix(name, "VAULT_") || strings.HasPrefix(name, "TERRAPULSE_") || slices.Contains(always, name) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		want := slices.Sorted(slices.Values(slices.Concat(always, c.more)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("providers %v: %s", c.providers, diff)
		}
	}
	explicit := Options{Task: "web", Env: map[string]string{"VAULT_TOKEN": "of task_env"}}
	if env, err := explicit.environment(); err != nil || env["VAULT_TOKEN"] != "of task_env" {
		t.Errorf("task_env is not handed on: %v", err)
	}
}

func TestEnvironment_WithholdsTheTokenFromABackendWithAnother(t *testing.T) {
	for _, c := range []struct {
		own       string
		providers []string
		want      string
	}{
		{"another", nil, ""},
		{"another", []string{"consul"}, "the-token"},
		{"", []string{"consul"}, "the-token"},
	} {
		body := config.Body{Attributes: map[string]cty.Value{"path": cty.StringVal("states"), "access_token": cty.StringVal(c.own)}}
		env, err := Options{Task: "web", Consul: config.Consul{Address: "consul.example:8500", Token: "the-token"},
			Backend: config.Backend{Type: "consul", Body: body}, Providers: c.providers}.environment()
		if err != nil {
			t.Fatal(err)
		}
		if got := env["CONSUL_HTTP_TOKEN"]; got != c.want {
			t.Errorf("access_token %q, providers %v: CONSUL_HTTP_TOKEN is %q, want %q", c.own, c.providers, got, c.want)
		}
	}
}

func TestDir_GivesTheTokenToAModuleThatUsesTheProvider(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	t.Setenv("CONSUL_HTTP_TOKEN", "of-consul")
	t.Setenv("VAULT_TOKEN", "of-vault")
	f := newFixture(t, fileModule)
	f.bin = recorder(t, "")
	lock := "provider \"registry.terraform.io/hashicorp/consul\" {\n  version = \"2.21.0\"\n}\n"
	if err := os.WriteFile(filepath.Join(f.dir, lockFile), []byte(lock), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.open().Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	env := f.bin.recorded(t, "env")
	if !strings.Contains(env, "CONSUL_HTTP_TOKEN=of-consul\n") {
		t.Error("a module that uses the provider consul, which its task does not list, has no token")
	}
	if strings.Contains(env, "of-vault") {
		t.Error("a module that does not use the provider vault has its token")
	}
}

func TestEnvironment_ConsulBackendConnectsAsTerrapulseDoes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	for _, name := range []string{"CONSUL_HTTP_ADDR", "CONSUL_HTTP_TOKEN"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", "another-token")
	f := newFixture(t, fileModule)
	f.cfg.Consul = config.Consul{Address: "consul.example:8501", Token: "the-token", Namespace: "team",
		Auth: config.BasicAuth{Enabled: true, Username: "me", Password: "pw"},
		TLS:  config.ClientTLS{Enabled: true, CACert: "ca.pem", Cert: "cert.pem", Key: "key.pem", ServerName: "name", CAPath: "cas"}}
	for backend, want := range map[string]bool{"consul": true, "local": false} {
		f.cfg.Terraform.Backend.Type = backend
		f.bin = recorder(t, "")
		if _, err := f.open(func(o *Options) { o.Env = map[string]string{"CONSUL_CACERT": "mine.pem"} }).Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		env := f.bin.recorded(t, "env")
		for _, entry := range []string{
			"CONSUL_HTTP_ADDR=consul.example:8501", "CONSUL_HTTP_AUTH=me:pw", "CONSUL_HTTP_SSL=true",
			"CONSUL_HTTP_SSL_VERIFY=false", "CONSUL_NAMESPACE=team", "CONSUL_CAPATH=cas", "CONSUL_CLIENT_CERT=cert.pem", "CONSUL_CLIENT_KEY=key.pem", "CONSUL_TLS_SERVER_NAME=name",
		} {
			if strings.Contains(env, entry+"\n") != want {
				t.Errorf("backend %s: %s is in the environment: %v", backend, entry, !want)
			}
		}
		if strings.Contains(env, "another-token") {
			t.Errorf("backend %s: a token file of the surroundings is in the environment", backend)
		}
		if piped := want && tokenPipes; strings.Contains(env, "CONSUL_HTTP_TOKEN_FILE=/") != piped || strings.Contains(env, "CONSUL_HTTP_TOKEN=the-token\n") != (want && !piped) {
			t.Errorf("backend %s: the token is not handed over as it should be", backend)
		}
		if !strings.Contains(env, "CONSUL_CACERT=mine.pem\n") {
			t.Errorf("backend %s: task_env does not count", backend)
		}
	}
}

func TestEnvironment_ConsulTokenOpensAStateWithACLs(t *testing.T) {
	server := consultest.Start(t, consultest.WithACLs())
	f := newFixture(t, fileModule)
	f.cfg.Consul = config.Consul{Address: server.Addr(), Token: consultest.ManagementToken}
	f.cfg.Terraform.Backend = config.Backend{Type: "consul", Body: config.Body{Attributes: map[string]cty.Value{
		"address": cty.StringVal(server.Addr()), "path": cty.StringVal("kv/terraform")}}}
	f.render("api")
	d := f.open()
	f.init(d, true)
	f.apply(d)
	pair, _, err := server.Client().KV().Get("kv/terraform-env:web", nil)
	if err != nil || pair == nil {
		t.Errorf("no state: %v, %v", pair, err)
	}
}
