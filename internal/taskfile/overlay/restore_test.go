package overlay_test

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

func TestRestore_RemovedTaskIsAsItWasApplied(t *testing.T) {
	const head = "working_dir = \"work\"\nrun_timeout = \"5m\"\non_removal = \"destroy\"\nterraform_provider \"aws\" {\n  alias = \"west\"\n  secret_key = \"hunter2\"\n}\n"
	const task = `
task {
  name = "web"
  description = "the web servers"
  enabled = false
  module = "./module"
  providers = ["aws.west", "local"]
  variables = {
    password = "\"hunter3\""
    sizes = "[1, 2]"
  }
  working_dir = "elsewhere"
  run_timeout = "10m"
  approval = "always"
  window {
    kind = "allow"
    schedule = "@daily"
    duration = "1h"
    on = ["destroy"]
  }
  condition "consul-kv" {
    path = "web/"
    recurse = true
  }
  module_input "services" {
    names = ["web", "api"]
  }
}
`
	dir := t.TempDir()
	was := configtest.Load(t, dir, "f.hcl", head+task)
	old, _ := was.Task("web")
	d, err := overlay.DefinitionOf(was, old, "b1", func(name string) bool { return name == "password" })
	if err != nil {
		t.Fatal(err)
	}
	if text := string(d.Task) + d.Bundle + strings.Join(d.Providers, " "); strings.Contains(text, "hunter") || d.Bundle != "" || len(d.Providers) != 1 {
		t.Errorf("kept: %s", text)
	}
	// The global on_removal went with the task.
	now := configtest.Load(t, dir, "f.hcl", strings.ReplaceAll(head, "on_removal = \"destroy\"\n", ""))
	with, back, err := overlay.Restore(now, "web", d)
	if err != nil {
		t.Fatal(err)
	}
	if diff := config.Differences(was, old, with, back); strings.Join(diff, "; ") != "enabled; variables password" {
		t.Errorf("restored with other %s", strings.Join(diff, "; "))
	}
	if !back.Enabled || back.WorkingDir != old.WorkingDir || back.Module != old.Module || len(now.Tasks) != 0 {
		t.Errorf("restored: %+v", back)
	}

	plain := configtest.Load(t, dir, "f.hcl", "on_removal = \"destroy\"\ntask {\n  name = \"plain\"\n  module = \"./module\"\n}\n")
	least, _ := plain.Task("plain")
	if d, err = overlay.DefinitionOf(plain, least, "", nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := overlay.Restore(now, "plain", d); err != nil {
		t.Errorf("a task with the required keys alone: %v", err)
	}
}

// TestRestore_VariablesOfARemovedTaskMayBeTemplates has a task whose secrets are read for each
// run: also for the one that destroys it.
func TestRestore_VariablesOfARemovedTaskMayBeTemplates(t *testing.T) {
	dir := t.TempDir()
	const vault = "vault {\n  address = \"http://127.0.0.1:8200\"\n}\n"
	was := configtest.Load(t, dir, "f.hcl", vault+`
task {
  name = "web"
  module = "./module"
  providers = ["local"]
  on_removal = "destroy"
  variables = {
    token = "{{ env \"TOKEN\" }}"
    key = "{{ with secret \"kv/x\" }}{{ .Data.x }}{{ end }}"
    size = "2"
  }
}
`)
	old, _ := was.Task("web")
	d, err := overlay.DefinitionOf(was, old, "", func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	with, back, err := overlay.Restore(configtest.Load(t, dir, "f.hcl", vault), "web", d)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.VariableTemplates) != 2 || back.VariableTemplates["token"] != old.VariableTemplates["token"] {
		t.Errorf("its templates are %v", back.VariableTemplates)
	}
	if diff := config.Differences(was, old, with, back); strings.Join(diff, "; ") != "variables size" { // which is secret
		t.Errorf("restored with other %s", strings.Join(diff, "; "))
	}
	if _, _, err := overlay.Restore(configtest.Load(t, dir, "f.hcl", "port = 1\n"), "web", d); err == nil || !strings.Contains(err.Error(), "Vault") {
		t.Errorf("without Vault: %v", err)
	}
}

// Secrets are not kept in the store. What a task needs of them comes from the files again, or is named.
func TestRestore_CommandOfACheckIsNotKeptWithItsArguments(t *testing.T) {
	dir := t.TempDir()
	const check = "check \"policy\" {\n  command = [\"opa\", \"-token\", \"hunter2\"]\n}\n"
	const task = "task {\n  name = \"web\"\n  module = \"./module\"\n  verify \"vip\" {\n    command = [\"probe\", \"hunter2\"]\n  }\n  check \"size\" {\n    command = [\"./size\"]\n  }\n"
	was := configtest.Load(t, dir, "f.hcl", task+check+"}\n")
	old, _ := was.Task("web")
	d, err := overlay.DefinitionOf(was, old, "", nil)
	if err != nil || strings.Contains(string(d.Task), "hunter2") {
		t.Fatalf("%v; kept: %s", err, d.Task)
	}
	if _, _, err := overlay.Restore(configtest.Load(t, dir, "f.hcl", "port = 1\n"), "web", d); err == nil || !strings.Contains(err.Error(), "check.policy.command may have a secret, so it was not kept: put the block back") {
		t.Errorf("without the check: %v", err)
	}
	_, back, err := overlay.Restore(configtest.Load(t, dir, "f.hcl", check), "web", d)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range back.Checks {
		if want := map[string]int{"policy": 3, "size": 1}[c.Name]; len(c.Command) != want {
			t.Errorf("check %s has the command %q", c.Name, c.Command)
		}
	}
	if len(back.Checks) != 2 || len(back.Verify) != 0 {
		t.Errorf("restored: %+v, %+v", back.Checks, back.Verify)
	}
}

func TestRestore_NamesAProviderThatIsGone(t *testing.T) {
	dir := t.TempDir()
	const task = "task {\n  name = \"web\"\n  module = \"./module\"\n  providers = [\"aws.west\", \"local\"]\n}\n"
	was := configtest.Load(t, dir, "f.hcl", "terraform_provider \"aws\" {\n  alias = \"west\"\n}\n"+task)
	old, _ := was.Task("web")
	d, err := overlay.DefinitionOf(was, old, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := overlay.Restore(configtest.Load(t, dir, "f.hcl", "port = 1\n"), "web", d); err == nil || !strings.Contains(err.Error(), "provider aws.west is not in the configuration any more") {
		t.Errorf("without its provider: %v", err)
	}
}
