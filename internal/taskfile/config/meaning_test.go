package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

func TestLoad_DefaultsAreFilledIn(t *testing.T) {
	cfg := load(t, "f.hcl", "# nothing is configured\n")
	dir := cfg.Terraform.Path
	transport := Transport{
		DialKeepAlive: 30 * time.Second, DialTimeout: 30 * time.Second, IdleConnTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 100, TLSHandshakeTimeout: 10 * time.Second,
	}
	want := &Config{
		LogLevel: "INFO", Port: 8558, WorkingDir: "sync-tasks", ID: "cts-host", RunTimeout: time.Hour, KeepRemoved: 720 * time.Hour, AuditRetention: 8760 * time.Hour,
		Syslog: Syslog{Facility: "LOCAL0", Name: "consul-terraform-sync"},
		Consul: Consul{
			Address: "localhost:8500", KVPath: "consul-terraform-sync/",
			TLS: ClientTLS{Verify: true}, Transport: transport,
			ServiceRegistration: ServiceRegistration{
				Enabled: true, ServiceName: "consul-terraform-sync", DefaultCheck: DefaultCheck{Enabled: true},
			},
		},
		Vault: Vault{TLS: ClientTLS{Enabled: true, Verify: true}, Transport: transport},
		Terraform: Terraform{
			Engine: "terraform", Path: dir,
			Backend: Backend{Type: "consul", Body: Body{Attributes: map[string]cty.Value{
				"address": cty.StringVal("localhost:8500"), "path": cty.StringVal("consul-terraform-sync/terraform"), "gzip": cty.True,
			}}},
		},
		BufferPeriod: BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 20 * time.Second},
		Rules:        defaultRules,
		Tasks:        []Task{},
	}
	if diff := cmp.Diff(want, cfg, ctyValues); diff != "" {
		t.Errorf("unexpected (-want +got):\n%s", diff)
	}
	if !filepath.IsAbs(dir) {
		t.Errorf("the folder of Terraform is not absolute: %s", dir)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings %v", cfg.Warnings)
	}

	for _, text := range []string{services, `condition "catalog-services" { regexp = "" }`, `condition "consul-kv" { path = "p" }`} {
		c := load(t, "f.hcl", aTask(text)).Tasks[0].Condition
		if kv, ok := c.Spec.(condition.ConsulKV); !c.UseAsModuleInput || ok && kv.Recurse {
			t.Errorf("%s: %+v", text, c)
		}
	}
	if longest := strings.Repeat("x", 200); load(t, "f.hcl", strings.Replace(aTask(services), `"t"`, `"`+longest+`"`, 1)).Tasks[0].Name != longest {
		t.Error("a name of 200 bytes is another one")
	}
	task := load(t, "f.hcl", aTask(services)).Tasks[0]
	if !task.Enabled || !task.Condition.UseAsModuleInput || task.WorkingDir != filepath.Join("sync-tasks", "t") || !task.LocalModule() {
		t.Errorf("task: %+v", task)
	}
}

func TestLoad_EnvironmentSetsKeysThatNoFileSets(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, file string
		env        map[string]string
		get        func(*Config) any
		want       any
	}{
		{"address", "", map[string]string{"CONSUL_HTTP_ADDR": "a:1"}, func(c *Config) any { return c.Consul.Address }, "a:1"},
		{"address that is set", `consul { address = "b:1" }`, map[string]string{"CONSUL_HTTP_ADDR": "a:1"}, func(c *Config) any { return c.Consul.Address }, "b:1"},
		{"address of the default backend", "", map[string]string{"CONSUL_HTTP_ADDR": "a:1"}, func(c *Config) any { return c.Terraform.Backend.Body.Attributes["address"].AsString() }, "a:1"},
		{"https", "", map[string]string{"CONSUL_HTTP_ADDR": "a:1", "CONSUL_HTTP_SSL": "true"}, func(c *Config) any { return c.Consul.Address }, "https://a:1"},
		{"token", "", map[string]string{"CONSUL_TOKEN": "1", "CONSUL_HTTP_TOKEN": "2"}, func(c *Config) any { return c.Consul.Token }, "1"},
		{"token, second choice", "", map[string]string{"CONSUL_HTTP_TOKEN": "2"}, func(c *Config) any { return c.Consul.Token }, "2"},
		{"token that is set", `consul { token = "3" }`, map[string]string{"CONSUL_TOKEN": "1", "CONSUL_HTTP_TOKEN_FILE": tokenFile}, func(c *Config) any { return c.Consul.Token }, "3"},
		{"token from a file", "", map[string]string{"CONSUL_HTTP_TOKEN_FILE": tokenFile}, func(c *Config) any { return c.Consul.Token }, "from-file"},
		{"namespace", "", map[string]string{"CONSUL_NAMESPACE": "n"}, func(c *Config) any { return c.Consul.Namespace }, "n"},
		{"partition", "", map[string]string{"CONSUL_PARTITION": "p"}, func(c *Config) any { return c.Consul.Partition }, "p"},
		{"basic authentication", "", map[string]string{"CONSUL_HTTP_AUTH": "u:p:q"}, func(c *Config) any { return c.Consul.Auth }, BasicAuth{true, "u", "p:q"}},
		{"TLS does not come from the environment alone", "", map[string]string{"CONSUL_CACERT": "/ca", "CONSUL_TLS_SERVER_NAME": "s"},
			func(c *Config) any { return c.Consul.TLS }, ClientTLS{Verify: true}},
		{"files of TLS for an address with https", "", map[string]string{"CONSUL_HTTP_ADDR": "https://c", "CONSUL_CACERT": "/ca", "CONSUL_TLS_SERVER_NAME": "s"},
			func(c *Config) any { return c.Consul.TLS }, ClientTLS{CACert: "/ca", ServerName: "s", Verify: true}},
		{"TLS", `consul { tls { ca_path = "/d" } }`, map[string]string{"CONSUL_CAPATH": "/no", "CONSUL_CLIENT_CERT": "/c", "CONSUL_CLIENT_KEY": "/k"},
			func(c *Config) any { return c.Consul.TLS }, ClientTLS{Enabled: true, CAPath: "/d", Cert: "/c", Key: "/k", Verify: true}},
		{"a certificate's file holds the key too", `consul { tls { cert = "/c" } }`, nil, func(c *Config) any { return c.Consul.TLS }, ClientTLS{Enabled: true, Cert: "/c", Key: "/c", Verify: true}},
		{"syslog", `syslog { facility = "local2" }`, nil, func(c *Config) any { return c.Syslog }, Syslog{true, "LOCAL2", "consul-terraform-sync"}},
		{"syslog by its name", `syslog { name = "x" }`, nil, func(c *Config) any { return c.Syslog }, Syslog{true, "LOCAL0", "x"}},
		{"syslog that is off", "syslog {\n enabled = false\n name = \"x\"\n}", nil, func(c *Config) any { return c.Syslog }, Syslog{false, "LOCAL0", "consul-terraform-sync"}},
		{"Vault is enabled by its address", "", map[string]string{"VAULT_ADDR": "http://v"}, func(c *Config) any { return c.Vault.Enabled }, true},
		{"Vault that is disabled", `vault { enabled = false }`, map[string]string{"VAULT_ADDR": "http://v"}, func(c *Config) any { return c.Vault.Enabled }, false},
		{"Vault's TLS", `vault { address = "http://v" }`, map[string]string{"VAULT_CACERT": "/a", "VAULT_CAPATH": "/b", "VAULT_CLIENT_CERT": "/c", "VAULT_CLIENT_KEY": "/k", "VAULT_TLS_SERVER_NAME": "s", "VAULT_SKIP_VERIFY": "1"},
			func(c *Config) any { return c.Vault.TLS }, ClientTLS{Enabled: true, CACert: "/a", CAPath: "/b", Cert: "/c", Key: "/k", ServerName: "s"}},
		{"Vault's token", `vault { address = "http://v" }`, map[string]string{"VAULT_TOKEN": "v", "VAULT_NAMESPACE": "n", "VAULT_UNWRAP_TOKEN": "true"},
			func(c *Config) any { v := c.Vault; return []any{v.Token, v.Namespace, v.RenewToken, v.UnwrapToken} }, []any{"v", "n", true, true}},
		{"Vault's agent token wins", fmt.Sprintf(`vault { vault_agent_token_file = %q }`, tokenFile), map[string]string{"VAULT_ADDR": "http://v", "VAULT_TOKEN": "v"},
			func(c *Config) any { return []any{c.Vault.Token, c.Vault.RenewToken} }, []any{"from-file", false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := loadEnv(t, tt.env, "f.hcl", "# \n"+tt.file)
			if diff := cmp.Diff(tt.want, tt.get(cfg)); diff != "" {
				t.Errorf("unexpected (-want +got):\n%s", diff)
			}
		})
	}
}

// everyBlock calls f for each block of a file that a schema has, with the keys above it and the
// prefix of its variables.
func everyBlock(t reflect.Type, above []string, prefix string, f func(t reflect.Type, above []string, prefix string)) {
	f(t, above, prefix)
	for _, k := range schemaOf(t).keys {
		inner, under := k.typ, append(slices.Clone(above), k.name)
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if k.say == "" && !k.field && inner.Kind() == reflect.Struct {
			everyBlock(inner, under, map[bool]string{true: prefix, false: k.prefix}[k.prefix == ""], f)
		}
	}
}

func TestLoad_EmptyStringIsNoValue(t *testing.T) {
	everyBlock(reflect.TypeFor[rawConfig](), nil, "", func(of reflect.Type, above []string, _ string) {
		n := &node{kind: kindObject}
		for _, k := range schemaOf(of).keys {
			if k.say == "" && k.deprecated == "" && k.tag.Get("empty") == "" && !hasLabels(k.typ) {
				n.entries = append(n.entries, entry{key: k.name, value: &node{kind: kindString}})
			}
		}
		l, b := loader{Options: options("/")}, reflect.New(of).Elem()
		l.block(n, b, strings.Join(above, "."))
		if len(l.Errors) > 0 {
			t.Errorf("%s: %v", above, l.Errors)
		}
		for _, k := range schemaOf(of).keys {
			if v, ok := fieldOf(k.in(b)).(interface{ origin(*loader) *block.Origin }); ok && v.origin(&l).Set {
				t.Errorf("%s: %s is set", above, k.name)
			}
		}
	})

	env := map[string]string{"CONSUL_HTTP_ADDR": "c:1", "CONSUL_HTTP_TOKEN": "c", "VAULT_ADDR": "http://v", "VAULT_TOKEN": "v"}
	const file = `
log_level = %[1]s
port = %[1]s
id = %[1]s
working_dir = %[1]s
syslog {
  enabled = %[1]s
  name = %[1]s
}
tls {
  enabled = %[1]s
  cert = %[1]s
}
consul {
  address = %[1]s
  token = %[1]s
  kv_path = %[1]s
  tls { ca_cert = %[1]s }
  transport { max_idle_conns = %[1]s }
}
vault {
  address = %[1]s
  token = %[1]s
}
buffer_period { min = %[1]s }
driver "terraform" {
  version = %[1]s
  path = %[1]s
}
task {
  name = "t"
  module = "./m"
  version = %[1]s
  working_dir = %[1]s
  condition "services" {
    names = ["web"]
    datacenter = %[1]s
    filter = %[1]s
    use_as_module_input = %[1]s
  }
}`
	dir := t.TempDir()
	in := func(text string) *Config {
		writeFile(t, dir, "f.hcl", text)
		o := options(dir, "f.hcl")
		o.Getenv = environment(env)
		return mustLoad(t, o)
	}
	empty := in(fmt.Sprintf(file, `""`))
	without := in(regexp.MustCompile(`[a-z_]+ = %\[1\]s`).ReplaceAllString(file, ""))
	if diff := cmp.Diff(without, empty, ctyValues); diff != "" {
		t.Errorf("with empty strings (-without the keys, +with them):\n%s", diff)
	}
}

// A block that is switched off is neither read nor checked, whatever is in it and whatever the
// environment says.
func TestLoad_BlockThatIsOffHasNoEffect(t *testing.T) {
	junk := map[string]any{"string": "nowhere", "bool": true, "number": -1, "duration": "-1h"}
	checked := 0
	everyBlock(reflect.TypeFor[rawConfig](), nil, "", func(of reflect.Type, above []string, prefix string) {
		if enabled, ok := schemaOf(of).find("enabled"); !ok || enabled.typ.Kind() != reflect.Bool {
			return // of a task or a rule, which has a base that another one turns on
		}
		checked++
		env := map[string]string{"TFC_ORGANIZATION": "o", "TFC_TOKEN": "t"}
		alone := maps.Clone(env)
		var inside func(of reflect.Type) map[string]any
		inside = func(of reflect.Type) map[string]any {
			keys := map[string]any{}
			for _, k := range schemaOf(of).keys {
				if keys[k.name] = junk[k.value]; !k.field {
					keys[k.name] = inside(k.typ)
				}
				for _, name := range k.variables(prefix) {
					env[name] = "nowhere"
				}
			}
			return keys
		}
		with := func(keys map[string]any) string {
			file := map[string]any{"task": map[string]any{"name": "t", "module": "./m", "condition": map[string]any{"services": map[string]any{"names": "web"}}}}
			if above[0] == "nomad" {
				file["high_availability"] = map[string]any{"cluster": map[string]any{"name": "c"}}
				file["nomad"] = map[string]any{"job": "j"}
			}
			at := file
			for _, name := range above {
				if at[name] == nil {
					at[name] = map[string]any{}
				}
				at = at[name].(map[string]any)
			}
			maps.Copy(at, keys)
			at["enabled"] = false
			src, err := json.Marshal(file)
			if err != nil {
				t.Fatal(err)
			}
			return string(src)
		}
		full, dir := with(inside(of)), t.TempDir()
		in := func(env map[string]string, text string) *Config {
			writeFile(t, dir, "f.json", text)
			o := options(dir, "f.json")
			o.Getenv = environment(env)
			return mustLoad(t, o)
		}
		if diff := cmp.Diff(in(alone, with(nil)), in(env, full), ctyValues); diff != "" {
			t.Errorf("%s (-enabled alone, +with keys and variables):\n%s", strings.Join(above, "."), diff)
		}
	})
	if checked < 10 {
		t.Errorf("only %d blocks have a switch", checked)
	}
}

// A rule that is off is checked all the same: its values are those of a task that turns it on.
func TestLoad_RuleThatIsOffIsTheBaseOfATaskThatTurnsItOn(t *testing.T) {
	const off = `
guard {
  enabled     = false
  max_removed = %s
}
drift {
  enabled = false
  every   = "2h"
}
check "policy" {
  enabled = false
  command = ["conftest"]
}
verify "vip" {
  enabled = false
  command = ["./vip"]
}
`
	task := load(t, "f.hcl", fmt.Sprintf(off, "7")+aTask(services+`
  guard { enabled = true }
  drift { enabled = true }
  check "policy" { enabled = true }
  verify "vip" { enabled = true }
`)).Tasks[0]
	if g, d := task.Guard, task.Drift; !g.Enabled || *g.MaxRemoved != 7 || !d.Enabled || d.Every != 2*time.Hour {
		t.Errorf("%+v, %+v", g, d)
	}
	if c, v := task.Checks[0], task.Verify[0]; !c.Enabled || c.Command[0] != "conftest" || !v.Enabled || v.Command[0] != "./vip" {
		t.Errorf("%+v, %+v", c, v)
	}
	if got := mistakesIn(t, options(write(t, "f.hcl", fmt.Sprintf(off, "-1")), "f.hcl")); !strings.Contains(got, `"-1" is negative`) {
		t.Errorf("a rule that is off says: %s", got)
	}

	buffered := func(keys string) BufferPeriod {
		return load(t, "f.hcl", aTask(services+"\n  buffer_period {\n"+keys+"\n  }")).Tasks[0].BufferPeriod // no other block has its values
	}
	if got := buffered("enabled = false\nmin = \"-1h\"\nmax = \"-2h\""); got != buffered("enabled = false") {
		t.Errorf("a buffer period that is off: %+v", got)
	}
}

func TestLoad_WrongEnvironmentVariableIsNamed(t *testing.T) {
	for name, want := range map[string]string{
		"VAULT_RENEW_TOKEN":      `environment variable VAULT_RENEW_TOKEN: cannot parse "maybe" as a bool; allowed: true, false`,
		"VAULT_SKIP_VERIFY":      `environment variable VAULT_SKIP_VERIFY: cannot parse "maybe" as a bool; allowed: true, false`,
		"CONSUL_HTTP_TOKEN_FILE": `environment variable CONSUL_HTTP_TOKEN_FILE: open maybe: no such file or directory`,
	} {
		o := options(write(t, "f.hcl", "# \n"), "f.hcl")
		o.Getenv = environment(map[string]string{name: "maybe", "VAULT_ADDR": "http://v"})
		if got := mistakesIn(t, o); got != want {
			t.Errorf("said:\n%s\nwant:\n%s", got, want)
		}
	}
}

func TestLoad_MergesFilesInOrderOfTheCommandLine(t *testing.T) {
	dir := write(t,
		"d/b.json", `{"task": {"name": "b", "module": "./b", "condition": {"consul-kv": {"path": "b"}}}}`,
		"d/a.yaml", "port: 1\nconsul: {address: a, kv_path: k}\ndriver: {terraform: {backend: {s3: {bucket: a, key: k}}, required_providers: {x: 1.0.0}}}\n"+
			"task:\n  name: a\n  module: ./a\n  condition: {consul-kv: {path: a}}\n",
		"d/ignored.txt", "x", "d/sub/c.hcl", "bogus = 1", "d/terrapulse.schema.json", string(JSONSchema()),
		"z.hcl", "port = 2\nconsul { address = \"z\" }\ndriver \"terraform\" {\n backend \"s3\" { bucket = \"z\" }\n required_providers { y = \"2.0.0\" }\n}\n"+
			strings.ReplaceAll(aTask(`condition "consul-kv" { path = "z" }`), `"t"`, `"z"`),
	)
	cfg := mustLoad(t, options(dir, "d", "z.hcl"))
	if cfg.Port != 2 || cfg.Consul.Address != "z" || cfg.Consul.KVPath != "k" {
		t.Errorf("merged: %d %q %q", cfg.Port, cfg.Consul.Address, cfg.Consul.KVPath)
	}
	want := Body{Attributes: map[string]cty.Value{"bucket": cty.StringVal("z"), "key": cty.StringVal("k")}}
	if diff := cmp.Diff(want, cfg.Terraform.Backend.Body, ctyValues); diff != "" {
		t.Errorf("backend:\n%s", diff)
	}
	if len(cfg.Terraform.RequiredProviders) != 2 {
		t.Errorf("required providers: %v", cfg.Terraform.RequiredProviders)
	}
	var names []string
	for _, task := range cfg.Tasks {
		names = append(names, task.Name+" "+task.Source.String())
	}
	sep := string(filepath.Separator)
	if diff := cmp.Diff([]string{"a d" + sep + "a.yaml:5", "b d" + sep + "b.json:1", "z z.hcl:7"}, names); diff != "" {
		t.Errorf("tasks:\n%s", diff)
	}
	if cfg := mustLoad(t, options(dir, "z.hcl", "d")); cfg.Port != 1 {
		t.Errorf("port %d, the later file should win", cfg.Port)
	}
}

func TestHighAvailability_DefaultsAndKeys(t *testing.T) {
	if cfg := load(t, "f.hcl", "# nothing\n"); cfg.HighAvailability != nil {
		t.Errorf("without the block: %+v", cfg.HighAvailability)
	}

	cfg := load(t, "f.hcl", `high_availability {
  cluster { name = "prod" }
}`)
	want := &HighAvailability{Cluster: Cluster{Name: "prod", Storage: ClusterStorage{Consul: ConsulStorage{ParentPath: "consul-terraform-sync/", SessionTTL: 15 * time.Second}}}}
	if diff := cmp.Diff(want, cfg.HighAvailability); diff != "" {
		t.Errorf("defaults:\n%s", diff)
	}
	if got := cfg.HighAvailability.Cluster.Path(); got != "consul-terraform-sync/prod" {
		t.Errorf("path %q", got)
	}

	// What the instances share, and what is each one's own.
	dir := write(t,
		"shared.yaml", "high_availability:\n  cluster:\n    name: prod\n    storage: {consul: {parent_path: /a//b, namespace: n, session_ttl: 30s}}\n",
		"own.json", `{"high_availability": {"instance": {"address": "cts-01.example.com"}}}`)
	cfg = mustLoad(t, options(dir, "shared.yaml", "own.json"))
	want = &HighAvailability{
		Cluster:  Cluster{Name: "prod", Storage: ClusterStorage{Consul: ConsulStorage{ParentPath: "/a//b", Namespace: "n", SessionTTL: 30 * time.Second}}},
		Instance: Instance{Address: "cts-01.example.com"},
	}
	if diff := cmp.Diff(want, cfg.HighAvailability); diff != "" {
		t.Errorf("merged:\n%s", diff)
	}
	if got := cfg.HighAvailability.Cluster.Path(); got != "a/b/prod" {
		t.Errorf("path %q", got)
	}
	if cfg.Digest() != mustLoad(t, options(write(t, "f.yaml", "port: 1\n"), "f.yaml")).Digest() {
		t.Error("the digest depends on it")
	}
}

func TestVariables_TypesAndPrecedence(t *testing.T) {
	dir := write(t,
		"f.hcl", aTask(services+`
  variables {
    text    = "\"a\""
    number  = 12
    list    = "[1, \"b\"]"
    old     = "1"
  }
  variable_files = ["one.tfvars", "two.tfvars", "three.tfvars.json"]`),
		"one.tfvars", "old = 2\nlater = 1\nnothing = null\nliteral = \"$${x} %%{y}\"\nobjects = [{ a = 1 }, { a = null }]\n",
		"two.tfvars", "later = 2\n",
		"three.tfvars.json", `{"json": {"a": ["b"]}}`,
	)
	cfg := mustLoad(t, options(dir, "f.hcl"))
	object := func(v cty.Value) cty.Value { return cty.ObjectVal(map[string]cty.Value{"a": v}) }
	want := map[string]cty.Value{
		"text": cty.StringVal("a"), "number": cty.NumberIntVal(12), "list": cty.TupleVal([]cty.Value{cty.NumberIntVal(1), cty.StringVal("b")}),
		"old": cty.NumberIntVal(2), "later": cty.NumberIntVal(2), "nothing": cty.NullVal(cty.DynamicPseudoType),
		"literal": cty.StringVal("${x} %{y}"),
		"objects": cty.TupleVal([]cty.Value{object(cty.NumberIntVal(1)), object(cty.NullVal(cty.DynamicPseudoType))}),
		"json":    object(cty.TupleVal([]cty.Value{cty.StringVal("b")})),
	}
	if diff := cmp.Diff(want, cfg.Tasks[0].Variables, ctyValues); diff != "" {
		t.Errorf("unexpected (-want +got):\n%s", diff)
	}
	cfg.Tasks[0].Digest(cfg) // of every kind of value
}

func TestLoad_DeprecatedKeys(t *testing.T) {
	const service = "service {\n name = \"api\"\n id = \"a1\"\n datacenter = \"dc2\"\n filter = \"Service.Port == 1\"\n cts_user_defined_meta { k = \"v\" }\n}\n"
	queries := condition.Services{
		{Names: []string{"api"}, Datacenter: "dc2", Filter: "Service.Port == 1", CTSUserDefinedMeta: map[string]string{"k": "v"}},
		{Names: []string{"web"}},
	}
	cfg := load(t, "f.hcl", service+aTask(`services = ["a1", "web"]`))
	want := Condition{Spec: queries, UseAsModuleInput: true}
	if diff := cmp.Diff(want, cfg.Tasks[0].Condition); diff != "" {
		t.Errorf("services alone are the condition:\n%s", diff)
	}
	for _, w := range cfg.Warnings {
		if !strings.Contains(w.Problem, "deprecated") {
			t.Errorf("warning %s", w)
		}
	}

	cfg = load(t, "f.hcl", service+aTask(`services = ["a1", "web"]
  condition "schedule" { cron = "@daily" }`))
	if diff := cmp.Diff([]condition.Spec{queries}, cfg.Tasks[0].ModuleInputs); diff != "" {
		t.Errorf("beside another condition they are a module input:\n%s", diff)
	}

	cfg = load(t, "f.hcl", "task {\n name = \"t\"\n source = \"./old\"\n condition \"consul-kv\" {\n path = \"a\"\n source_includes_var = false\n }\n source_input \"services\" { names = [\"b\"] }\n}")
	task := cfg.Tasks[0]
	if filepath.Base(task.Module) != "old" || task.Condition.UseAsModuleInput || len(task.ModuleInputs) != 1 {
		t.Errorf("task: %+v", task)
	}

	cfg = load(t, "f.hcl", "task {\n name = \"t\"\n source = \"./old\"\n module = \"./new\"\n condition \"consul-kv\" {\n path = \"a\"\n source_includes_var = false\n use_as_module_input = true\n }\n"+
		" source_input \"services\" { names = [\"web\"] }\n module_input \"nodes\" {}\n}")
	task = cfg.Tasks[0]
	if filepath.Base(task.Module) != "new" || !task.Condition.UseAsModuleInput || len(task.ModuleInputs) != 2 {
		t.Errorf("the new form should win, and both inputs count: %+v", task)
	}
	var ignored []string
	for _, w := range cfg.Warnings {
		if strings.Contains(w.Problem, "has no effect beside") {
			ignored = append(ignored, w.Problem)
		}
	}
	if len(ignored) != 2 {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
}

func TestLoad_WeakTypes(t *testing.T) {
	cfg := load(t, "f.json", `{"PORT": "8502", "id": 7, "syslog": [{"enabled": "true"}], "task": {"name": "t", "module": "./m", "providers": "a", "enabled": "false",
		"condition": [{"services": [{"names": "web", "cts_user_defined_meta": [{"n": 1, "b": true}]}]}]}}`)
	task := cfg.Tasks[0]
	if cfg.Port != 8502 || cfg.ID != "7" || !cfg.Syslog.Enabled || task.Enabled {
		t.Errorf("config: %+v", cfg)
	}
	want := condition.Services{{Names: []string{"web"}, CTSUserDefinedMeta: map[string]string{"n": "1", "b": "true"}}}
	if diff := cmp.Diff(condition.Spec(want), task.Condition.Spec); diff != "" || task.Providers[0] != "a" {
		t.Errorf("services:\n%s", diff)
	}
}

func TestLoad_KeepsRegexpsFiltersAndNamesAsWritten(t *testing.T) {
	cfg := load(t, "f.yaml", `
driver: {terraform: {backend: {local: {}}}}
task:
  - name: a
    module: ./m
    condition: {services: {regexp: '^web\d*=\.x$', filter: "\nService.Port != 1 and \"a\" in Service.Tags\n"}}
  - name: b
    module: ./m
    condition: {services: {names: ['say "hi"', "${x}"]}}
  - name: c
    module: ./m
    condition: {catalog-services: {regexp: ""}}
  - name: d
    module: ./m
    condition: {consul-kv: {path: /, recurse: true}}
  - name: e
    module: ./m
    condition: {services: {regexp: "", filter: ((((((((((((Service.Port == 1))))))))))))}}
`)
	a := cfg.Tasks[0].Condition.Spec.(condition.Services)[0]
	if *a.Regexp != `^web\d*=\.x$` || a.Filter != `Service.Port != 1 and "a" in Service.Tags` {
		t.Errorf("services: %q %q", *a.Regexp, a.Filter)
	}
	if diff := cmp.Diff([]string{`say "hi"`, "${x}"}, cfg.Tasks[1].Condition.Spec.(condition.Services)[0].Names); diff != "" {
		t.Error(diff)
	}
	if e := cfg.Tasks[4].Condition.Spec.(condition.Services)[0]; e.Regexp == nil || *e.Regexp != "" {
		t.Errorf("an empty regexp means every service: %+v", e)
	}
}

func TestModule_LocalAndRemote(t *testing.T) {
	dir := write(t, "f.yaml", "task: {name: t, module: MODULE, condition: {consul-kv: {path: a}}}")
	for module, want := range map[string]string{
		"./m": filepath.Join(dir, "m"), "../m": filepath.Join(filepath.Dir(dir), "m"),
		"/opt/m": "/opt/m", "namespace/m/aws": "namespace/m/aws", "git::https://x/y.git": "git::https://x/y.git",
	} {
		if err := os.WriteFile(filepath.Join(dir, "f.yaml"), []byte("task: {name: t, module: '"+module+"', condition: {consul-kv: {path: a}}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		task := mustLoad(t, options(dir, "f.yaml")).Tasks[0]
		if task.Module != want || task.LocalModule() != filepath.IsAbs(want) {
			t.Errorf("%s: %s, local %v", module, task.Module, task.LocalModule())
		}
	}
}

func TestSchedule_RangeWithoutSundayIsAWarning(t *testing.T) {
	cfg := load(t, "f.hcl", aTask("condition \"schedule\" { cron = \"0 3 * * 1-7\" }\nmodule_input \"services\" { names = [\"web\"] }"))
	if len(cfg.Warnings) != 1 || cfg.Warnings[0].String() !=
		`f.hcl:4: task[0].condition.schedule.cron: the range "1-7" of the schedule "0 3 * * 1-7" leaves Sunday out; if it is meant, add it: SAT,SUN for SAT-SUN` {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
}

func TestSchedule_WithoutModuleInputIsAWarning(t *testing.T) {
	const schedule = `condition "schedule" { cron = "@daily" }`
	cfg := load(t, "f.hcl", aTask(schedule))
	if len(cfg.Warnings) != 1 || cfg.Warnings[0].String() !=
		`f.hcl:4: task[0].condition: task "t" has a schedule and no module_input: it runs once, and no later time finds anything new to apply; add a module_input block` {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	for _, input := range []string{`module_input "services" { names = ["web"] }`, `source_input "consul-kv" { path = "p" }`, `services = ["web"]`} {
		for _, w := range load(t, "f.hcl", aTask(schedule+"\n"+input)).Warnings {
			if strings.Contains(w.Problem, "has a schedule") {
				t.Errorf("%s: %v", input, w)
			}
		}
	}
}

func TestProviders_NameOrAliasWithoutABlock(t *testing.T) {
	const task = services + "\nproviders = [\"aws\"]"
	east := "terraform_provider \"aws\" {\n alias = \"east\"\n}\n"
	if got := load(t, "f.hcl", east+aTask(task)).Tasks[0].Providers; !slices.Equal(got, []string{"aws.east"}) {
		t.Errorf("the only block of the provider is not used: %v", got)
	}
	for file, want := range map[string]string{
		east + aTask(task): "",
		east + strings.Replace(east, "east", "west", 1) + aTask(task): `f.hcl:11: task[0].providers[0]: every terraform_provider block of "aws" has an alias: the task gets the provider without configuration; configured: "aws.east", "aws.west"`,
		aTask(services + "\nproviders = [\"aws.west\"]"):              `f.hcl:5: task[0].providers[0]: no terraform_provider block configures "aws.west": the task gets the provider without configuration; add a block terraform_provider "aws" with alias = "west"`,
		east + aTask(services+"\nproviders = [\"aws.west\"]"):         `f.hcl:8: task[0].providers[0]: no terraform_provider block configures "aws.west": the task gets the provider without configuration; configured: "aws.east"`,
		east + "terraform_provider \"aws\" {}\n" + aTask(task):        "",
		aTask(task): "",
	} {
		said := ""
		for _, w := range load(t, "f.hcl", file).Warnings {
			said += w.String()
		}
		if said != want {
			t.Errorf("warned %q, want %q of:\n%s", said, want, file)
		}
	}
}

func TestConsulOf_ReadsTheEnvironment(t *testing.T) {
	env := map[string]string{"CONSUL_HTTP_ADDR": "consul:8501", "CONSUL_HTTP_SSL": "true", "CONSUL_CACERT": "/ca", "CONSUL_CLIENT_CERT": "/cert",
		"CONSUL_HTTP_TOKEN": "t", "CONSUL_NAMESPACE": "n", "VAULT_RENEW_TOKEN": "perhaps"}
	got, err := ConsulOf(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if got.Address != "https://consul:8501" || got.TLS.CACert != "/ca" || got.TLS.Cert != "/cert" || !got.TLS.Verify || got.Token != "t" || got.Namespace != "n" {
		t.Errorf("%+v", got)
	}
	env["CONSUL_HTTP_TOKEN"], env["CONSUL_HTTP_TOKEN_FILE"] = "", filepath.Join(t.TempDir(), "none")
	if _, err := ConsulOf(func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), "CONSUL_HTTP_TOKEN_FILE") {
		t.Errorf("a token that is not there: %v", err)
	}
}
