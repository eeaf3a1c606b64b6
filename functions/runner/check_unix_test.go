//go:build !windows

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// TestWork_ChecksOfTheBundleJudgeThePlan runs a check whose program and files are in the
// bundle, with secrets all around it.
func TestWork_ChecksOfTheBundleJudgeThePlan(t *testing.T) {
	c := newContainer(t)
	for name, secret := range map[string]string{"CONSUL_HTTP_TOKEN": "consul-secret", "VAULT_TOKEN": "vault-secret", "TERRAPULSE_API": "own-secret", "DB_PASSWORD": "template-secret"} {
		t.Setenv(name, secret)
	}
	got := t.TempDir()
	for name, text := range map[string]string{
		"tasks.hcl": `driver "terraform" {
  backend "local" {}
}
terraform_provider "local" {
  task_env { TOKEN = "{{ env \"DB_PASSWORD\" }}-of-provider" }
}
check "mine" {
  command = ["./judge.sh"]
  files   = ["judge.sh", "policy"]
}
task {
  name      = "t0"
  module    = "./m0"
  providers = ["local"]
  variables = {
    short    = "\"abc\""
    password = "{{ env \"DB_PASSWORD\" }}"
  }
  condition "services" {
    names = ["web"]
  }
}
`,
		"m0/main.tf": `variable "services" {}
variable "short" { sensitive = true }
variable "password" { sensitive = true }
resource "terraform_data" "out" {
  input = { user = "x${var.short}y", password = "of ${var.password}", plain = "shown" }
}
resource "local_sensitive_file" "key" {
  filename = "${path.module}/key"
  content  = "attribute-secret"
}
`,
		"judge.sh": fmt.Sprintf("#!/bin/sh\ncat >%s/input; env >%s/environment; cat policy/limits; exit 1\n", got, got),
		// It travels with the bundle and is read in the check's folder.
		"policy/limits": "no more than 3: template-secret",
	} {
		c.write(name, text)
	}
	if err := os.Chmod(filepath.Join(c.dir, "judge.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	packed, err := bundle.Pack(loadTasks(t, c.dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"judge.sh", "policy"} { // they are not where the container works
		if err := os.RemoveAll(filepath.Join(c.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if c.cfg, err = bundle.Load(packed.Zip, filepath.Join(t.TempDir(), "bundle"), config.Options{Hostname: "h"}); err != nil {
		t.Fatal(err)
	}
	c.bundle = func(context.Context, string) (*config.Config, error) { return c.cfg, nil }
	c.decide("l2", state.KindApply)
	if err := c.work(t.Context(), "l2"); err != nil {
		t.Fatal(err)
	}
	run := c.run("t0")
	if run.State != state.RunWaiting || run.Wait.Text != "check mine refused the plan: no more than 3: (redacted)" {
		t.Fatalf("%s %s: %+v", run.State, run.Error, run.Wait)
	}
	log, err := state.LoadLog(t.Context(), c.store, "t0", "l2-t0")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"log": string(log)}
	for _, name := range []string{"input", "environment"} {
		text, err := os.ReadFile(filepath.Join(got, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	for name, text := range texts {
		text = strings.ReplaceAll(text, "DB_PASSWORD=template-secret", "") // of the container's environment, which Terraform has, too
		for _, secret := range []string{"-secret", "xabcy", `"abc"`} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s of the check has %s:\n%s", name, secret, text)
			}
		}
	}
	if !strings.Contains(texts["input"], `"plain":"shown"`) || !strings.Contains(texts["log"], "  no more than 3: (redacted)\n") {
		t.Errorf("the input is %s\nthe log is %s", texts["input"], texts["log"])
	}
}
