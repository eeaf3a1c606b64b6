package overlay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/overlay"
)

// files loads a configuration from the text of a file.
func files(t *testing.T, dir, text string) *config.Config {
	t.Helper()
	path := filepath.Join(dir, "f.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Dir: dir, Paths: []config.Path{{Name: path}}, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

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
	was := files(t, dir, head+task)
	old, _ := was.Task("web")
	d, err := overlay.DefinitionOf(was, old, "b1", func(name string) bool { return name == "password" })
	if err != nil {
		t.Fatal(err)
	}
	if text := string(d.Task) + d.Bundle + strings.Join(d.Providers, " "); strings.Contains(text, "hunter") || d.Bundle != "" || len(d.Providers) != 1 {
		t.Errorf("kept: %s", text)
	}
	// The global on_removal went with the task.
	now := files(t, dir, strings.ReplaceAll(head, "on_removal = \"destroy\"\n", ""))
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

	plain := files(t, dir, "on_removal = \"destroy\"\ntask {\n  name = \"plain\"\n  module = \"./module\"\n}\n")
	least, _ := plain.Task("plain")
	if d, err = overlay.DefinitionOf(plain, least, "", nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := overlay.Restore(now, "plain", d); err != nil {
		t.Errorf("a task with the required keys alone: %v", err)
	}
}

func TestRestore_NamesAProviderThatIsGone(t *testing.T) {
	dir := t.TempDir()
	const task = "task {\n  name = \"web\"\n  module = \"./module\"\n  providers = [\"aws.west\", \"local\"]\n}\n"
	was := files(t, dir, "terraform_provider \"aws\" {\n  alias = \"west\"\n}\n"+task)
	old, _ := was.Task("web")
	d, err := overlay.DefinitionOf(was, old, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := overlay.Restore(files(t, dir, "port = 1\n"), "web", d); err == nil || !strings.Contains(err.Error(), "provider aws.west is not in the configuration any more") {
		t.Errorf("without its provider: %v", err)
	}
}
