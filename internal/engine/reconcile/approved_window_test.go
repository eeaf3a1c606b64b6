package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	approvals "github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/window"
)

// until lets the clocks come to a time of a day of January 2000.
func (s *shrinking) until(day, hour, minute int) {
	time.Sleep(time.Date(2000, 1, day, hour, minute, 0, 0, time.UTC).Sub(s.now()))
}

// run is the latest run of the task.
func (s *shrinking) run() state.Run {
	s.t.Helper()
	runs, err := state.ReadAll[state.Run](s.t.Context(), s.store, state.RunPrefix(s.task.Name))
	s.must(err)
	if len(runs) == 0 {
		s.t.Fatal("the task has no run")
	}
	return runs[len(runs)-1].Data
}

// renamed gives the task another name. Its plan has other addresses.
func (s *shrinking) renamed() {
	s.t.Helper()
	s.task.Name, s.task.MovedFrom = "site", []string{"web"}
	s.pass("waiting")
}

// A plan that somebody approves while the window of its task is closed waits for the window. Each pass is a process of its
// own: none of them keeps the approval in memory.
func TestApprovedPlan_WaitsForItsWindow(t *testing.T) {
	for name, tt := range map[string]struct {
		approved func(s *shrinking) // somebody approves, and what happens until the window opens
		again    bool               // the plan needs another approval
		expires  time.Duration
	}{
		"other processes lead meanwhile": {func(s *shrinking) {
			s.approves()
			for range 3 {
				s.pass("waiting")
				if code := s.record().Reason.Code; code != state.ReasonOutside {
					s.t.Errorf("it waits because of %s", code)
				}
				time.Sleep(time.Hour)
			}
		}, false, 0},
		"the window has closed when the runner judges the plan": {func(s *shrinking) {
			s.until(1, 22, 10)
			s.runner = time.Hour
			s.approves()
			s.pass("waiting")
			if wait := s.run().Wait; wait == nil || wait.For != state.WaitWindow {
				s.t.Errorf("it waits for %+v", wait)
			}
			s.runner = 0
			s.until(2, 8, 0)
			s.pass("waiting")
		}, false, 0},
		"the task is renamed": {func(s *shrinking) {
			s.approves()
			s.renamed()
		}, true, 0},
		"the task is renamed after the window has closed when the runner judges the plan": {func(s *shrinking) {
			s.until(1, 22, 10)
			s.runner = time.Hour
			s.approves()
			s.pass("waiting")
			s.runner = 0
			s.until(2, 8, 0)
			s.renamed()
		}, true, 0},
		"the approval expires": {func(s *shrinking) {
			s.approves()
			s.pass("waiting")
		}, true, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShrinking(t, guard.Default)
				night, err := window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: time.Hour, TimeZone: "UTC"}.Parse()
				s.must(err)
				s.task.Windows, s.task.Approval = []window.Window{night}, approvals.Spec{Rule: approvals.Always, Expires: tt.expires}
				s.until(1, 8, 0)
				s.to(50, "waiting")
				if wait := s.run().Wait; wait.For != state.WaitApproval {
					t.Fatalf("it waits for %+v", wait)
				}
				tt.approved(s)
				if s.applied != 60 {
					t.Fatalf("outside of the window, the task is applied with %d instances", s.applied)
				}
				s.until(2, 22, 10)
				if tt.again {
					s.pass("waiting")
					if wait := s.run().Wait; s.applied != 60 || wait == nil || wait.For != state.WaitApproval {
						t.Fatalf("in the window, the task is applied with %d instances, and its run waits for %+v", s.applied, wait)
					}
					s.approves()
				}
				s.pass("succeeded")
				if a := s.run().Approval; s.applied != 50 || a == nil || a.By != "token:ann" {
					t.Errorf("in the window, the task is applied with %d instances, by the approval %+v", s.applied, a)
				}
			})
		})
	}
}
