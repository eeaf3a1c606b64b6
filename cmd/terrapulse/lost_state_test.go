package main

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// The Consul that holds the states is replaced by one that has none, as after a restore without its snapshot.
func TestLostState_TaskWaitsForAnApprovalInsteadOfMakingEverythingAgain(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := strings.ReplaceAll(s.config(s.task("lb", onWeb)), "tasks.hcl", "consul.hcl")
	s.write("consul.hcl", strings.Replace(s.read("tasks.hcl"), `backend "local" {}`, `backend "consul" {}`, 1))
	start := func() (stop func()) {
		p := s.start("-config-file", file)
		return func() {
			if code := p.stop(); code != exitOK {
				t.Errorf("exit code %d", code)
			}
		}
	}
	stop := start()
	eventually(t, "the task is applied", func() bool {
		return strings.Contains(s.read("lb.txt"), "8080") && s.named("lb").Phase == apispec.PhaseApplied
	})
	stop()
	if _, err := s.consul.Client().KV().DeleteTree("consul-terraform-sync/", nil); err != nil {
		t.Fatal(err)
	}

	s.register("web", "web-2", 9090, "passing")
	stop = start()
	defer func() { stop() }()
	eventually(t, "the plan waits", func() bool { return s.named("lb").Phase == apispec.PhaseWaiting })
	wantText(t, s.named("lb").Reason.Text, "the state of the task is lost: it had 1 resource after the latest run", "Restore the state from a backup")
	if got := s.read("lb.txt"); strings.Contains(got, "9090") {
		t.Errorf("it was applied: %s", got)
	}
	wantCode(t, s.run("approve", "-config-file", file, "lb"), exitOK)
	eventually(t, "the plan is applied", func() bool {
		return strings.Contains(s.read("lb.txt"), "9090") && s.named("lb").Phase == apispec.PhaseApplied
	})
	s.register("web", "web-3", 9191, "passing")
	eventually(t, "the task runs by itself again", func() bool { return strings.Contains(s.read("lb.txt"), "9191") })
}
