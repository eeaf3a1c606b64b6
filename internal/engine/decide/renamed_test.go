package decide

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestDecide_RenamedTaskIsHeldUntilSomebodySaysWhatItIs(t *testing.T) {
	seen := state.Task{Observation: state.Observation{Observed: "A", ObservedAt: noon}}
	gone := with(applied(), func(s *state.Task) { s.OnRemoval, s.RemovedAt = "kept", noon })
	for _, tt := range []struct {
		name   string
		in     Input
		action Action
		code   state.ReasonCode
	}{
		{"perhaps renamed", Input{State: seen, Renaming: Renaming{Renamed: []string{"old"}}}, Wait, state.ReasonRenamed},
		{"held before, and the removed one is back", Input{State: with(seen, func(s *state.Task) { s.Renamed = []string{"old"} })}, Run, state.ReasonFirst},
		{"a run is requested", Input{State: seen, Renaming: Renaming{Renamed: []string{"old"}}, Request: Request{Force: "Jo"}}, Run, state.ReasonForced},
		{"a run was requested", Input{State: with(seen, func(s *state.Task) { s.Forced = "Jo" }), Renaming: Renaming{Renamed: []string{"old"}}}, Run, state.ReasonForced},
		{"the state cannot be taken along yet", Input{State: seen, Renaming: Renaming{Unmoved: "run r1 has not ended"}}, Wait, state.ReasonRenamed},
		{"the same, and a run is requested", Input{State: seen, Renaming: Renaming{Unmoved: "run r1 has not ended"}, Request: Request{Force: "Jo"}}, Wait, state.ReasonRenamed},
		{"on hold", Input{State: with(seen, func(s *state.Task) { s.OnHold = &state.OnHold{By: "Jo"} }), Renaming: Renaming{Renamed: []string{"old"}}}, Wait, state.ReasonOnHold},
		{"removed, and perhaps renamed", Input{State: gone, Removal: Removal{Removed: true, Destroy: true}, Renaming: Renaming{RenamedTo: []string{"new"}}}, Wait, state.ReasonRenamed},
		{"removed, and renamed", Input{State: gone, Removal: Removal{Removed: true}, Renaming: Renaming{MovedTo: "new"}}, Wait, state.ReasonRemoved},
		{"deleted through the API, and to be taken over", Input{State: with(gone, func(s *state.Task) { s.Deleted = true }), Removal: Removal{Removed: true}, Renaming: Renaming{MovedTo: "new", RenamedTo: []string{"new"}}}, Wait, state.ReasonRemoved},
		{"removed", Input{State: gone, Removal: Removal{Removed: true, Destroy: true}}, Run, state.ReasonDestroy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Task, tt.in.Definition, tt.in.Keep = webTask(), "def", keptRemoved
			if d := Decide([]Input{tt.in}, noon)[0]; d.Action != tt.action || d.Reason.Code != tt.code {
				t.Errorf("got action %v because of %q (%s)", d.Action, d.Reason.Code, d.Reason.Text)
			}
		})
	}
}
