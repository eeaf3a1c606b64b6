package module

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestSensitiveVariables_AreThoseThatTheModuleDeclares(t *testing.T) {
	const module = "variable \"services\" {}\nvariable \"open\" {}\nvariable \"token\" {\n  sensitive = true\n}\n"
	local, broken, work := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(local, "main.tf"), module)
	write(t, filepath.Join(broken, "main.tf"), "variable \"")
	write(t, filepath.Join(work, ".terraform/modules/web/main.tf"), module)
	write(t, filepath.Join(work, ".terraform/modules/modules.json"),
		`{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"web","Source":"registry.terraform.io/example/web/aws","Dir":".terraform/modules/web"}]}`)
	for name, test := range map[string]struct {
		module, dir string
		open        bool // whether the value of open may be shown
	}{
		"a local module":                     {local, work, true},
		"a module that cannot be parsed":     {broken, work, false},
		"a module that is gone":              {filepath.Join(local, "gone"), work, false},
		"a module of a registry":             {"example/web/aws", work, true},
		"another module of a registry":       {"example/other/aws", work, false},
		"a module that is not installed yet": {"example/web/aws", local, false},
	} {
		sensitive := SensitiveVariables(&config.Task{Name: "web", Module: test.module, WorkingDir: test.dir})
		if !sensitive("token") || !sensitive("unknown") || sensitive("open") == test.open {
			t.Errorf("%s: token %v, open %v, unknown %v", name, sensitive("token"), sensitive("open"), sensitive("unknown"))
		}
	}
}

func TestSensitiveValues_AreThoseOfSensitiveVariables(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.tf"), "variable \"open\" {}\nvariable \"users\" {\n  sensitive = true\n}\n")
	task := &config.Task{Name: "web", Module: dir, Variables: map[string]cty.Value{
		"open": cty.StringVal("shown"), "undeclared": cty.StringVal("shown"),
		"users": cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{
			"password": cty.StringVal("hidden"), "pin": cty.NumberIntVal(123456), "port": cty.NumberIntVal(8080), "none": cty.NullVal(cty.String)})}),
	}}
	if diff := cmp.Diff([]string{"hidden", "123456"}, SensitiveValues(task)); diff != "" {
		t.Error(diff)
	}
	task.Module = filepath.Join(dir, "gone")
	if got := SensitiveValues(task); got != nil {
		t.Errorf("of a module that cannot be read: %q", got)
	}
}
