package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// inSteps removes instances six at a time, and waits until each step is applied.
func (s *site) inSteps(first, last, left int) {
	s.t.Helper()
	for ; first <= last; first += 6 {
		s.instances(first, first+5, false)
		left -= 6
		eventually(s.t, fmt.Sprintf("%d instances are applied", left), func() bool { return s.applied() == left })
	}
}

func TestGuard_ALossInSmallStepsIsHeld(t *testing.T) {
	s := newParallelSite(t)
	s.instances(1, 60, true)
	file := s.config(s.task("lb", onWeb))
	p := s.start("-config-file", file)
	eventually(t, "60 instances are applied", func() bool { return s.applied() == 60 })

	s.inSteps(1, 30, 60)
	s.instances(31, 36, false) // fewer than half of 60
	const held = "36 of the 60 service instances that were applied within the last 15m are gone (6 since the last apply: "
	s.inPhase(apispec.PhaseWaiting, held)
	s.inPhase(apispec.PhaseWaiting, ", and max_removed_percent is 50; it is judged again at ")
	p.stop()
	p = s.start("-config-file", file)
	s.instances(37, 54, false) // 6 of 60 are left
	s.inPhase(apispec.PhaseWaiting, "54 of the 60 service instances")
	if s.applied() != 30 {
		t.Fatalf("%d instances are applied", s.applied())
	}
	var o apispec.Overview
	if err := json.Unmarshal([]byte(s.runInTest("status", "-json", "-http-addr="+p.served()).stdout), &o); err != nil || len(apispec.Deref(o.Tasks[0].Guards)) != 2 {
		t.Fatalf("%v: %+v", err, o.Tasks)
	}
	guard := (*o.Tasks[0].Guards)[0]
	if *guard.Base != 60 || *guard.Applied != 30 || *guard.Now != 6 || !*guard.Exceeded || *guard.Within != 900 {
		t.Errorf("the guard is %s: base %d, applied %d, now %d", guard.Text, *guard.Base, *guard.Applied, *guard.Now)
	}

	// What is approved is the new base.
	approved := s.run("approve", "-http-addr="+p.served(), "lb")
	wantCode(t, approved, exitOK)
	eventually(t, "6 instances are applied", func() bool { return s.applied() == 6 })
	s.instances(61, 72, true)
	eventually(t, "18 instances are applied", func() bool { return s.applied() == 18 })
	s.instances(61, 66, false)
	eventually(t, "12 instances are applied", func() bool { return s.applied() == 12 })
	p.stop()
}

func TestGuard_TimePermitsWhatWasHeld(t *testing.T) {
	s := newParallelSite(t)
	s.instances(1, 60, true)
	p := s.start("-config-file", s.config(s.task("lb", onWeb+"\nguard {\n within = \"25s\"\n}")))
	eventually(t, "60 instances are applied", func() bool { return s.applied() == 60 })
	s.instances(1, 25, false)
	eventually(t, "35 instances are applied", func() bool { return s.applied() == 35 })
	s.instances(26, 35, false)
	s.inPhase(apispec.PhaseWaiting, "35 of the 60 service instances that were applied within the last 25s are gone")
	eventually(t, "25 instances are applied", func() bool { return s.applied() == 25 })
	s.inPhase(apispec.PhaseApplied, "")
	if runs := s.runInTest("runs", "lb").stdout; strings.Count(runs, "succeeded") != 3 {
		t.Errorf("%d instances are applied:\n%s", s.applied(), runs)
	}
	p.stop()
}
