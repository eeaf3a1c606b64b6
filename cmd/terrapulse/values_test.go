package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/vault/vaulttest"
	"github.com/terrapulse/terrapulse/internal/driver/panos/panostest"
)

// tellingModule says what it finds in a variable of its environment.
func (s *site) tellingModule(variable string) string {
	s.write("telling/main.tf", fmt.Sprintf(`
variable "services" {}
resource "terraform_data" "env" {
  triggers_replace = timestamp()
  provisioner "local-exec" { command = "printf %%s \"$%[1]s\" | sha256sum >> %[2]s; echo said $%[1]s; echo token $${VAULT_TOKEN:-withheld}; echo part $(echo $%[1]s | cut -d@ -f2)" }
}
`, variable, s.path("seen")))
	return s.path("telling")
}

// told is how often Terraform found a value.
func (s *site) told(value string) int {
	return strings.Count(s.read("seen"), fmt.Sprintf("%x", sha256.Sum256([]byte(value))))
}

// holding returns the files of the site that hold a text.
func (s *site) holding(text string) []string {
	s.t.Helper()
	var found []string
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

func TestARotatedSecretOfVaultIsUsedByTheNextRunAndIsNowhereElse(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	v := vaulttest.Start(t)
	v.AddToken("hvs.token", vaulttest.Token{})
	s.env = append(s.env, "VAULT_TOKEN=hvs.token")
	// A piece of the value is said by itself, too.
	text := s.config(fmt.Sprintf(`
vault { address = %q }
terraform_provider "local" {
  task_env {
    API_URL = "https://{{ with secret \"secret/api\" }}{{ .Data.data.user }}:{{ .Data.data.password }}{{ end }}@{{ key \"api/host\" }}"
    PIECE   = "{{ with secret \"secret/api\" }}{{ .Data.data.password | toUpper }}{{ end }}"
  }
}
task {
  name      = "tell"
  module    = %q
  providers = ["local"]
  %s
}
`, v.URL, s.tellingModule("API_URL"), onWeb))
	if _, err := s.consul.Client().KV().Put(&api.KVPair{Key: "api/host", Value: []byte("hunter2-host")}, nil); err != nil {
		t.Fatal(err)
	}
	config := s.read("tasks.hcl")
	s.write("tasks.hcl", strings.Replace(config, "driver \"terraform\" {", "driver \"terraform\" {\n  log = true\n  persist_log = true\n", 1))
	var results []result
	for _, password := range []string{"hunter2-first", "hunter2-rotated"} {
		v.Put("secret/api", map[string]any{"user": "hunter2-user", "password": password})
		r := s.run("-once", "-config-file", text, "-log-level", "TRACE")
		wantCode(t, r, exitOK)
		if n := s.told("https://hunter2-user:" + password + "@hunter2-host"); n != 1 {
			t.Errorf("Terraform found the value with %q %d times:\n%s", password, n, s.read("seen"))
		}
		results = append(results, r, s.run("inspect", "-config-file", text, "-log-level", "TRACE"))
	}
	results = append(results, s.run("logs", "tell"), s.run("runs", "-json", "tell"), s.run("status", "-json"))
	wantText(t, results[4].stdout, "said (redacted)", "part (redacted)", "token withheld")
	for i, r := range results {
		if all := r.stdout + r.stderr; strings.Contains(strings.ToLower(all), "hunter2") {
			t.Errorf("a secret is in output %d: %.2000s", i, all)
		}
	}
	if found := s.holding("hunter2"); len(found) > 0 {
		t.Errorf("a secret is in %q", found)
	}
}

func TestWhatAnApplyChangedOnAFirewallIsCommitted(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	fw := panostest.Start(t)
	v := vaulttest.Start(t)
	v.Put("kv/panos", map[string]any{"password": "another"})
	s.env = append(s.env, "VAULT_TOKEN=root")
	host, port := fw.Host()
	// The provider of that name is not there: another one takes its place, which
	// has no arguments.
	file := s.config(fmt.Sprintf(`
vault { address = %q }
terraform_provider "panos" {
  auto_commit = true
  task_env {
    PANOS_HOSTNAME = %q
    PANOS_PORT     = %q
    PANOS_USERNAME = %q
    PANOS_PASSWORD = "{{ with secret \"kv/panos\" }}{{ .Data.password }}{{ end }}"
  }
}
`, v.URL, host, port, fw.Username) + s.task("lb", onWeb+"\n  providers = [\"panos\"]"))
	s.write("tasks.hcl", strings.Replace(s.read("tasks.hcl"), `backend "local" {}`, `backend "local" {}
  required_providers {
    panos = { source = "hashicorp/local" }
  }`, 1))

	wantCode(t, s.run("-inspect", "-config-file", file), exitOK)
	if commands, _ := fw.Commits(); len(commands) > 0 || !fw.Changed() {
		t.Errorf("an inspection committed: %q", commands)
	}
	r := s.run("-once", "-config-file", file)
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "Task lb failed", "not committed to PAN-OS")
	wantRow(t, r.stdout, "lb", "failed", "1", "0", "0")
	v.Put("kv/panos", map[string]any{"password": fw.Password})

	// The next run changes nothing, and commits what the earlier run has left.
	r = s.run("-once", "-config-file", file)
	wantCode(t, r, exitOK)
	wantRow(t, r.stdout, "lb", "succeeded", "0", "0", "0")
	if fw.Changed() {
		t.Error("the changes are not committed")
	}
	wantText(t, s.run("logs", "lb").stdout, "committed to PAN-OS (job 1)")
	if found := s.holding(fw.Password); len(found) > 0 {
		t.Errorf("the password is in %q", found)
	}
}

func TestVariableTemplate_ReachesTheModuleAndNothingElse(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.put("app/password", []byte("hunter2-consul"))
	s.env = append(s.env, "APP_USER=hunter2-env")
	s.write("secret/main.tf", fmt.Sprintf(`
variable "services" {}
variable "login" {
  type      = string
  sensitive = true
}
variable "colour" {}
variable "port" {
  type = number
}
resource "terraform_data" "env" {
  triggers_replace = timestamp()
  provisioner "local-exec" {
    command     = "printf %%s \"$LOGIN\" | sha256sum >> %s; echo said $LOGIN"
    environment = { LOGIN = "${var.login}/${var.port}" }
  }
}
`, s.path("seen")))
	file := s.config(fmt.Sprintf(`
task {
  name   = "tell"
  module = %q
  variables = {
    login  = "{{ env \"APP_USER\" }}:{{ key \"app/password\" }}"
    port   = "{{ keyOrDefault \"app/port\" \"8443\" }}"
    colour = "\"blue\""
  }
  %s
}
`, s.path("secret"), onWeb))
	s.write("tasks.hcl", strings.Replace(s.read("tasks.hcl"), "driver \"terraform\" {", "driver \"terraform\" {\n  log = true\n  persist_log = true\n", 1))
	wantCode(t, s.run("validate", "-config-file", file), exitOK)
	results := []result{s.run("-once", "-config-file", file, "-log-level", "TRACE"), s.run("inspect", "-config-file", file, "-log-level", "TRACE"),
		s.run("logs", "tell"), s.run("runs", "-json", "tell"), s.run("status", "-json")}
	for i, r := range results {
		wantCode(t, r, exitOK)
		if strings.Contains(r.stdout+r.stderr, "hunter2") {
			t.Errorf("a secret is in output %d: %.2000s%.2000s", i, r.stdout, r.stderr)
		}
	}
	if n := s.told("hunter2-env:hunter2-consul/8443"); n != 1 {
		t.Errorf("the module found the value %d times:\n%s", n, s.read("seen"))
	}
	wantText(t, results[2].stdout, "Apply complete!")
	wantText(t, s.read("work/tell/main.tf"), `login  = var.login`, `colour = var.colour`)
	if found := s.holding("hunter2"); len(found) > 0 {
		t.Errorf("a secret is in %q", found)
	}

	if _, err := s.consul.Client().KV().Delete("app/password", nil); err != nil {
		t.Fatal(err)
	}
	r := s.run("-once", "-config-file", file)
	wantCode(t, r, exitError)
	wantText(t, r.stderr, `Task tell failed: variable "login": key "app/password": no such key`)
}
