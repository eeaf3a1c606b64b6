package config

import (
	"strings"
	"testing"
)

func TestLoad_WarnsAboutAKindOfConfigEntriesThatIsNotKnown(t *testing.T) {
	for kind, warns := range map[string]bool{"service-intentions": false, "service-intention": true} {
		cfg := load(t, "f.hcl", aTask(`condition "config-entries" { kind = "`+kind+`" }`))
		if len(cfg.Warnings) > 0 != warns || warns && !strings.Contains(cfg.Warnings[0].String(), `"service-intention" is not a kind of config entries that Terrapulse knows; check the spelling`) {
			t.Errorf("%s: warnings %v", kind, cfg.Warnings)
		}
	}
}

func TestCondition_DoesNotSelectTheStateOfItsTask(t *testing.T) {
	const refused = `selects "own/state-env:loop", where Terraform keeps the state of the task`
	for _, tt := range []struct{ backend, condition, want string }{
		{"", "path = \"own\"\nrecurse = true", refused},
		{"", "path = \"\"\nrecurse = true", refused},
		{"", "path = \"own/state-env:loop\"", refused},
		{`address = "http://localhost:8500"`, "path = \"own\"\nrecurse = true", refused},
		{`address = "other:8500"`, "path = \"own\"\nrecurse = true", ""},
		{"", "path = \"own\"", ""},
		{"", "path = \"own/other\"\nrecurse = true", ""},
		{"", "path = \"own\"\nrecurse = true\ndatacenter = \"dc2\"", ""},
		{"", "path = \"own\"\nrecurse = true\nuse_as_module_input = false", ""},
	} {
		dir := write(t, "f.hcl", "driver \"terraform\" {\n backend \"consul\" {\n path = \"own/state\"\n "+tt.backend+"\n }\n}\n"+
			"task {\n name = \"loop\"\n module = \"./m\"\n condition \"consul-kv\" {\n"+tt.condition+"\n }\n}\n")
		if _, err := Load(options(dir, "f.hcl")); (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
