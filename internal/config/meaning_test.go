package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config/block"
)

func TestDefaults(t *testing.T) {
	cfg := load(t, "f.hcl", "# nothing is configured\n")
	dir := cfg.Terraform.Path
	transport := Transport{
		DialKeepAlive: 30 * time.Second, DialTimeout: 30 * time.Second, IdleConnTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 100, TLSHandshakeTimeout: 10 * time.Second,
	}
	want := &Config{
		LogLevel: "INFO", Port: 8558, WorkingDir: "sync-tasks", ID: "cts-host", RunTimeout: time.Hour,
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

func TestTheEnvironmentStandsInForKeysThatAreNotSet(t *testing.T) {
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
			func(c *Config) any { return c.Consul.TLS }, ClientTLS{CACert: "/ca", ServerName: "s", Verify: true}},
		{"TLS", `consul { tls { ca_path = "/d" } }`, map[string]string{"CONSUL_CAPATH": "/no", "CONSUL_CLIENT_CERT": "/c", "CONSUL_CLIENT_KEY": "/k"},
			func(c *Config) any { return c.Consul.TLS }, ClientTLS{Enabled: true, CAPath: "/d", Cert: "/c", Key: "/k", Verify: true}},
		{"a certificate's file holds the key too", `consul { tls { cert = "/c" } }`, nil, func(c *Config) any { return c.Consul.TLS }, ClientTLS{Enabled: true, Cert: "/c", Key: "/c", Verify: true}},
		{"syslog", `syslog { facility = "local2" }`, nil, func(c *Config) any { return c.Syslog }, Syslog{true, "LOCAL2", "consul-terraform-sync"}},
		{"syslog by its name", `syslog { name = "x" }`, nil, func(c *Config) any { return c.Syslog }, Syslog{true, "LOCAL0", "x"}},
		{"syslog that is off", "syslog {\n enabled = false\n name = \"x\"\n}", nil, func(c *Config) any { return c.Syslog }, Syslog{false, "LOCAL0", "x"}},
		{"Vault is enabled by its address", "", map[string]string{"VAULT_ADDR": "http://v"}, func(c *Config) any { return c.Vault.Enabled }, true},
		{"Vault that is disabled", `vault { enabled = false }`, map[string]string{"VAULT_ADDR": "http://v"}, func(c *Config) any { return c.Vault.Enabled }, false},
		{"Vault's TLS", "", map[string]string{"VAULT_CACERT": "/a", "VAULT_CAPATH": "/b", "VAULT_CLIENT_CERT": "/c", "VAULT_CLIENT_KEY": "/k", "VAULT_TLS_SERVER_NAME": "s", "VAULT_SKIP_VERIFY": "1"},
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

func TestAWrongEnvironmentVariableIsNamed(t *testing.T) {
	for name, want := range map[string]string{
		"VAULT_RENEW_TOKEN":      `environment variable VAULT_RENEW_TOKEN: cannot parse "maybe" as a bool; allowed: true, false`,
		"VAULT_SKIP_VERIFY":      `environment variable VAULT_SKIP_VERIFY: cannot parse "maybe" as a bool; allowed: true, false`,
		"CONSUL_HTTP_TOKEN_FILE": `environment variable CONSUL_HTTP_TOKEN_FILE: open maybe: no such file or directory`,
	} {
		o := options(write(t, "f.hcl", "# \n"), "f.hcl")
		o.Getenv = environment(map[string]string{name: "maybe"})
		if got := mistakesIn(t, o); got != want {
			t.Errorf("said:\n%s\nwant:\n%s", got, want)
		}
	}
}

func TestBufferPeriods(t *testing.T) {
	on := func(min, max time.Duration) BufferPeriod {
		return BufferPeriod{true, min * time.Second, max * time.Second}
	}
	const off = `enabled = false`
	tests := []struct {
		global, task string
		want         BufferPeriod
	}{
		{``, ``, on(5, 20)},
		{`min = "10s"`, ``, on(10, 20)},
		{`min = "30s"`, ``, on(30, 30)},
		{`max = "3s"`, ``, on(5, 5)},
		{off, ``, BufferPeriod{}},
		{off + "\nmin = \"9s\"", ``, BufferPeriod{}},
		{``, off, BufferPeriod{}},
		{``, `min = "10s"`, on(10, 40)},
		{``, `max = "60s"`, on(5, 60)},
		{`min = "7s"`, `max = "60s"`, on(7, 60)},
		{off, `max = "60s"`, on(5, 60)},
		{`min = "7s"`, `enabled = true`, on(7, 28)},
		{off, `enabled = true`, on(5, 20)},
		{off, `min = "1s"`, on(1, 4)},
		{``, "min = \"10s\"\nmax = \"2s\"", on(10, 10)},
		{``, `max = "2s"`, on(5, 5)},
		{``, "min = \"0s\"\nmax = \"0s\"", on(0, 0)},
	}
	for _, tt := range tests {
		cfg := load(t, "f.hcl", "buffer_period {\n"+tt.global+"\n}\n"+aTask(services+"\nbuffer_period {\n"+tt.task+"\n}"))
		if got := cfg.Tasks[0].BufferPeriod; got != tt.want {
			t.Errorf("global {%s}, task {%s}: %+v, want %+v", tt.global, tt.task, got, tt.want)
		}
		if len(cfg.Warnings) > 0 {
			t.Errorf("global {%s}, task {%s}: warnings %v", tt.global, tt.task, cfg.Warnings)
		}
	}
}

func TestABufferPeriodNeverEndsBeforeItsMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.Custom(func(t *rapid.T) block.Duration {
			return block.Duration{
				Origin: block.Origin{Set: rapid.Bool().Draw(t, "set")},
				V:      time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "duration")),
			}
		})
		var l loader
		parent := l.globalBuffer(&rawGlobalBuffer{
			Enabled: block.Bool{V: rapid.Bool().Draw(t, "global")}, Min: duration.Draw(t, "min"), Max: duration.Draw(t, "max"),
		})
		b := l.taskBuffer(&rawTaskBuffer{Min: duration.Draw(t, "min"), Max: duration.Draw(t, "max")}, parent)
		for _, b := range []BufferPeriod{parent, b} {
			if b.Min < 0 || b.Max < b.Min || !b.Enabled && b != (BufferPeriod{}) {
				t.Fatalf("buffer period %+v", b)
			}
		}
	})
}

func TestAScheduleHasNoBufferPeriod(t *testing.T) {
	const schedule = `condition "schedule" { cron = "@daily" }`
	cfg := load(t, "f.hcl", aTask(schedule))
	if cfg.Tasks[0].BufferPeriod.Enabled || len(cfg.Warnings) > 0 {
		t.Errorf("buffer period %+v, warnings %v", cfg.Tasks[0].BufferPeriod, cfg.Warnings)
	}
	for _, own := range []string{`max = "1s"`, `enabled = true`} {
		if cfg := load(t, "f.hcl", aTask(schedule+"\nbuffer_period { "+own+" }")); cfg.Tasks[0].BufferPeriod.Enabled || len(cfg.Warnings) != 1 {
			t.Errorf("%s: buffer period %+v, warnings %v", own, cfg.Tasks[0].BufferPeriod, cfg.Warnings)
		}
	}
	cfg = load(t, "f.hcl", aTask(schedule+"\nbuffer_period { min = \"1s\" }"))
	if cfg.Tasks[0].BufferPeriod.Enabled || len(cfg.Warnings) != 1 ||
		cfg.Warnings[0].String() != "f.hcl:5: task[0].buffer_period: buffer_period has no effect on a task with a schedule; remove it" {
		t.Errorf("buffer period %+v, warnings %v", cfg.Tasks[0].BufferPeriod, cfg.Warnings)
	}
}

func TestFilesAreMergedInTheOrderOfTheCommandLine(t *testing.T) {
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

func TestDriverBlocksOfSeveralFilesMustAgreeOnTheBackend(t *testing.T) {
	dir := write(t, "a.hcl", `driver "terraform" { backend "local" {} }`, "b.hcl", `driver "terraform" { backend "s3" {} }`)
	got := mistakesIn(t, options(dir, "."))
	if want := `b.hcl:1: driver.terraform.backend.s3: only one backend can be configured, and backend "local" is already (a.hcl:1); remove one of them`; got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}

	dir = write(t, "a.hcl", `driver "terraform" { backend "s3" {} }`, "b.hcl", "driver \"terraform\" {\n backend \"s3\" {}\n backend \"s3\" {}\n}")
	got = mistakesIn(t, options(dir, "."))
	if want := `b.hcl:3: driver.terraform.backend.s3: only one 'backend' block can be configured in a file; join the blocks`; got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
}

func TestHighAvailability(t *testing.T) {
	if cfg := load(t, "f.hcl", "# nothing\n"); cfg.HighAvailability != nil {
		t.Errorf("without the block: %+v", cfg.HighAvailability)
	}

	cfg := load(t, "f.hcl", `high_availability {
  cluster { name = "prod" }
}`)
	want := &HighAvailability{Cluster: Cluster{Name: "prod", Storage: ClusterStorage{ParentPath: "consul-terraform-sync/", SessionTTL: 15 * time.Second}}}
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
		Cluster:  Cluster{Name: "prod", Storage: ClusterStorage{ParentPath: "/a//b", Namespace: "n", SessionTTL: 30 * time.Second}},
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

func TestOpenTofuIsAnotherEngine(t *testing.T) {
	of := func(engine string) *Config {
		return load(t, "f.hcl", change(t, `driver "terraform" {`, "driver \"terraform\" {\n version = \"1.10.0\"\n"+engine))
	}
	terraform, named, tofu := of(""), of(`engine = "terraform"`), of(`engine = "tofu"`)
	if terraform.Terraform.Engine != EngineTerraform || tofu.Terraform.Engine != EngineTofu {
		t.Errorf("engines %q and %q", terraform.Terraform.Engine, tofu.Terraform.Engine)
	}
	if terraform.Digest() != named.Digest() || terraform.Tasks[0].Digest(terraform) == tofu.Tasks[0].Digest(tofu) {
		t.Error("a task's digest is that of its engine, and no other")
	}
}

func TestTheDefaultBackend(t *testing.T) {
	tests := []struct {
		file string
		want map[string]cty.Value
	}{
		{`consul { kv_path = "a/terraform" }`, map[string]cty.Value{"path": cty.StringVal("a/terraform")}},
		{`consul { kv_path = "terraform" }`, map[string]cty.Value{"path": cty.StringVal("terraform/terraform")}},
		{`consul { kv_path = "a/b/" }`, map[string]cty.Value{"path": cty.StringVal("a/b/terraform")}},
		{`driver "terraform" { backend "consul" { gzip = false } }`, map[string]cty.Value{"gzip": cty.False}},
		{`driver "terraform" { backend "consul" { token = "x" } }`, map[string]cty.Value{"token": cty.StringVal("x")}},
		{`consul { tls { ca_cert = "/ca" } }`, map[string]cty.Value{"scheme": cty.StringVal("https"), "ca_file": cty.StringVal("/ca")}},
	}
	for _, tt := range tests {
		want := map[string]cty.Value{"address": cty.StringVal("localhost:8500"), "path": cty.StringVal("consul-terraform-sync/terraform"), "gzip": cty.True}
		for k, v := range tt.want {
			want[k] = v
		}
		got := load(t, "f.hcl", tt.file).Terraform.Backend
		if diff := cmp.Diff(Backend{"consul", Body{Attributes: want}}, got, ctyValues); diff != "" {
			t.Errorf("%s:\n%s", tt.file, diff)
		}
	}
}

func TestEveryBackend(t *testing.T) {
	for _, kind := range []string{"azurerm", "cloud", "cos", "gcs", "http", "kubernetes", "local", "manta", "oci", "oss", "pg", "remote", "s3"} {
		got := load(t, "f.yaml", "driver: {terraform: {backend: {"+kind+": {key: value}}}}").Terraform.Backend
		want := Backend{kind, Body{Attributes: map[string]cty.Value{"key": cty.StringVal("value")}}}
		if diff := cmp.Diff(want, got, ctyValues); diff != "" {
			t.Errorf("%s:\n%s", kind, diff)
		}
	}
}

func TestBlocksAndAttributesOfAProvider(t *testing.T) {
	s, n := cty.StringVal, cty.NumberIntVal
	object := func(k string, v cty.Value) cty.Value { return cty.ObjectVal(map[string]cty.Value{k: v}) }
	attrs := func(k string, v cty.Value) Body { return Body{Attributes: map[string]cty.Value{k: v}} }
	block := func(name string, bodies ...Body) Body { return Body{Blocks: map[string][]Body{name: bodies}} }
	tests := []struct {
		name, file, content string
		want                Body
	}{
		{"an attribute that is an object is a block, directly in the provider", "f.hcl", `terraform_provider "p" { x = { a = "1" } }`, block("x", attrs("a", s("1")))},
		{"a block", "f.hcl", `terraform_provider "p" { x { a = "1" } }`, block("x", attrs("a", s("1")))},
		{"an empty block", "f.hcl", `terraform_provider "p" { features {} }`, block("features", Body{})},
		{"repeated blocks", "f.hcl", "terraform_provider \"p\" {\n x { a = \"1\" }\n x { a = \"2\" }\n}", block("x", attrs("a", s("1")), attrs("a", s("2")))},
		{"a block in a block", "f.hcl", `terraform_provider "p" { x { y { a = 1 } } }`, block("x", block("y", attrs("a", n(1))))},
		{"an object in a block", "f.hcl", `terraform_provider "p" { x { y = { a = 1 } } }`, block("x", attrs("y", object("a", n(1))))},
		{"a list of objects in HCL", "f.hcl", `terraform_provider "p" { x = [{ a = 1 }] }`, attrs("x", cty.TupleVal([]cty.Value{object("a", n(1))}))},
		{"lists and types", "f.hcl", `terraform_provider "p" { x = ["1", 2, true, 1.5] }`,
			attrs("x", cty.TupleVal([]cty.Value{s("1"), n(2), cty.True, cty.MustParseNumberVal("1.5")}))},
		{"an object in JSON", "f.json", `{"terraform_provider": {"p": {"x": {"y": {"a": 1}}}}}`, block("x", attrs("y", object("a", n(1))))},
		{"a list of objects in JSON", "f.json", `{"terraform_provider": {"p": {"x": [{"y": [{"a": 1}, {"a": 2}]}]}}}`, block("x", block("y", attrs("a", n(1)), attrs("a", n(2))))},
		{"an empty list", "f.json", `{"terraform_provider": {"p": {"x": []}}}`, attrs("x", cty.EmptyTupleVal)},
		{"null", "f.json", `{"terraform_provider": {"p": {"x": null}}}`, attrs("x", cty.NullVal(cty.DynamicPseudoType))},
		{"a number keeps its precision", "f.json", `{"terraform_provider": {"p": {"x": 12345678901234567890.123}}}`, attrs("x", cty.MustParseNumberVal("12345678901234567890.123"))},
		{"numbers of YAML", "f.yaml", "terraform_provider:\n  p:\n    x: [0x10, 1_000, 1e3, '1', yes, 2026-01-01]\n",
			attrs("x", cty.TupleVal([]cty.Value{n(16), n(1000), n(1000), s("1"), s("yes"), s("2026-01-01")}))},
		{"a string with an interpolation", "f.hcl", `terraform_provider "p" { x = "${env.X} %{if}" }`, attrs("x", s("${env.X} %{if}"))},
		{"a heredoc", "f.hcl", "terraform_provider \"p\" {\n x = <<EOT\na\nb\nEOT\n}", attrs("x", s("a\nb\n"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := load(t, tt.file, tt.content)
			if diff := cmp.Diff(tt.want, cfg.Providers[0].Body, ctyValues); diff != "" {
				t.Errorf("unexpected (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACommitIsForPANOSAlone(t *testing.T) {
	cfg := load(t, "f.hcl", "terraform_provider \"panos\" { auto_commit = true }\nterraform_provider \"a\" { auto_commit = true }\nterraform_provider \"b\" { auto_commit = false }")
	if len(cfg.Warnings) != 1 || cfg.Warnings[0].String() != `f.hcl:2: terraform_provider.a.auto_commit: auto_commit has no effect on "a": it is for panos; remove it` {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	if len(cfg.Providers) != 3 || !cfg.Providers[0].AutoCommit || cfg.Providers[2].AutoCommit {
		t.Errorf("providers: %+v", cfg.Providers)
	}
}

func TestProvidersWithoutABlockAndSeveralInAMap(t *testing.T) {
	cfg := load(t, "f.yaml", "terraform_provider:\n  a:\n  b:\n    - alias: x\n    - alias: y\ntask:\n  - name: t\n    module: ./m\n    providers: [a, b.y, c]\n    condition: {consul-kv: {path: p}}\n")
	var ids []string
	for _, p := range cfg.Providers {
		ids = append(ids, p.ID())
	}
	if diff := cmp.Diff([]string{"a", "b.x", "b.y"}, ids); diff != "" {
		t.Error(diff)
	}
	if _, ok := cfg.Provider("c"); ok {
		t.Error("found a provider that has no block")
	}
}

func TestVariables(t *testing.T) {
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

func TestDeprecatedForms(t *testing.T) {
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
		" source_input \"services\" { names = [\"old\"] }\n module_input \"services\" { names = [\"new\"] }\n}")
	task = cfg.Tasks[0]
	if filepath.Base(task.Module) != "new" || !task.Condition.UseAsModuleInput || task.ModuleInputs[0].(condition.Services)[0].Names[0] != "new" {
		t.Errorf("the new form should win: %+v", task)
	}
	var ignored []string
	for _, w := range cfg.Warnings {
		if strings.Contains(w.Problem, "has no effect beside") {
			ignored = append(ignored, w.Problem)
		}
	}
	if len(ignored) != 3 {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
}

func TestWhatIsWeaklyTyped(t *testing.T) {
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

func TestRegexpsFiltersAndNamesArriveAsWritten(t *testing.T) {
	cfg := load(t, "f.yaml", `
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

func TestModules(t *testing.T) {
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

func TestYAMLAnchorsAndMergeKeys(t *testing.T) {
	cfg := load(t, "f.yaml", `
task:
  - &one
    name: one
    module: ./m
    condition: {services: &s {names: [web], datacenter: dc1}}
  - <<: *one
    name: two
    condition: {services: {<<: [*s], datacenter: dc2}}
`)
	two := cfg.Tasks[1]
	if two.Name != "two" || two.Module != cfg.Tasks[0].Module {
		t.Errorf("task: %+v", two)
	}
	if diff := cmp.Diff(condition.Spec(condition.Services{{Names: []string{"web"}, Datacenter: "dc2"}}), two.Condition.Spec); diff != "" {
		t.Error(diff)
	}
}

func TestBadInput(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'k'; i++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	tests := []struct{ name, file, content, want string }{
		{"an anchor bomb", "f.yaml", bomb, "aliases stand for more than 100000 values"},
		{"an alias of itself", "f.yaml", "a: &a [*a]\n", "alias *a contains itself"},
		{"deep JSON", "f.json", strings.Repeat(`{"a":`, 1000), "nested deeper than 100 levels"},
		{"very deep HCL", "f.hcl", "a = " + strings.Repeat("[", 5<<20), "nested deeper than 100 levels"},
		{"deep YAML", "f.yaml", "a: " + strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "nested deeper than 100 levels"},
		{"a very long task name", "f.yaml", "task: {name: " + strings.Repeat("x", 10_000) + ", module: ./m, condition: {consul-kv: {path: a}}}",
			`f.yaml:1: task[0].name: the task name "` + strings.Repeat("x", 60) + `"... (10000 characters) is too long; at most 200 bytes: it names a directory and a Terraform workspace`},
		{"a very large number", "f.json", `{"terraform_provider": {"a": {"x": 1e999999999}}}`, "f.json:1: terraform_provider.a.x: not a usable number"},
		{"infinity", "f.yaml", `terraform_provider: {a: {x: .inf}}`, `f.yaml:1: terraform_provider.a.x: not a usable number: ".inf"`},
		{"an argument that is no name", "f.yaml", `terraform_provider: {a: {"x y": 1}}`, `not the name of an argument: "x y"`},
		{"a provider that is no name", "f.yaml", `terraform_provider: {"a b": {}}`, `not a provider's name: "a b"`},
		{"two conditions in one map", "f.yaml", "task: {name: t, module: ./m, condition: {services: {names: [a]}, schedule: {cron: '@daily'}}}",
			"f.yaml:1: task[0].condition: expected only one condition but got 2: services, schedule; make a task for each"},
		{"a deep filter", "f.yaml", "task: {name: t, module: ./m, condition: {services: {names: [a], filter: '" + strings.Repeat("(", 1<<20) + "'}}}", ": nested too deep"},
		{"a deep variable", "f.yaml", "task: {name: t, module: ./m, variables: {x: '" + strings.Repeat("- ", 1<<20) + "1'}, condition: {consul-kv: {path: a}}}", "nested deeper than 10000 levels"},
		{"a block that is a word", "f.yaml", "consul: localhost", "f.yaml:1: consul: must be a block, not a string"},
		{"a task that is a word", "f.yaml", "task: t", "f.yaml:1: task: must be a block or a list of blocks, not a string"},
		{"a backend that is a word", "f.yaml", "driver: {terraform: {backend: s3}}", "f.yaml:1: driver.terraform.backend: must be a labelled block, not a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := mistakes(t, tt.file, tt.content)
			if !strings.Contains(got, tt.want) {
				t.Errorf("said:\n%.500s\nwant:\n%s", got, tt.want)
			}
			if len(got) > 5000 {
				t.Errorf("said %d bytes", len(got))
			}
		})
	}
}

func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "f.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(50 << 20); err != nil {
		t.Fatal(err)
	}
	want := "f.yaml: read f.yaml: the file is too large: 52428800 bytes, and at most 10485760 are read"
	if got := mistakesIn(t, options(dir, ".")); got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
}

func TestASymbolicLinkThatLeadsNowhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege on Windows")
	}
	dir := write(t, "real/f.hcl", "port = 1")
	for link, target := range map[string]string{"loop.hcl": "loop.hcl", "linked.hcl": "real/f.hcl", "up.hcl": ".", ".#linked.hcl": "someone@host.1:2"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	want := "-config-file: stat loop.hcl: too many levels of symbolic links; remove it or correct the link"
	if got := mistakesIn(t, options(dir, ".")); got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
	if err := os.Remove(filepath.Join(dir, "loop.hcl")); err != nil {
		t.Fatal(err)
	}
	if cfg := mustLoad(t, options(dir, ".")); cfg.Port != 1 {
		t.Errorf("port %d: the link to a file should be read, the one to a folder skipped", cfg.Port)
	}
}

func TestAFileWithAByteOrderMark(t *testing.T) {
	for _, name := range []string{"f.hcl", "f.json", "f.yaml"} {
		content := map[string]string{"f.hcl": "port = 1\r\n", "f.json": "{\"port\": 1}\r\n", "f.yaml": "port: 1\r\n"}[name]
		if cfg := load(t, name, "\xef\xbb\xbf"+content); cfg.Port != 1 {
			t.Errorf("%s: port %d", name, cfg.Port)
		}
	}
}

func TestSchedule_RangeWithoutSundayIsAWarning(t *testing.T) {
	cfg := load(t, "f.hcl", aTask(`condition "schedule" { cron = "0 3 * * 1-7" }`))
	if len(cfg.Warnings) != 1 || cfg.Warnings[0].String() !=
		`f.hcl:4: task[0].condition.schedule.cron: the range "1-7" of the schedule "0 3 * * 1-7" leaves Sunday out; if it is meant, add it: SAT,SUN for SAT-SUN` {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
}

func TestTheEnvironmentAloneSaysHowConsulIsReached(t *testing.T) {
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

func TestRunTimeout_TasksOwnOneCountsElseTheGlobalOne(t *testing.T) {
	for _, tt := range []struct {
		global, task string
		want         time.Duration
	}{
		{``, ``, time.Hour},
		{`run_timeout = "10m"`, ``, 10 * time.Minute},
		{`run_timeout = "10m"`, `run_timeout = "2h"`, 2 * time.Hour},
		{`run_timeout = "10m"`, `run_timeout = "0s"`, 0},
		{`run_timeout = 0`, ``, 0},
	} {
		cfg := load(t, "f.hcl", tt.global+"\n"+aTask(services+"\n"+tt.task))
		if got := cfg.Tasks[0].RunTimeout; got != tt.want {
			t.Errorf("global {%s}, task {%s}: %s, want %s", tt.global, tt.task, got, tt.want)
		}
		if plain := load(t, "f.hcl", aTask(services)); cfg.Tasks[0].Digest(cfg) != plain.Tasks[0].Digest(plain) {
			t.Errorf("global {%s}, task {%s}: another definition, which would run the task", tt.global, tt.task)
		}
	}
}
