//go:build !windows

package main

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestCheck_ChangedPolicyReleasesAHeldPlan(t *testing.T) {
	s := newParallelSite(t)
	s.instances(1, 2, true)
	s.write("policy/most", "1\n")
	file := s.config(s.task("lb", onWeb) + `
check "size" {
  command = ["sh", "-c", "grep -o '\"added\":\\[[^]]*' | tr ',' '\\n' | test $(wc -l) -le $(cat policy/most) || { echo too many; exit 1; }"]
  files   = ["policy"]
}
`)
	p := s.start("-config-file", file)
	s.inPhase(apispec.PhaseWaiting, "check size refused the plan: too many; it ends when the data changes")
	if s.applied() != 0 {
		t.Error("a plan that a check refuses was applied")
	}

	s.write("policy/most", "2\n")
	eventually(t, "the plan is judged by the new policy", func() bool { return s.applied() == 2 })
	s.inPhase(apispec.PhaseApplied, "")
	wantText(t, p.stderr.String(), "the task's rules have changed while the run waited")
}
