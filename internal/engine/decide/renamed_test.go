package decide

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestDecide_RenamedTaskIsHeldUntilSomebodySaysWhatItIs(t *testing.T) {
	seen := state.Task{Observed: state.Observed{Digest: "A", At: noon}}
	unclear := with(seen, func(s *state.Task) { s.Renamed = []string{"old"} })
	gone := with(applied(), func(s *state.Task) { s.OnRemoval, s.Gone = "kept", state.Gone{Since: noon, Final: true} })
	for _, tt := range []struct {
		name   string
		in     Input
		action Action
		code   state.ReasonCode
	}{
		{"new", Input{State: seen}, Run, state.ReasonFirst},
		{"perhaps renamed", Input{State: unclear}, Wait, state.ReasonRenamed},
		{"a run is requested", Input{State: unclear, Request: Request{Force: "Jo"}}, Run, state.ReasonForced},
		{"a run was requested", Input{State: with(unclear, func(s *state.Task) { s.Forced.By = "Jo" })}, Run, state.ReasonForced},
		{"a run of all tasks is requested", Input{State: unclear, Request: Request{Force: "start", All: true}}, Wait, state.ReasonRenamed},
		{"the state cannot be taken along yet", Input{State: seen, Renaming: Renaming{Unmoved: "run r1 has not ended"}}, Wait, state.ReasonRenamed},
		{"the same, and a run is requested", Input{State: seen, Renaming: Renaming{Unmoved: "run r1 has not ended"}, Request: Request{Force: "Jo"}}, Wait, state.ReasonRenamed},
		{"on hold", Input{State: with(unclear, func(s *state.Task) { s.OnHold = &state.OnHold{By: "Jo"} })}, Wait, state.ReasonOnHold},
		{"removed, and perhaps renamed", Input{State: gone, Removal: Removal{Removed: true, Destroy: true}, Renaming: Renaming{Kept: "perhaps it was renamed to new"}}, Wait, state.ReasonRenamed},
		{"removed, and renamed", Input{State: gone, Removal: Removal{Removed: true}, Renaming: Renaming{MovedTo: "new"}}, Wait, state.ReasonRemoved},
		{"deleted through the API, and to be taken over", Input{State: with(gone, func(s *state.Task) { s.Gone.Deleted = &state.Deletion{} }), Removal: Removal{Removed: true}, Renaming: Renaming{MovedTo: "new", Kept: "it is renamed to new"}}, Wait, state.ReasonRemoved},
		{"removed", Input{State: gone, Removal: Removal{Removed: true, Destroy: true}}, Run, state.ReasonDestroy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Task, tt.in.Definition, tt.in.Keep = webTask(), "def", keptRemoved
			if d := Decide([]Input{tt.in}, noon)[0]; d.Action != tt.action || d.Reason.Code != tt.code || d.Action == Run && len(d.State.Renamed) > 0 {
				t.Errorf("got action %v because of %q (%s)", d.Action, d.Reason.Code, d.Reason.Text)
			}
		})
	}
}
