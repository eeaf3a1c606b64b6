//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// While a peer is down, tasks that read it are checked for drift, renamed and put into a window. No such
// thing applies anything, nothing is made anew or lost, and each counts once the peer answers again.
func TestAnOutageOfAPeerMeetsDriftRenameAndWindow(t *testing.T) {
	s := newParallelSite(t, consultest.WithPeering())
	there := exporter(t, 2)
	s.consul.ImportFrom(there, "cluster-02")
	s.consul.Imported("cluster-02", "web", 2)
	made := s.path("made.txt")
	once := s.module("once", `
variable "services" {}
resource "terraform_data" "once" {
  provisioner "local-exec" {
    command = "echo made >> `+made+`"
  }
}
`)
	const (
		onPeer = "condition \"services\" {\n    names = [\"web\"]\n    peer  = \"cluster-02\"\n  }\n"
		closed = "window {\n kind = \"deny\"\n schedule = \"* * * * *\"\n duration = \"2m\"\n}\n"
	)
	s.config(s.task("repaired", strings.Replace(everySecond, "%s", "apply", 1)+onPeer))
	common := s.read("tasks.hcl")
	configure := func(tasks ...string) string { return s.write("tasks.hcl", common+strings.Join(tasks, "")) }
	p := s.start("-config-file", configure(taskOf("far", once, onPeer), s.task("closing", onPeer)))
	for _, task := range []string{"repaired", "far", "closing"} {
		s.awaitPhase(task, apispec.PhaseApplied, "")
	}
	eventually(t, "a check finds no drift", func() bool { return apispec.Deref(s.named("repaired").Drift).Checked != nil })

	there.Stop()
	for _, task := range []string{"repaired", "far", "closing"} {
		s.awaitPhase(task, apispec.PhaseUnreadable, "the peer does not answer")
	}
	checked := *s.named("repaired").Drift.Checked
	if err := os.Remove(s.path("repaired.txt")); err != nil {
		t.Fatal(err)
	}
	configure(taskOf("distant", once, "moved_from = \"far\"\n"+onPeer), s.task("closing", closed+onPeer))
	s.awaitPhase("distant", apispec.PhaseUnreadable, "the peer does not answer")
	if got := s.named("repaired"); s.read("repaired.txt") != "" || got.Drift.Checked.After(checked) {
		t.Errorf("a task whose peer is down is checked or repaired: %+v", got.Drift)
	}

	there.Restart()
	r := &api.CatalogRegistration{Node: "n1", Address: "10.0.0.1", Service: &api.AgentService{ID: "web-2", Service: "web", Port: 9002}}
	eventually(t, "the peer takes another instance", func() bool {
		_, err := there.Client().Catalog().Register(r, nil)
		return err == nil
	})
	s.awaitPhase("closing", apispec.PhaseSoon, "window")
	eventually(t, "the drift is repaired, with the new instance", func() bool { return strings.Count(s.read("repaired.txt"), "\n") == 3 })
	s.awaitPhase("distant", apispec.PhaseApplied, "")
	s.awaitPhase("far", apispec.PhaseRemoved, "it was renamed to distant")
	if text := s.read("closing.txt"); strings.Count(text, "\n") != 2 {
		t.Errorf("applied in a window that denies it: %q", text)
	}
	if text := s.read("made.txt"); text != "made\n" {
		t.Errorf("the renamed task made it anew: %q", text)
	}

	configure(taskOf("distant", once, "moved_from = \"far\"\n"+onPeer), s.task("closing", onPeer))
	eventually(t, "it is applied once there is no window", func() bool { return strings.Count(s.read("closing.txt"), "\n") == 3 })
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
