package rootmodule

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// rendered are the files of a module, by name.
func rendered(t *testing.T, m Module) map[string]string {
	t.Helper()
	files, err := m.Files()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		var text strings.Builder
		if err := f.Render(&text); err != nil {
			t.Fatal(err)
		}
		all[f.Name] = text.String()
	}
	return all
}

func TestFiles_ChangesAreGivenToModulesThatDeclareThem(t *testing.T) {
	m := plainModule()
	m.Changes = consul.Names{Added: []string{"web-4.n1.dc1"}, Removed: []string{"cfg/a", `quo"te ${x}`}}
	without := rendered(t, m)
	m.Types = map[string]string{"changes": "object({ added = list(string), removed = list(string), changed = list(string) })"}
	with := rendered(t, m)
	for file, added := range map[string]string{
		MainFile:      "  changes = {\n    added   = keys(var.changes.added)\n    removed = keys(var.changes.removed)\n    changed = keys(var.changes.changed)\n  }\n",
		VariablesFile: "\n" + strings.TrimPrefix(changesDeclaration, "\n"),
		ValuesFile:    "\nchanges = {\n  added   = {\"web-4.n1.dc1\" = \"\"}\n  removed = {\"cfg/a\" = \"\", \"quo\\\"te $${x}\" = \"\"}\n  changed = {}\n}\n",
	} {
		if !strings.Contains(with[file], added) {
			t.Errorf("%s has no %s:\n%s", file, added, with[file])
		}
		if got := strings.Replace(with[file], added, "", 1); got != without[file] {
			t.Errorf("%s: besides, this differs: %s", file, cmp.Diff(without[file], got))
		}
	}
}

func TestFiles_ChangesAreNotGivenToOtherModules(t *testing.T) {
	m := plainModule()
	m.Changes = consul.Names{Added: []string{"web-4.n1.dc1"}}
	want := rendered(t, m)
	for name, declared := range map[string]string{
		"no type": "", "any": "any", "a list": "list(string)", "another object": "object({ since = string })", "more attributes": "object({ added = list(string), since = string })",
		"another element": "object({ added = list(object({ id = string })) })", "no attributes": "object({})", "not parsed": "object({",
	} {
		m.Types = map[string]string{"changes": declared}
		if diff := cmp.Diff(want, rendered(t, m)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	m.Types = map[string]string{"changes": "object({ added = list(string) })"}
	m.Task.Variables = map[string]cty.Value{"changes": cty.EmptyObjectVal}
	if getsChanges(m.Task, m.Types) {
		t.Error("a task that sets the variable itself has it overwritten")
	}
	if got := InputTypes(&config.Task{}, m.Types)["changes"]; !got.Equals(changesType) {
		t.Errorf("the check expects %#v", got)
	}
}
