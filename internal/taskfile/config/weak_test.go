package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

func TestLoad_AcceptsWhatCTSDecodesWeakly(t *testing.T) {
	for _, test := range []struct {
		name, file, text string
		want             []string // warnings
	}{
		{"a key that is set twice", "f.hcl", "port = 1\nid = \"x\"\nport = 8559\n" + aTask("condition \"services\" {\n names = [\"web\"]\n}"), []string{
			"f.hcl:3: port: set more than once: this value is used, and the one of line 1 is not; remove one of them",
		}},
		{"a key that is set three times", "f.hcl", "port = 1\nport = 2\nport = 8559\n" + aTask(services), []string{
			"f.hcl:3: port: set more than once: this value is used, and the one of line 1 is not; remove one of them",
			"f.hcl:3: port: set more than once: this value is used, and the one of line 2 is not; remove one of them",
		}},
		{"a key that is set twice in JSON", "f.json", "{\"port\": 1,\n\"port\": 8559, \"task\": {\"name\": \"t\", \"module\": \"./m\", \"condition\": {\"services\": {\"names\": [\"web\"]}}}}", []string{
			"f.json:2: port: set more than once: this value is used, and the one of line 1 is not; remove one of them",
		}},
		{"lists of one", "f.hcl", "port = [\"8559\"]\n" + aTask("enabled = [true]\ncondition \"services\" {\n regexp = [\"web\"]\n cts_user_defined_meta { a = [\"b\"] }\n}\nbuffer_period { min = [\"1s\"] }"), []string{
			"f.hcl:1: port: a list of one, where a single value is expected: its element is used; remove the brackets",
			"f.hcl:5: task[0].enabled: a list of one, where a single value is expected: its element is used; remove the brackets",
			"f.hcl:7: task[0].condition.services.regexp: a list of one, where a single value is expected: its element is used; remove the brackets",
			"f.hcl:8: task[0].condition.services.cts_user_defined_meta.a: a list of one, where a single value is expected: its element is used; remove the brackets",
			"f.hcl:10: task[0].buffer_period.min: a list of one, where a single value is expected: its element is used; remove the brackets",
		}},
		{"booleans in metadata", "f.hcl", "port = 8559\n" + aTask("labels { a = true }\ncondition \"services\" {\n names = [\"web\"]\n cts_user_defined_meta {\n  a = true\n  b = \"true\"\n }\n}"), []string{
			`f.hcl:9: task[0].condition.services.cts_user_defined_meta.a: the module gets "true", and got "1" from Consul-Terraform-Sync; write it in quotes: "true", or "1" if the module compares with that`,
		}},
		{"null for blocks", "f.json", `{"port": 8559, "driver": {"terraform": {"backend": {"local": {}}}}, "terraform_provider": null, "task": {"name": "t", "module": "./m", "module_input": null, "condition": {"services": {"names": ["web"]}}}}`, nil},
		{"JSON in a file of HCL", "f.hcl", "\n{\"port\": 8559, \"task\": {\"name\": \"t\", \"module\": \"./m\", \"condition\": {\"services\": {\"names\": [\"web\"]}}}}", nil},
		{"blocks that are assigned", "f.hcl", "port = 8559\ndriver = { terraform = { backend = { local = { workspace_dir = \"x\" } } } }\nterraform_provider = { fw = { tags = { a = \"b\" } } }\n" + aTask(services), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := load(t, test.file, test.text)
			var said []string
			for _, w := range cfg.Warnings {
				said = append(said, w.String())
			}
			if !slices.Equal(said, test.want) {
				t.Errorf("warned of %q", said)
			}
			watched := cfg.Tasks[0].Condition.Spec.(condition.Services)[0]
			if cfg.Port != 8559 || !slices.Equal(watched.Names, []string{"web"}) && (watched.Regexp == nil || *watched.Regexp != "web") {
				t.Errorf("port %d, services %v %v", cfg.Port, watched.Names, watched.Regexp)
			}
		})
	}
	if got, want := mistakes(t, "f.yaml", "id: [x]\n"), "f.yaml:1: id: must be a string, not a list"; got != want {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"port = [1, 2]": `f.hcl:1: port: cannot parse a list as int; it must be a whole number`,
		"id = []":       `f.hcl:1: id: must be a string, not a list`,
	} {
		if got := mistakes(t, "f.hcl", text+"\n"+aTask(services)); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestLoad_JoinsWhatHCLSaysInParts(t *testing.T) {
	cfg := load(t, "f.hcl", `driver "terraform" {
  required_providers { a = "1.0" }
  required_providers { b = { source = "x/b" } }
}
task {
  name      = "t"
  module    = "./m"
  services  = ["web"]
  services  = ["api"]
  providers = ["a"]
  providers = ["b"]
}
task {
  name   = "u"
  module = "./m"
  condition "services" {
    names = ["web"]
    names = ["api", "db"]
  }
}`)
	if required := cfg.Terraform.RequiredProviders; len(required) != 2 {
		t.Errorf("required_providers: %v", required)
	}
	first := cfg.Tasks[0]
	if got := first.Condition.Spec.(condition.Services)[0].Names; !slices.Equal(got, []string{"web", "api"}) || !slices.Equal(first.Providers, []string{"a", "b"}) {
		t.Errorf("services %v, providers %v", got, first.Providers)
	}
	if got := cfg.Tasks[1].Condition.Spec.(condition.Services)[0].Names; !slices.Equal(got, []string{"web", "api", "db"}) {
		t.Errorf("names %v", got)
	}
}

// Consul-Terraform-Sync passes it on.
func TestLoad_NULCharacterInJSONIsAnError(t *testing.T) {
	file := func(description string) Options {
		return options(write(t, "f.json", `{"task": {"name": "t", "module": "./m", "description": "`+description+`", "condition": {"services": {"names": ["web"]}}}}`), "f.json")
	}
	if got := mistakesIn(t, file("a\x00b")); !strings.Contains(got, `not valid JSON: invalid character '\x00' in string literal`) {
		t.Errorf("a NUL as such: %s", got)
	}
	if got := mustLoad(t, file(`a\u0000b`)).Tasks[0].Description; got != "a\x00b" {
		t.Errorf("a NUL as JSON writes it: %q", got)
	}
}
