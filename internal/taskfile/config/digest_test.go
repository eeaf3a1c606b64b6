package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

const digested = `
consul { token = "1" }
driver "terraform" {
  backend "local" { path = "p" }
  required_providers {
    a = "1.0.0"
    z = "1.0.0"
  }
}
terraform_provider "a" { x { y = 1 } }
terraform_provider "z" {}
` + `
task {
  name        = "t"
  description = "first"
  module      = "./m"
  providers   = ["a"]
  variables   = { v = "1" }
  buffer_period { min = "1s" }
  condition "services" { names = ["web"] }
  module_input "consul-kv" { path = "p" }
}
`

// change returns the file with one thing changed, and fails if it is not there.
func change(t *testing.T, from, to string) string {
	t.Helper()
	if !strings.Contains(digested, from) {
		t.Fatalf("no %q in the file", from)
	}
	return strings.Replace(digested, from, to, 1)
}

func TestDigest_ChangesWithTheMeaningAlone(t *testing.T) {
	base := load(t, "f.hcl", digested)
	if n := len(base.Digest()); n != 64 {
		t.Errorf("the digest has %d characters", n)
	}
	tests := []struct {
		name, from, to string
		config, task   bool // whether the digest changes
	}{
		{"nothing", "", "", false, false},
		{"a comment", `name `, "# comment\nname ", false, false},
		{"the order of keys", "  name        = \"t\"\n  description = \"first\"", "  description = \"first\"\n  name = \"t\"", false, false},
		{"the description", "first", "second", false, false},
		{"Consul's token", `"1" }`, `"2" }`, false, false},
		{"the log level", `consul {`, "log_level = \"WARN\"\nport = 1\nid = \"x\"\nconsul {", false, false},
		{"a provider that no task uses", `"z" {}`, `"z" { x = 1 }`, false, false},
		{"the version of a provider that no task uses", `z = "1.0.0"`, `z = "2.0.0"`, false, false},
		{"a variable that is written in another way", `v = "1"`, `v = " 1 "`, false, false},
		{"Consul's address", `consul {`, "consul {\n address = \"x\"", true, false},
		{"the buffer period", `min = "1s"`, `min = "2s"`, true, false},
		{"enabled", `name `, "enabled = false\nname ", true, false},
		{"the type of a variable", `v = "1"`, `v = "\"1\""`, true, true},
		{"the module", "./m", "./n", true, true},
		{"the condition", `["web"]`, `["api"]`, true, true},
		{"the module input", `path = "p" }` + "\n}", `path = "q" }` + "\n}", true, true},
		{"a value of a provider", "y = 1", "y = 2", true, true},
		{"a block of a provider", "x { y = 1 }", "x = [{ y = 1 }]", true, true},
		{"the version of a provider", `a = "1.0.0"`, `a = "2.0.0"`, true, true},
		{"the backend", `path = "p" }` + "\n  req", `path = "q" }` + "\n  req", true, true},
		{"Terraform's version", `driver "terraform" {`, "driver \"terraform\" {\n version = \"1.11.4\"", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := load(t, "f.hcl", change(t, tt.from, tt.to)) // in a folder of its own
			if changed := cfg.Digest() != base.Digest(); changed != tt.config {
				t.Errorf("the configuration's digest changed: %v", changed)
			}
			if changed := cfg.Tasks[0].Digest(cfg) != base.Tasks[0].Digest(base); changed != tt.task {
				t.Errorf("the task's digest changed: %v", changed)
			}
		})
	}
}

func TestDifferingParts_SaysNothingIfOneSideHasNone(t *testing.T) {
	of := map[string]string{"module": "1", "guard": "2"}
	for name, tt := range map[string]struct {
		a, b map[string]string
		want []string
	}{
		"the same":            {of, of, nil},
		"another value":       {of, map[string]string{"module": "2", "guard": "2"}, []string{"module"}},
		"one lacks a part":    {of, map[string]string{"module": "1"}, []string{"guard"}},
		"the first has none":  {nil, of, nil},
		"the second has none": {of, nil, nil},
		"the first is empty":  {map[string]string{}, of, nil},
		"neither has any":     {nil, nil, nil},
	} {
		if got := DifferingParts(tt.a, tt.b); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A function and a container keep Consul's certificates in different places.
func TestDigest_IgnoresWhereCertificatesAre(t *testing.T) {
	at := func(dir string, more ...string) *Config {
		env := map[string]string{"CONSUL_CACERT": dir + "/ca.pem", "CONSUL_CLIENT_CERT": dir + "/cert.pem", "CONSUL_CLIENT_KEY": dir + "/key.pem"}
		text := strings.Replace(digested, `backend "local" { path = "p" }`, strings.Join(more, ""), 1)
		text = strings.Replace(text, `consul { token = "1" }`, "consul {\n tls { enabled = true }\n}", 1)
		return loadEnv(t, env, "f.hcl", text)
	}
	function, container := at("/tmp"), at("/work")
	if !function.Consul.TLS.Enabled || function.Terraform.Backend.Type != "consul" {
		t.Fatalf("Consul is %+v, the backend %+v", function.Consul, function.Terraform.Backend)
	}
	if function.Digest() != container.Digest() {
		t.Error("the digest depends on the paths of the certificates")
	}
	if elsewhere := at("/tmp", `backend "consul" { path = "elsewhere" }`); elsewhere.Digest() == function.Digest() {
		t.Error("the digest does not depend on where the states are")
	}
}

// A bundle is unpacked elsewhere, with what lies beside the folder it was made in.
func TestDigest_IgnoresWhereTheFolderIs(t *testing.T) {
	at := func(module string) *Config { return load(t, "f.hcl", change(t, "./m", module)) } // in a folder of its own
	if here, there := at("../m"), at("../m"); here.Digest() != there.Digest() {
		t.Error("the digest depends on where the folder is")
	}
	if at("../m").Digest() == at("../n").Digest() || at("../m").Digest() == at("./m").Digest() {
		t.Error("the digest does not depend on the module")
	}
	cfg := at("../m")
	before := cfg.Tasks[0].Digest(cfg)
	cfg.Tasks[0].ModuleDigest = "1"
	if cfg.Tasks[0].Digest(cfg) == before {
		t.Error("the digest does not depend on the files of the module")
	}
}

// A canonical form that leaves out what is not set needs the right tag on each
// field.
func TestSpec_FieldsThatAreNotSetAreLeftOut(t *testing.T) {
	for _, spec := range []any{condition.ServiceQuery{}, condition.CatalogServices{}, condition.ConsulKV{}, condition.Schedule{}} {
		of := reflect.TypeOf(spec)
		for _, f := range reflect.VisibleFields(of) {
			if options := strings.Split(f.Tag.Get("json"), ","); !slices.Contains(options, "omitempty") {
				t.Errorf("%s.%s has no JSON tag with omitempty", of, f.Name)
			}
		}
	}
}

// A key that is added tomorrow runs no task again: the digests of today's files
// stay the same.
func TestDigest_StaysTheSameForTheSameFile(t *testing.T) {
	const head = "driver \"terraform\" {\n backend \"local\" {}\n}\n"
	for _, tt := range []struct{ name, file, task, identity, config string }{
		{"little", head + "task {\n name = \"t\"\n module = \"./m\"\n}", "37118a5f27682f1b", "c09cb360e91a7c4f", "2f5dbdbd499fd77e"},
		{"much", digested, "55ca0e98de4e9de5", "4f1582301e03f456", "442278cddff4dfb9"},
		{"services", head + aTask(`condition "services" {
  regexp                = ""
  datacenter            = "dc2"
  filter                = "Service.Port == 1"
  cts_user_defined_meta = { k = "v" }
  use_as_module_input   = false
}`), "c061f8f7ffdb1c3b", "4a55620e493a095e", "99512565a6329b10"},
		{"catalog-services", head + aTask("condition \"catalog-services\" {\n regexp = \"web\"\n node_meta = { k = \"v\" }\n}"), "69a4460c5dbb51be", "e0d87e2246b8a520", "9c2f3081b21285fa"},
		{"consul-kv", head + aTask("condition \"consul-kv\" {\n path = \"p\"\n recurse = true\n}"), "95dfe1edc3b913af", "63da26ba622727f3", "24a3932e4188c3d7"},
		{"schedule", head + aTask("condition \"schedule\" { cron = \"@daily\" }\nmodule_input \"services\" { names = [\"web\"] }\nbuffer_period { enabled = false }\nrun_timeout = \"0s\""), "9377c82d4ecde40c", "e39dfc709b87b84c", "8db9142c30ef73b0"},
	} {
		cfg := load(t, "f.hcl", tt.file)
		task := &cfg.Tasks[0]
		got := [...]string{task.Digest(cfg)[:16], task.Identity(cfg)[:16], cfg.Digest()[:16]}
		if want := [...]string{tt.task, tt.identity, tt.config}; got != want {
			t.Errorf("%s: task, identity and configuration are %q, want %q", tt.name, got, want)
		}
	}
}

func TestDigest_LeavesOutWhatIsNotSet(t *testing.T) {
	type tomorrow struct {
		condition.ConsulKV
		New string `json:"new,omitempty"`
	}
	kv := condition.ConsulKV{Path: "p"}
	today, later := meaning{}, meaning{}
	today.set("condition", meaning{"consul-kv": kv})
	later.set("condition", meaning{"consul-kv": tomorrow{ConsulKV: kv}})
	for _, unset := range []any{"", 0, false, nil, []string{}, map[string]string{}, (*bool)(nil), meaning{}} {
		later.set("new", unset)
	}
	if today.digest() != later.digest() {
		t.Error("a key that is not set changes the digest")
	}
	before := later.digest()
	later.set("new", new(bool))
	if later.digest() == before {
		t.Error("a key that is set to false does not change the digest")
	}
}

func thousandTasks() string {
	var b strings.Builder
	b.WriteString("terraform_provider:\n  local:\ntask:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, `  - name: task-%d
    description: keep the load balancer of team %d in step
    module: ./modules/lb
    providers: [local]
    variables: {zone: '"dmz"', size: 3}
    condition:
      services:
        regexp: ^web-%d-\d+$
        filter: '"v1" in Service.Tags and Service.Meta.team == "t%d"'
        cts_user_defined_meta: {owner: team-%d}
    module_input:
      consul-kv: {path: lb/%d, recurse: true}
    buffer_period: {min: 5s, max: 1m}
`, i, i, i, i, i, i)
	}
	return b.String()
}

func TestLoad_ThousandTasks(t *testing.T) {
	cfg := load(t, "f.yaml", thousandTasks())
	if len(cfg.Tasks) != 1000 || cfg.Tasks[999].Name != "task-999" {
		t.Errorf("%d tasks", len(cfg.Tasks))
	}
}

func BenchmarkLoadThousandTasks(b *testing.B) {
	dir := b.TempDir()
	writeFile(b, dir, "f.yaml", thousandTasks())
	for b.Loop() {
		cfg, err := Load(options(dir, "f.yaml"))
		if err != nil {
			b.Fatal(err)
		}
		cfg.Digest()
	}
}
