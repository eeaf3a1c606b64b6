//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// A task is renamed, first without moved_from: it is held, and nothing is made anew.
func TestRename_TaskKeepsWhatItHasMade(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	module := s.module("made", `
variable "services" {}
resource "terraform_data" "once" {
  input = length(var.services)
  provisioner "local-exec" {
    command = "echo made >> `+s.path("made.txt")+`"
  }
}
`)
	stateOf := func(task string) string {
		return strings.Join(strings.Fields(s.read("work/"+task+"/terraform.tfstate.d/"+task+"/terraform.tfstate")), "")
	}
	const destroy = onWeb + "\n  on_removal = \"destroy\"\n  approve_destroy = \"never\""
	p := s.start("-config-file", s.config(taskOf("lb", module, destroy)))
	s.awaitPhase("lb", apispec.PhaseApplied, "")

	s.config(taskOf("edge", module, destroy))
	s.awaitPhase("edge", apispec.PhaseWaiting, `set moved_from to "lb"`)

	s.config(taskOf("edge", module, destroy+"\n  moved_from = \"lb\""))
	s.awaitPhase("edge", apispec.PhaseApplied, "")
	s.awaitPhase("lb", apispec.PhaseRemoved, "it was renamed to edge")
	if got := s.read("made.txt"); got != "made\n" {
		t.Errorf("it was made anew: %q", got)
	}
	if stateOf("lb") != "" || !strings.Contains(stateOf("edge"), "module.edge") {
		t.Errorf("the state before is %q, that of the new name %q", stateOf("lb"), stateOf("edge"))
	}

	// The new name keeps the infrastructure in step.
	s.config(taskOf("edge", module, destroy))
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "a change is applied under the new name", func() bool { return strings.Contains(stateOf("edge"), `"value":2`) })
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
