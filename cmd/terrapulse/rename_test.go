//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// A task is renamed, first without moved_from: it is held, and nothing is made anew.
func TestRename_TaskKeepsWhatItHasMade(t *testing.T) {
	for name, backend := range map[string]string{"local": `backend "local" {}`, "consul": "backend \"consul\" {\n    gzip = false\n  }"} {
		t.Run(name, func(t *testing.T) {
			s := newParallelSite(t)
			s.register("web", "web-1", 8080, "passing")
			made := s.path("made.txt")
			module := s.module("made", `
variable "services" {}
resource "terraform_data" "once" {
  input = length(var.services)
  provisioner "local-exec" {
    command = "echo made >> `+made+`"
  }
}
`)
			config := func(task string) string {
				file := s.config(task)
				text := strings.Replace(s.read("tasks.hcl"), `backend "local" {}`, backend, 1)
				next := file + ".next" // the instance must not see the file before it is complete
				if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(next, file); err != nil {
					t.Fatal(err)
				}
				return file
			}
			// stateOf is the state of a task without spaces; empty if there is none.
			stateOf := func(task string) string {
				text := s.read("work/" + task + "/terraform.tfstate.d/" + task + "/terraform.tfstate")
				if name == "consul" {
					pair, _, err := s.consul.Client().KV().Get("consul-terraform-sync/terraform-env:"+task, nil)
					if err != nil {
						t.Error(err)
					}
					if pair != nil {
						text = string(pair.Value)
					}
				}
				return strings.Join(strings.Fields(text), "")
			}
			const destroy = onWeb + "\n  on_removal = \"destroy\"\n  approve_destroy = \"never\""
			file := config(taskOf("lb", module, destroy))
			p := s.start("-config-file", file)
			s.awaitPhase("lb", apispec.PhaseApplied, "")

			config(taskOf("edge", module, destroy))
			s.awaitPhase("edge", apispec.PhaseWaiting, `set moved_from to "lb"`)
			s.awaitPhase("lb", apispec.PhaseWaiting, "nothing is destroyed")

			config(taskOf("edge", module, destroy+"\n  moved_from = \"lb\""))
			s.awaitPhase("edge", apispec.PhaseApplied, "")
			s.awaitPhase("lb", apispec.PhaseRemoved, "it was renamed to edge")
			if got := s.read("made.txt"); got != "made\n" {
				t.Errorf("it was made anew: %q", got)
			}
			if stateOf("lb") != "" || !strings.Contains(stateOf("edge"), "module.edge") {
				t.Errorf("the state before is %q, that of the new name %q", stateOf("lb"), stateOf("edge"))
			}

			// The new name keeps the infrastructure in step.
			config(taskOf("edge", module, destroy))
			s.register("web", "web-2", 8081, "passing")
			eventually(t, "a change is applied under the new name", func() bool { return strings.Contains(stateOf("edge"), `"value":2`) })
			if code := p.stop(); code != exitOK {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
