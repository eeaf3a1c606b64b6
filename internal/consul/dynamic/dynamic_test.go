package dynamic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/consul/vault/vaulttest"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// cloud simulates AWS.
type cloud struct {
	mu     sync.Mutex
	values map[string]string
	reads  int
}

func (c *cloud) Secret(_ context.Context, id, key string) (string, error) {
	return c.get(strings.Trim(id+":"+key, ":"))
}

func (c *cloud) Parameter(_ context.Context, name string) (string, error) { return c.get(name) }

func (c *cloud) get(name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	v, ok := c.values[name]
	if !ok {
		return "", fmt.Errorf("read secret %s: there is none", name)
	}
	return v, nil
}

// fixture is the environment from which templates take values.
type fixture struct {
	t      *testing.T
	consul *consultest.Server
	vault  *vaulttest.Server
	aws    *cloud
	env    map[string]string
	log    bytes.Buffer
	*Evaluator
	address string // of Consul; the server's if empty
}

func newFixture(t *testing.T, options ...func(*fixture)) *fixture {
	t.Helper()
	h := &fixture{t: t, env: map[string]string{}, aws: &cloud{values: map[string]string{}}}
	h.vault = vaulttest.Start(t)
	h.Evaluator = &Evaluator{
		AWS:       func(context.Context) (AWS, error) { return h.aws, nil },
		LookupEnv: func(name string) (string, bool) { v, ok := h.env[name]; return v, ok },
		Context:   t.Context(),
		Log:       slog.New(slog.NewTextHandler(&h.log, nil)),
	}
	for _, o := range options {
		o(h)
	}
	return h
}

// withConsul adds a real Consul to a fixture.
func withConsul(h *fixture) {
	h.consul = consultest.Start(h.t)
	h.address = h.consul.Addr()
}

func (h *fixture) put(key, value string) {
	h.t.Helper()
	if _, err := h.consul.Client().KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
		h.t.Fatal(err)
	}
}

// load loads a configuration with these provider blocks and a task t that uses the named providers.
func (h *fixture) load(blocks string, providers ...string) (*config.Config, *config.Task) {
	h.t.Helper()
	for i, p := range providers {
		providers[i] = fmt.Sprintf("%q", p)
	}
	text := fmt.Sprintf(`
consul { address = %q }
vault {
  address = %q
  token = "root"
  renew_token = false
}
%s
task {
  name = "t"
  module = "org/module/x"
  providers = [%s]
  condition "schedule" { cron = "* * * * * * *" }
  module_input "services" { names = ["web"] }
}
`, h.address, h.vault.URL, blocks, strings.Join(providers, ", "))
	cfg := configtest.Load(h.t, h.t.TempDir(), "task.hcl", text)
	return cfg, &cfg.Tasks[0]
}

// evaluate returns the provider values for Terraform, and task_env.
func (h *fixture) evaluate(blocks string, providers ...string) (string, map[string]string, error) {
	h.t.Helper()
	cfg, task := h.load(blocks, providers...)
	v, err := h.Evaluate(h.t.Context(), cfg, task)
	if err != nil {
		return "", nil, err
	}
	raw, err := rootmodule.SecretValues(task, v.Config, v.Variables)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(raw), rootmodule.Env(task, v.Config), nil
}

// text evaluates one template.
func (h *fixture) text(template string) (string, error) {
	h.t.Helper()
	_, env, err := h.evaluate(fmt.Sprintf("terraform_provider \"p\" {\n task_env {\n V = %s\n }\n}", quote(template)), "p")
	return env["V"], err
}

// quote writes a string of HCL.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func TestEvaluate_AllPlacesOfAProvider(t *testing.T) {
	h := newFixture(t)
	h.env["TOKEN"], h.env["PORT"] = "T0KEN", "8443"
	h.vault.Put("kv/db", map[string]any{"user": "u", "password": "pa\"ss\n${x}", "port": 5432})
	h.vault.Put("secret/db", map[string]any{"password": "of version 2"})
	raw, env, err := h.evaluate(`
terraform_provider "p" {
  token  = "{{ env \"TOKEN\" }}"
  port   = "{{ env \"PORT\" }}"
  fixed  = "{{ not a template }}"
  number = 3
  hosts  = ["a", "{{ env \"TOKEN\" }}b"]
  nested {
    url   = "https://{{ with secret \"kv/db\" }}{{ .Data.user }}:{{ .Data.port }}{{ end }}@host"
    inner = { deep = "{{ with secret \"secret/db\" }}{{ .Data.data.password }}{{ end }}" }
  }
  task_env {
    PASSWORD = "{{ with secret \"kv/db\" }}{{ .Data.password }}{{ end }}"
    PLAIN    = "plain"
  }
}`, "p")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"p":{"fixed":"{{ not a template }}","hosts":["a","T0KENb"],"nested":{"inner":{"deep":"of version 2"},"url":"https://u:5432@host"},"number":3,"port":"8443","token":"T0KEN"}}`
	if raw != want {
		t.Errorf("Terraform gets\n%s, not\n%s", raw, want)
	}
	if want := map[string]string{"PASSWORD": "pa\"ss\n${x}", "PLAIN": "plain"}; !maps.Equal(env, want) {
		t.Errorf("task_env is %q", env)
	}
	if n := h.vault.Count("GET kv/db"); n != 1 {
		t.Errorf("a secret that is needed twice was read %d times", n)
	}
}

func TestEvaluate_FunctionsOfConsulTemplate(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul")
	}
	h := newFixture(t, withConsul)
	h.env["SET"] = "set"
	for k, v := range map[string]string{"app/token": "T", "app/sub/deep": "D", "app/empty": "", "a@b": "at", "json": `{"a": {"b": "c"}}`,
		"dir/one": "1", "dir2": "2", "dir2/three": "3"} {
		h.put(k, v)
	}
	agent := h.consul.Client().Agent()
	for _, s := range []*api.AgentServiceRegistration{
		{ID: "web-1", Name: "web", Port: 80, Address: "10.0.0.1", Tags: []string{"blue"}},
		{ID: "web-2", Name: "web", Port: 81, Address: "10.0.0.2", Check: &api.AgentServiceCheck{TTL: "1h", Status: "critical"}},
	} {
		if err := agent.ServiceRegister(s); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		entries, _, err := h.consul.Client().Health().Service("web", "", false, nil)
		if err == nil && len(entries) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the services are not there: %v", err)
		}
	}
	h.aws.values = map[string]string{"arn:aws:secretsmanager:eu-central-1:1:secret:x": "whole", "arn:aws:secretsmanager:eu-central-1:1:secret:x:password": "of a key", "/prod/token": "parameter"}
	h.vault.Put("kv/team/a", map[string]any{"x": "1"})
	for _, tt := range []struct{ template, want string }{
		{`{{ env "SET" }}`, "set"},
		{`{{- env "SET" -}}`, "set"},
		{`{{ env "SET" | toUpper }}`, "SET"},
		{`{{ envOrDefault "UNSET" "default" }}`, "default"},
		{`{{ mustEnv "SET" }}`, "set"},
		{`{{ key "app/token" }}`, "T"},
		{`{{ key "/app/token@dc1" }}`, "T"},
		{`{{ key "app/token" "dc=dc1" }}`, "T"},
		{`{{ key "a@b" "dc=dc1" }}`, "at"},
		{`{{ key "app/empty" }}`, ""},
		{`{{ keyOrDefault "app/none" "default" }}-{{ keyOrDefault "app/token" "default" }}`, "default-T"},
		{`{{ if keyExists "app/token" }}yes{{ end }}{{ if keyExists "app/none" }}no{{ end }}`, "yes"},
		{`{{ range ls "app" }}{{ .Key }}={{ .Value }} {{ end }}`, "empty= token=T "},
		{`{{ range tree "app" }}{{ .Path }} {{ end }}`, "app/empty app/sub/deep app/token "},
		{`{{ range ls "dir/" }}{{ .Key }}={{ .Value }} {{ end }}`, "one=1 "},
		{`{{ range tree "/dir/" }}{{ .Key }}={{ .Value }} {{ end }}`, "one=1 "},
		{`{{ range service "web" }}{{ .ID }}:{{ .Address }}:{{ .Port }} {{ end }}`, "web-1:10.0.0.1:80 "},
		{`{{ range service "blue.web@dc1|any" }}{{ .ID }} {{ end }}`, "web-1 "},
		{`{{ range service "web" "any" }}{{ .ID }} {{ end }}`, "web-1 web-2 "},
		{`{{ range services }}{{ .Name }} {{ end }}`, "consul web "},
		{`{{ range nodes "@dc1" }}{{ .Node }}{{ end }}`, "consul-server"},
		{`{{ with node "consul-server" }}{{ .Node.Node }} {{ len .Services }}{{ end }}`, "consul-server 3"},
		{`{{ range $i, $dc := datacenters }}{{ $dc }}{{ end }}`, "dc1"},
		{`{{ with $j := key "json" | parseJSON }}{{ $j.a.b }}{{ end }}`, "c"},
		{`{{ range secrets "kv/team" }}{{ . }}{{ end }}`, "a"},
		{`{{ with secret "kv/team/a" }}{{ .Data.x }}{{ end }}`, "1"},
		{`{{ with secret "db/creds" "ttl=1h" }}{{ .Data.password }}{{ end }}`, "issued-1"},
		{`{{ secretsmanager "arn:aws:secretsmanager:eu-central-1:1:secret:x" }}`, "whole"},
		{`{{ secretsmanager "arn:aws:secretsmanager:eu-central-1:1:secret:x" "password" }}`, "of a key"},
		{`{{ ssm "/prod/token" | base64Encode | base64Decode }}`, "parameter"},
	} {
		if got, err := h.text(tt.template); got != tt.want || err != nil {
			t.Errorf("%s is %q, not %q (%v)", tt.template, got, tt.want, err)
		}
	}
}

func TestEvaluate_MissingValueIsAnErrorThatNamesIt(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul")
	}
	h := newFixture(t, withConsul)
	h.vault.Put("kv/db", map[string]any{"password": "S3CRET"})
	h.vault.Put("secret/db", map[string]any{"password": "S3CRET"})
	h.put("secret", "S3CRET")
	began := time.Now()
	for _, tt := range []struct {
		template string
		want     []string
	}{
		{`{{ key "app/none" }}`, []string{`key "app/none"`, "no such key"}},
		{`{{ range safeLs "none" }}{{ .Key }}{{ end }}`, []string{`safeLs "none"`}},
		{`{{ with node "none" }}{{ .Node.Node }}{{ end }}`, []string{`node "none"`, "no such node"}},
		{`{{ with secret "kv/none" }}{{ .Data.x }}{{ end }}`, []string{`secret "kv/none"`, "no secret"}},
		{`{{ with secret "kv/db" }}{{ .Data.none }}{{ end }}`, []string{`no entry for key "none"`}},
		{`{{ with secret "secret/db" }}{{ .Data.password }}{{ end }}`, []string{`no entry for key "password"`, ".Data.data."}},
		{`{{ with secret "kv/db" }}{{ index .Data "none" }}{{ end }}`, []string{"missing"}},
		{`{{ secretsmanager "arn:none" }}`, []string{`secretsmanager "arn:none"`}},
		{`{{ ssm "/none" }}`, []string{`ssm "/none"`}},
		{`{{ mustEnv "NONE" }}`, []string{`mustEnv "NONE"`}},
		{`{{ key "secret" | parseInt }}`, []string{"parseInt", "whole number"}},
		{`{{ key "secret" | parseJSON }}`, []string{"parseJSON"}},
		{`{{ key "secret" | base64Decode }}`, []string{"base64Decode"}},
		{`{{ range key "secret" }}x{{ end }}`, []string{"cannot be evaluated"}},
		{`{{ key "secret" | slice 1 }}`, []string{"cannot be evaluated"}},
		{`{{ key "a?b=c" }}`, []string{"options are"}},
		{`{{ key "secret" | unknown }}`, []string{`"unknown" not defined`}},
		{`{{ key "secret" "x" }}`, []string{"options are"}},
	} {
		_, err := h.text(tt.template)
		for _, want := range append(tt.want, `provider "p"`, "task_env.V") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", tt.template, want, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: the error holds the secret: %v", tt.template, err)
		}
	}
	if took := time.Since(began); took > defaultPatience {
		t.Errorf("that took %s", took)
	}
	_, _, err := h.evaluate(`terraform_provider "p" {
  b { x = "{{ key \"one\" }}" }
  a = ["", "{{ key \"two\" }}"]
}`, "p")
	if err == nil || !strings.Contains(err.Error(), `provider "p", a[1]: key "two"`) || !strings.Contains(err.Error(), `provider "p", b.x: key "one"`) {
		t.Errorf("not all that is missing is named: %v", err)
	}
}

func TestEvaluate_UnsetVariableIsEmptyAndLogged(t *testing.T) {
	h := newFixture(t)
	got, err := h.text(`a{{ env "UNSET" }}b`)
	if got != "ab" || err != nil {
		t.Errorf("it is %q (%v)", got, err)
	}
	if log := h.log.String(); !strings.Contains(log, "task=t") || !strings.Contains(log, "variable=UNSET") || !strings.Contains(log, "provider=p") {
		t.Errorf("the log says: %s", log)
	}
}

func TestEvaluate_OnlyProvidersOfTheTask(t *testing.T) {
	h := newFixture(t)
	h.env["A"] = "a"
	raw, _, err := h.evaluate(`
terraform_provider "used" { v = "{{ env \"A\" }}" }
terraform_provider "used" {
  alias = "other"
  v     = "{{ with secret \"kv/none\" }}{{ .Data.x }}{{ end }}"
}
terraform_provider "unused" { v = "{{ ssm \"/none\" }}" }
`, "used")
	if err != nil || raw != `{"used":{"v":"a"}}` {
		t.Errorf("Terraform gets %s (%v)", raw, err)
	}
	if h.aws.reads+len(h.vault.Requests()) != 0 {
		t.Errorf("other providers' secrets were read: %v", h.vault.Requests())
	}
}

func TestEvaluate_RotatedSecretIsNoChangeOfTheTask(t *testing.T) {
	h := newFixture(t)
	h.vault.Put("kv/db", map[string]any{"password": "first"})
	h.aws.values["/token"] = "first"
	cfg, task := h.load(`terraform_provider "p" {
  v = "{{ with secret \"kv/db\" }}{{ .Data.password }}{{ end }}"
  w = "{{ ssm \"/token\" }}"
  b { v = ["{{ ssm \"/token\" }}"] }
  task_env { V = "{{ ssm \"/token\" }}" }
}`, "p")
	digest := task.Digest(cfg)
	for _, password := range []string{"first", "rotated"} {
		h.vault.Put("kv/db", map[string]any{"password": password})
		h.aws.values["/token"] = password
		v, err := h.Evaluate(t.Context(), cfg, task)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := rootmodule.SecretValues(task, v.Config, v.Variables)
		if want := fmt.Sprintf(`{"p":{"b":{"v":[%q]},"v":%[1]q,"w":%[1]q}}`, password); string(raw) != want || err != nil {
			t.Errorf("Terraform gets %s, not %s", raw, want)
		}
		if env := rootmodule.Env(task, v.Config); env["V"] != password {
			t.Errorf("task_env is %q, not %q", env["V"], password)
		}
		if !slices.Contains(v.Secrets, password) {
			t.Errorf("the secrets of the run are %q", v.Secrets)
		}
	}
	if now := task.Digest(cfg); now != digest {
		t.Error("the task has another definition now")
	}
}

func TestEvaluate_PartsOfAValueAreSecretAndLiteralTextIsNot(t *testing.T) {
	h := newFixture(t)
	h.vault.Put("kv/db", map[string]any{"user": "u-piece", "password": "p-piece"})
	cfg, task := h.load(`terraform_provider "p" {
  url = "https://{{ with secret \"kv/db\" }}{{ .Data.user }}:{{ .Data.password }}{{ end }}@host"
}`, "p")
	v, err := h.Evaluate(t.Context(), cfg, task)
	v.Secrets = v.Secrets[:len(v.Secrets)-len(h.inherited(cfg))]
	slices.Sort(v.Secrets)
	if want := []string{"https://u-piece:p-piece@host", "p-piece", "u-piece"}; err != nil || !slices.Equal(v.Secrets, want) {
		t.Errorf("the pieces are %q (%v)", v.Secrets, err)
	}
}

func TestEvaluate_SecretsThatTerraformInheritsAreThoseOfAnyTask(t *testing.T) {
	h := newFixture(t)
	t.Setenv("TF_TOKEN_example_com", "registry-token")
	h.env["OF_ANOTHER"], h.env["UNUSED"] = "value-of-another-provider", "plain-value"
	h.Hidden = []string{"git-password"}
	cfg, task := h.load(`terraform_provider "p" {
  url = "https://host"
}
terraform_provider "other" {
  task_env { X = "{{ envOrDefault \"OF_ANOTHER\" \"UNSET\" }}" }
}`, "p")
	v, err := h.Evaluate(t.Context(), cfg, task)
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]bool{"registry-token": true, "value-of-another-provider": true, "git-password": true, "plain-value": false, "UNSET": false} {
		if slices.Contains(v.Secrets, secret) != want {
			t.Errorf("%q is a secret: %v", secret, !want)
		}
	}
}

func TestEvaluate_TextBetweenActionsIsNotSecretHoweverItIsTrimmed(t *testing.T) {
	h := newFixture(t)
	h.env["V"] = "SECRET"
	for text, want := range map[string]string{
		"a {{- env `V` -}} b":                "aSECRETb",
		"a {{ env `V` -}} \n {{- env `V` }}": "a SECRETSECRET",
		`x{{ "}}" }}y{{/* }} */}}z`:          "x}}yz",
		"x{{- 3 }}y{{ print `}}` }} z":       "x3y}} z",
		"{{ if true }} a {{ else }}b{{ end }}{{ range split \",\" \"1,2\" }} - {{ . }}{{ end }}": " a  - 1 - 2",
	} {
		l := &lookups{Evaluator: h.Evaluator, ctx: t.Context()}
		r := l.evaluate(values.Site{Text: text})
		if r.Err != nil || r.Text != want {
			t.Errorf("%q is %q (%v)", text, r.Text, r.Err)
		}
		for _, piece := range r.Pieces {
			if !slices.Contains([]string{"SECRET", "}}", "3", "1", "2"}, piece) {
				t.Errorf("%q: the text %q is taken for a secret", text, piece)
			}
		}
	}
}

func TestEvaluate_HangingLookUpTimesOutAndIsNamed(t *testing.T) {
	h := newFixture(t)
	proxy := consultest.NewProxy(t, "127.0.0.1:1")
	proxy.Set(consultest.Hanging)
	h.address, h.Patience = proxy.Addr(), 200*time.Millisecond
	h.vault.Hang(true)
	for template, want := range map[string]string{
		`{{ key "a/b" }}`: `key "a/b": no answer within 200ms`,
		`{{ with secret "kv/db" }}{{ .Data.x }}{{ end }}`: `secret "kv/db"`,
	} {
		_, err := h.text(template)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "no answer within 200ms") {
			t.Errorf("%s: %v", template, err)
		}
	}
	// A stopped run does not wait that long, and says why.
	h.Patience = time.Hour
	stopped := errors.New("ECS stopped the container")
	ctx, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { stop(stopped) })
	cfg, task := h.load(`terraform_provider "p" { v = "{{ key \"a\" }}" }`, "p")
	if _, err := h.Evaluate(ctx, cfg, task); !errors.Is(err, stopped) {
		t.Errorf("the error of a run that is stopped: %v", err)
	}
}

func TestCheck_FindsUnknownFunctions(t *testing.T) {
	h := newFixture(t)
	cfg, task := h.load(`terraform_provider "p" { v = "{{ key \"a\" | shout }}" }`, "p")
	if err := Check(cfg, task); err == nil || !strings.Contains(err.Error(), `provider "p", v: function "shout" not defined`) {
		t.Errorf("the error is %v", err)
	}
	cfg, task = h.load(`terraform_provider "p" { v = "{{ key \"a\" | toUpper }}" }`, "p")
	if err := Check(cfg, task); err != nil {
		t.Error(err)
	}
}

func TestEvaluate_PossiblyHiddenListIsAnError(t *testing.T) {
	h := newFixture(t, func(h *fixture) {
		h.consul = consultest.Start(h.t, consultest.WithACLs())
		h.address = h.consul.Addr()
	})
	h.put("app/a", "1")
	if err := h.consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	templates := []string{
		`{{ range ls "app" }}{{ .Value }}{{ end }}`,
		`{{ range tree "app" }}{{ .Value }}{{ end }}`,
		`{{ range services }}{{ .Name }}{{ end }}`,
		`{{ range service "web" }}{{ .Port }}{{ end }}`,
		`{{ range nodes }}{{ .Node }}{{ end }}`,
	}
	policy, _, err := h.consul.Client().ACL().PolicyCreate(&api.ACLPolicy{Name: "p"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := h.consul.Client().ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"", token.SecretID} {
		t.Setenv("CONSUL_HTTP_TOKEN", secret)
		for _, template := range templates {
			h.Evaluator.consul = nil
			if v, err := h.text(template); err == nil || !strings.Contains(err.Error(), "CONSUL_HTTP_TOKEN") {
				t.Errorf("%s, token %t: %q, %v", template, secret != "", v, err)
			}
		}
	}
	policy.Rules = `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" } key_prefix "" { policy = "read" }`
	if _, _, err := h.consul.Client().ACL().PolicyUpdate(policy, nil); err != nil {
		t.Fatal(err)
	}
	for _, template := range append(templates, `{{ range ls "none" }}x{{ end }}`, `{{ range service "none" }}x{{ end }}`) {
		if _, err := h.text(template); err != nil {
			t.Errorf("%s, with the rights: %v", template, err)
		}
	}
}
