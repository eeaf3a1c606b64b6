package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestDecide_RemovedTaskIsDestroyedThroughAdmission(t *testing.T) {
	gone := with(applied(), func(s *state.Task) {
		s.OnRemoval, s.Gone = "kept", state.Gone{Since: noon.Add(-time.Hour), Final: true}
	})
	after := func(change func(*state.Task)) state.Task { return with(gone, change) }
	ended := func(as state.RunState, rejected bool) func(*state.Task) {
		return func(s *state.Task) {
			s.Ended.Last = &state.Result{Run: "r1", Kind: state.KindDestroy, State: as, Rejected: rejected, Error: "by Jo"}
		}
	}
	waiting := func(s *state.Task) {
		s.Attempted = state.Attempt{Definition: "def", Observed: s.Observed.Digest}
		s.Run = &state.LiveRun{ID: "r1", Kind: state.KindDestroy, Wait: &state.Wait{For: state.WaitApproval, ID: "w1", Content: &state.Content{Plan: "p"}}}
	}
	unasked := webTask()
	unasked.Removal = removal.Spec{On: removal.Destroy, Approve: removal.Never}
	closed := *unasked
	closed.Windows = window.Specs(&block.Report{}, []window.Keys{{Kind: block.String{V: "deny"}, Schedule: block.String{V: "* * * * *"},
		Duration: block.Duration{Origin: block.Origin{Set: true}, V: time.Hour}, On: block.Strings{V: []string{"destroy"}}}})
	for _, tt := range []struct {
		name   string
		in     Input
		action Action
		code   state.ReasonCode
	}{
		{"removed", Input{Task: webTask(), State: gone, Removal: Removal{Destroy: true}}, Run, state.ReasonDestroy},
		{"removed while disabled", Input{Task: &config.Task{Name: "web"}, State: gone, Removal: Removal{Destroy: true}}, Run, state.ReasonDestroy},
		{"removed while its condition was not read", Input{Task: webTask(), State: after(func(s *state.Task) { s.Observed.Recheck = true }), Removal: Removal{Destroy: true}}, Run, state.ReasonDestroy},
		{"removed after a failed apply", Input{Task: webTask(), State: after(func(s *state.Task) { s.Failing.Count, s.Failing.RetryAt = 3, noon.Add(time.Hour) }), Removal: Removal{Destroy: true}}, Run, state.ReasonDestroy},
		{"on hold", Input{Task: webTask(), State: after(func(s *state.Task) { s.OnHold = &state.OnHold{By: "Jo", At: noon} }), Removal: Removal{Destroy: true}}, Wait, state.ReasonOnHold},
		{"another run is under way", Input{Task: webTask(), State: after(func(s *state.Task) { s.Run = &state.LiveRun{ID: "r0"} }), Removal: Removal{Destroy: true}}, Wait, state.ReasonRunning},
		{"its provider is gone", Input{Task: webTask(), State: gone, Removal: Removal{Undestroyable: errors.New("no provider")}}, Wait, state.ReasonBlocked},
		{"its provider is gone for long", Input{Task: webTask(), State: after(func(s *state.Task) { s.Gone = state.Gone{Since: noon.Add(-2 * keptRemoved), Final: true} }), Removal: Removal{Undestroyable: errors.New("no provider")}}, Wait, state.ReasonBlocked},
		{"rejected", Input{Task: webTask(), State: after(ended(state.RunCancelled, true)), Removal: Removal{Destroy: true}}, Wait, state.ReasonRejected},
		{"cancelled", Input{Task: webTask(), State: after(ended(state.RunCancelled, false)), Removal: Removal{Destroy: true}}, Wait, state.ReasonCancelled},
		{"rejected and requested again", Input{Task: webTask(), State: with(after(ended(state.RunCancelled, true)), func(s *state.Task) { s.Destroy = &state.Request{By: "Jo"} }), Removal: Removal{Destroy: true}}, Run, state.ReasonDestroy},
		{"rejected, and kept for long enough", Input{Task: webTask(), State: with(after(ended(state.RunCancelled, true)), func(s *state.Task) { s.Gone = state.Gone{Since: noon.Add(-keptRemoved), Final: true} }), Removal: Removal{Destroy: true}}, Erase, state.ReasonRemoved},
		{"failed", Input{Task: webTask(), State: with(after(ended(state.RunFailed, false)), func(s *state.Task) { s.Failing.Count, s.Failing.RetryAt = 1, noon.Add(time.Second) }), Removal: Removal{Destroy: true}}, Wait, state.ReasonBackoff},
		{"waiting", Input{Task: webTask(), State: after(waiting), Removal: Removal{Destroy: true}}, Wait, state.ReasonWaiting},
		{"waiting, and its input changes", Input{Task: webTask(), State: with(after(waiting), func(s *state.Task) { s.Observed.Digest = "B" }), Removal: Removal{Destroy: true}}, Wait, state.ReasonWaiting},
		{"waiting, and back in the configuration", Input{Task: webTask(), State: after(waiting), Reading: Reading{Observed: &Observed{Digest: "A"}}}, End, state.ReasonDestroy},
		{"waiting, and its provider goes", Input{Task: webTask(), State: after(waiting), Removal: Removal{Undestroyable: errors.New("no provider")}}, End, state.ReasonBlocked},
		{"without an approval", Input{Task: unasked, State: gone, Removal: Removal{Destroy: true}}, Run, state.ReasonDestroy},
		{"without an approval, outside of its window", Input{Task: &closed, State: gone, Removal: Removal{Destroy: true}}, Wait, state.ReasonOutside},
		{"to be kept", Input{Task: webTask(), State: gone}, Wait, state.ReasonRemoved},
		{"back in the configuration", Input{Task: webTask(), State: gone, Reading: Reading{Observed: &Observed{Digest: "A"}}}, Wait, state.ReasonUnchanged},
		{"destroyed by hand", Input{Task: webTask(), State: with(applied(), func(s *state.Task) { s.Destroy = &state.Request{By: "Jo"} })}, Run, state.ReasonDestroy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Definition, tt.in.Keep = "def", keptRemoved
			tt.in.Removed = tt.in.Destroy || tt.in.Undestroyable != nil || tt.name == "to be kept"
			d := Decide([]Input{tt.in}, noon)[0]
			if d.Action != tt.action || d.Reason.Code != tt.code {
				t.Errorf("got action %v because of %q (%s)", d.Action, d.Reason.Code, d.Reason.Text)
			}
			if d.Action == Run && d.Kind != state.KindDestroy {
				t.Errorf("got a run of kind %s", d.Kind)
			}
		})
	}
}
