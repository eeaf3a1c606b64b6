package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// sameAfterConversion converts the files of the options, and compares what they
// mean with what the result means.
func sameAfterConversion(t interface {
	Helper()
	Fatalf(string, ...any)
}, o Options, dir string) string {
	t.Helper()
	before, err := Load(o)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	file, notes, err := Convert(o)
	if err != nil {
		t.Fatalf("convert: %v", err)
	}
	path := filepath.Join(dir, "converted.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatalf("%v", err)
	}
	o.Paths = []Path{{Name: path}}
	after, err := Load(o)
	if err != nil {
		t.Fatalf("load what was converted: %v\n%s", err, file)
	}
	if diff := cmp.Diff(before, after, ctyValues, cmpopts.IgnoreFields(Task{}, "DeprecatedServices"), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("what was converted means something else:\n%s\n%s", diff, file)
	}
	if before.Digest() != after.Digest() {
		t.Fatalf("the digests differ:\n%s", file)
	}
	for _, w := range after.Warnings {
		if strings.Contains(w.Problem, "deprecated") && len(notes) == 0 {
			t.Fatalf("%s\n%s", w, file)
		}
	}
	return string(file)
}

func TestConvert_KeepsTheMeaning(t *testing.T) {
	for _, file := range []string{"testdata/full.hcl", "testdata/full.json", "testdata/full.yaml", "../../../examples/cts-hcl/tasks.hcl", "../../../examples/quickstart/tasks.yaml", "../../../examples/intentions/tasks.yaml", "../../../examples/exports/tasks.yaml"} {
		t.Run(file, func(t *testing.T) {
			sameAfterConversion(t, options(filepath.Dir(file), filepath.Base(file)), t.TempDir())
		})
	}
	t.Run("a file and what is an instance's own", func(t *testing.T) {
		sameAfterConversion(t, options("../../../examples/high-availability", "tasks.hcl", "instance-1.hcl"), t.TempDir())
	})
	for i, m := range fenced.FindAllStringSubmatch(readReference(t), -1) {
		name := "f." + m[1]
		t.Run(fmt.Sprint("reference-", i+1), func(t *testing.T) {
			dir := write(t, name, m[3], "policy/terrapulse.rego", "") // a file that an example names
			sameAfterConversion(t, options(dir, name), t.TempDir())
		})
	}
}

func TestConvert_WritesReadableYAML(t *testing.T) {
	dir := write(t, "cts.hcl", `
# Where Consul is.
consul {
  address = "consul.example.com:8500" # the VIP
}

log_level = "DEBUG"

driver "terraform" {
  backend "s3" {
    bucket = "states"
    assume_role { role_arn = "arn" }
  }
  required_providers { local = "~> 2.8" }
}

// One for each site.
terraform_provider "firewall" {
  alias = "east"
  token = "{{ with secret \"fw/east\" }}{{ .Data.token }}{{ end }}"
  login { user = "admin" }
}

/* The other one. */
terraform_provider "firewall" {
  alias = "west"
}

# Everything that is public.
task {
  name = "lb"
  source = "./lb" # ours
  services = ["web", "api"]
  source_input "consul-kv" {
    path = "lb"
  }
  variables = {
    size = 3
    note = "\"a\\nb\""
  }
}

# At night.
task {
  name = "report"
  MODULE = "./report"
  description = <<EOT
two
lines
EOT
  condition "schedule" { cron = "@daily" }
  services = ["web"]
}

vault { address = "http://v" }
`)
	o := options(dir, "cts.hcl")
	o.Getenv = environment(map[string]string{"CONSUL_HTTP_TOKEN": "hunter2", "VAULT_TOKEN": "hunter2"})
	got := sameAfterConversion(t, o, t.TempDir())
	want := `# Where Consul is.
consul:
  address: consul.example.com:8500 # the VIP

log_level: DEBUG

driver:
  terraform:
    backend:
      s3:
        bucket: states
        assume_role:
          - role_arn: arn
    required_providers:
      local: ~> 2.8

terraform_provider:
  # One for each site.
  firewall:
    - alias: east
      token: '{{ with secret "fw/east" }}{{ .Data.token }}{{ end }}'
      login:
        user: admin
    # The other one.
    - alias: west

task:
  # Everything that is public.
  - name: lb
    module: ./lb # ours
    condition:
      services:
        names: [web, api]
    module_input:
      - consul-kv:
          path: lb
    variables:
      size: 3
      note: '"a\nb"'
  # At night.
  - name: report
    module: ./report
    description: |
      two
      lines
    condition:
      schedule:
        cron: '@daily'
    module_input:
      - services:
          names: [web]

vault:
  address: http://v
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected (-want +got):\n%s", diff)
	}
}

func TestConvert_JoinsSeveralFiles(t *testing.T) {
	dir := write(t,
		"a.hcl", "port = 1\nconsul {\n address = \"a\"\n}\ndriver \"terraform\" {\n backend \"s3\" {\n bucket = \"a\"\n key = \"k\"\n }\n}\nservice {\n name = \"api\"\n id = \"a1\"\n datacenter = \"dc2\"\n}\n",
		"b.json", `{"port": 2, "consul": [{"kv_path": "k"}], "driver": {"terraform": {"backend": {"s3": {"bucket": "b"}}}}, "task": {"name": "t", "module": "./m", "services": "a1"}}`,
		"c.yaml", "port:\nterraform_provider: {local: }\ntask:\n- name: u\n  module: ./m\n  services: []\n  condition: {consul-kv: {path: p}}\n")
	got := sameAfterConversion(t, options(dir, "a.hcl", "b.json", "c.yaml"), t.TempDir())
	if strings.Contains(got, "service:") || strings.Count(got, "port") != 1 {
		t.Errorf("converted:\n%s", got)
	}
}

// One block asks for all of its services in the same way.
func TestConvert_KeepsServicesThatCannotBeJoined(t *testing.T) {
	dir := write(t, "f.hcl", "service {\n name = \"api\"\n filter = \"Service.Port == 1\"\n}\nservice { name = \"unused\" }\n"+aTask(`services = ["api", "web"]`))
	o := options(dir, "f.hcl")
	got := sameAfterConversion(t, o, t.TempDir())
	if !strings.Contains(got, "services: [api, web]") || strings.Contains(got, "unused") {
		t.Errorf("converted:\n%s", got)
	}
	_, notes, err := Convert(o)
	if err != nil || len(notes) != 1 || notes[0].Key != "task[0].services" {
		t.Errorf("notes %v, error %v", notes, err)
	}
}

func TestConvert_ReportsWhatItCannotConvert(t *testing.T) {
	const mixed = "files of both languages can be used together"
	for content, want := range map[string]string{
		`terraform_provider "p" { x = [{ a = 1 }] }`:                     "f.hcl:1: terraform_provider.p.x: a list of objects that is an argument, and not blocks, can be written in HCL alone; leave the block in a file of HCL: " + mixed,
		"terraform_provider \"p\" {\n x = 1\n x { a = 1 }\n}":            "f.hcl:3: terraform_provider.p.x: an argument and a block of the same name can be written in HCL alone; leave the block in a file of HCL: " + mixed,
		"terraform_provider \"p\" {\n y {\n x { a = 1 }\n x = 1\n }\n}":  "f.hcl:4: terraform_provider.p.y.x: an argument and a block of the same name can be written in HCL alone; leave the block in a file of HCL: " + mixed,
		"port = 1\ntask {\n nam = \"x\"\n}":                              `f.hcl:3: task[0].nam: invalid key "nam"; did you mean "name"?`,
		"provider \"x\" {}":                                              `f.hcl:1: provider: provider is an invalid key here, try 'terraform_provider'`,
		"port = }":                                                       "f.hcl:1: not valid HCL: a value was expected here (strings need double quotes)",
		"description = \"x\"\n" + `consul { token = "{{ key \"p\" }}" }`: "",
	} {
		file, _, err := Convert(options(write(t, "f.hcl", content), "f.hcl"))
		if err == nil || want != "" && err.Error() != want {
			t.Errorf("%s\nsaid %v, want %s\n%s", content, err, want, file)
		}
	}
	gone := t.TempDir()
	if _, _, err := Convert(options(gone, "gone.hcl")); err == nil || err.Error() != "stat gone.hcl: no such file or directory; there is no gone.hcl in the folder "+gone+": correct the path" {
		t.Errorf("said %v", err)
	}
	dir := write(t, "f.hcl", "port = 1\nservice { name = \"x\" }\n", "f.conf", "port = 2\n")
	if _, notes, err := Convert(options(dir, "f.hcl", "f.conf")); err != nil || len(notes) != 1 || notes[0].String() != "skipped f.conf; files end in .yaml, .yml, .hcl or .json" {
		t.Errorf("of a file that is not read: %v, %v", notes, err)
	}
}

// Files that are named need not be there, and nothing is asked of the environment.
func TestConvert_ReadsOnlyTheFiles(t *testing.T) {
	dir := write(t, "f.hcl", "tls {\n cert = \"/gone\"\n key = \"/gone\"\n}\n"+aTask(services+"\nvariable_files = [\"/gone.tfvars\"]"))
	o := options(dir, "f.hcl")
	o.Getenv = func(name string) string { t.Errorf("asked for %s", name); return "" }
	if _, _, err := Convert(o); err != nil {
		t.Error(err)
	}
}

func hclString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

func TestConvert_KeepsTheMeaningOfRandomFiles(t *testing.T) {
	dir := t.TempDir()
	var (
		text = rapid.SampledFrom([]string{"", "x", "a b", "true", "12", "~", "null", "- x", "# no comment", "a: b", " lead", "trail ", "two\nlines", "\n", "tab\there",
			`say "hi"`, `back\slash`, "${x}", "%{if}", "0x1F", "1e3", "2026-01-01", "yes", "&a", "*a", "!x", "|", "é", "{{ other }}", "'", "@daily", "a\n\n  b\n"})
		name   = rapid.SampledFrom([]string{"a", "b", "c1", "d-e", "_f", "names", "path"})
		scalar = rapid.Custom(func(t *rapid.T) string {
			if rapid.Bool().Draw(t, "string") {
				return hclString(text.Draw(t, "text"))
			}
			return rapid.SampledFrom([]string{"1", "0", "-3", "1.5", "0x10", "010", "1e3", "true", "false", "12345678901234567890123"}).Draw(t, "literal")
		})
	)
	var body func(t *rapid.T, depth int) string
	body = func(t *rapid.T, depth int) string {
		var b strings.Builder
		for _, key := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID[string]).Draw(t, "keys") {
			switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case kind == 0 && depth > 0:
				for range rapid.IntRange(1, 2).Draw(t, "blocks") {
					fmt.Fprintf(&b, "%s {\n%s}\n", key, body(t, depth-1))
				}
			case kind == 1 && depth > 0:
				fmt.Fprintf(&b, "%s = {\n%s}\n", key, strings.ReplaceAll(body(t, 0), " {", " = {"))
			case kind == 2:
				fmt.Fprintf(&b, "%s = [%s]\n", key, strings.Join(rapid.SliceOfN(scalar, 0, 3).Draw(t, "list"), ", "))
			default:
				fmt.Fprintf(&b, "%s = %s # %s\n", key, scalar.Draw(t, "scalar"), rapid.SampledFrom([]string{"why", "a: b", "", "#"}).Draw(t, "comment"))
			}
		}
		return b.String()
	}
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
		maybe := func(format string, args ...any) {
			if rapid.Bool().Draw(rt, "maybe") {
				line(format, args...)
			}
		}
		maybe("id = %s", scalar.Draw(rt, "id"))
		maybe("# about\nsyslog {\n name = %s\n}", scalar.Draw(rt, "name"))
		maybe("consul {\n kv_path = %s\n tls { verify = false }\n}", hclString(text.Draw(rt, "path")))
		maybe("driver \"terraform\" {\n backend \"s3\" {\n%s}\n required_providers {\n x = { source = \"a/x\" }\n y = \"1.0.0\"\n}\n}", body(rt, 2))
		aliases := []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(rt, "providers")]
		for _, alias := range aliases {
			line("terraform_provider \"p\" {\n alias = %q\n task_env { \"X\" = %s }\n%s}", alias,
				hclString(text.Draw(rt, "env")+rapid.SampledFrom([]string{"", `{{ env "X" }}`}).Draw(rt, "template")), body(rt, 2))
		}
		maybe("service {\n name = \"web\"\n id = \"w1\"\n cts_user_defined_meta { \"a b\" = %s }\n}", scalar.Draw(rt, "meta"))
		for i := range rapid.IntRange(0, 3).Draw(rt, "tasks") {
			line("task {\n name = \"t%d\"", i)
			line(" %s = \"./m\"", rapid.SampledFrom([]string{"module", "source", "Module"}).Draw(rt, "module"))
			maybe(" description = %s", hclString(text.Draw(rt, "description")))
			maybe(" enabled = %s", rapid.SampledFrom([]string{"true", "false", `"0"`}).Draw(rt, "enabled"))
			maybe(" variables {\n x = %s\n}", rapid.SampledFrom([]string{"1", "true", `"[1, \"b\"]"`, `"\"a\\nb\""`}).Draw(rt, "variable"))
			maybe(" buffer_period { min = \"1s\" }")
			maybe(" providers = [%q]", rapid.SampledFrom(append([]string{"p.a"}[:min(1, len(aliases))], "p", "q")).Draw(rt, "provider"))
			switch rapid.IntRange(0, 4).Draw(rt, "condition") {
			case 0:
				line(" services = [%s]", rapid.SampledFrom([]string{`"api"`, `"api", "db"`, `"w1"`, `"api", "w1"`, ""}).Draw(rt, "services"))
			case 1:
				line(" condition \"catalog-services\" {\n regexp = %s\n source_includes_var = false\n node_meta { \"k 1\" = \"v\" }\n}", hclString("^a"))
				maybe(" services = [\"api\", \"db\"]")
			case 2:
				line(" condition \"schedule\" {\n cron = \"@daily\"\n}")
				maybe(" source_input \"consul-kv\" {\n path = \"p\"\n}")
				maybe(" services = [\"api\"]")
			case 3:
				line(" condition \"services\" {\n names = [\"a\"]\n use_as_module_input = %s\n}", rapid.SampledFrom([]string{"true", "false"}).Draw(rt, "use"))
				maybe(" module_input \"consul-kv\" {\n path = \"p\"\n}\n source_input \"nodes\" {}")
			}
			line("}")
		}
		if b.Len() == 0 {
			line("# nothing")
		}
		path := filepath.Join(dir, "f.hcl")
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			rt.Fatalf("%v", err)
		}
		if _, err := Load(options(dir, path)); err != nil {
			rt.Fatalf("not a file to test with: %v\n%s", err, b.String())
		}
		sameAfterConversion(rt, options(dir, path), dir)
	})
}
