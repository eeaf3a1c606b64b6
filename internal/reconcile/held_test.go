package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

func TestAHeldTaskRunsWhenItsConditionOrItsDefinitionChangesAndNotBefore(t *testing.T) {
	unbuffered := webTask()
	unbuffered.BufferPeriod = config.BufferPeriod{}
	disabled := webTask()
	disabled.Enabled = false
	held := func(s state.Task, how string) state.Task { s.Held = how; return s }
	const onA = "=def/A"
	fresh := state.Task{Observed: "A", ObservedAt: noon.Add(-time.Hour)}
	failed := with(applied(), func(s *state.Task) { s.Failures, s.RetryAt = 2, noon })
	for _, tt := range []struct {
		name   string
		in     Input
		action Action
		kind   state.ReasonCode
		held   string // from now on
	}{
		{"made, and not read", Input{Task: webTask(), State: held(state.Task{}, state.HoldNext)}, Wait, state.ReasonUnread, state.HoldNext},
		{"made, and read", Input{Task: webTask(), State: held(state.Task{}, state.HoldNext), Observed: &Observed{Digest: "A"}}, Wait, state.ReasonHeld, onA},
		{"read again", Input{Task: webTask(), State: held(fresh, onA), Observed: &Observed{Digest: "A"}}, Wait, state.ReasonHeld, onA},
		{"not read again", Input{Task: webTask(), State: held(fresh, onA)}, Wait, state.ReasonHeld, onA},
		{"its condition changes", Input{Task: unbuffered, State: held(fresh, onA), Observed: &Observed{Digest: "B"}}, Run, state.ReasonChanged, ""},
		{"its condition changes, within the buffer period", Input{Task: webTask(), State: held(fresh, onA), Observed: &Observed{Digest: "B"}}, Wait, state.ReasonBuffering, onA},
		{"and back", Input{Task: unbuffered, State: held(with(fresh, func(s *state.Task) { s.Observed = "B" }), onA), Observed: &Observed{Digest: "A"}}, Wait, state.ReasonHeld, onA},
		{"its definition changes", Input{Task: unbuffered, Definition: "other", State: held(fresh, onA), Observed: &Observed{Digest: "A"}}, Run, state.ReasonFirst, ""},
		{"somebody asks", Input{Task: webTask(), State: held(fresh, onA), Force: "somebody"}, Run, state.ReasonForced, ""},
		{"somebody asks before it was read", Input{Task: webTask(), State: held(state.Task{}, state.HoldNext), Observed: &Observed{Digest: "A"}, Force: "somebody"}, Run, state.ReasonForced, ""},
		{"it is disabled again", Input{Task: disabled, State: held(fresh, onA)}, Wait, state.ReasonDisabled, onA},
		{"it is removed", Input{Task: webTask(), Removed: true, State: held(fresh, onA)}, Wait, state.ReasonRemoved, ""},
		{"a view cannot be read", Input{Task: webTask(), State: held(state.Task{}, state.HoldNext), Unreadable: errors.New("no leader")}, Wait, state.ReasonUnreadable, state.HoldNext},

		{"enabled, with what was applied", Input{Task: webTask(), State: held(applied(), state.HoldNext), Observed: &Observed{Digest: "A"}}, Wait, state.ReasonHeld, onA},
		{"enabled, with something else than what was applied", Input{Task: unbuffered, State: held(applied(), state.HoldNext), Observed: &Observed{Digest: "B"}}, Wait, state.ReasonHeld, "=def/B"},
		{"and read again", Input{Task: unbuffered, State: held(with(applied(), func(s *state.Task) { s.Observed = "B" }), "=def/B"), Observed: &Observed{Digest: "B"}}, Wait, state.ReasonHeld, "=def/B"},
		{"enabled, with another definition than was applied", Input{Task: unbuffered, Definition: "other", State: held(applied(), state.HoldNext), Observed: &Observed{Digest: "A"}}, Wait, state.ReasonHeld, "=other/A"},
		{"enabled, and its condition changes", Input{Task: unbuffered, State: held(applied(), onA), Observed: &Observed{Digest: "B"}}, Run, state.ReasonChanged, ""},
		{"enabled, and its condition becomes what was applied", Input{Task: unbuffered, State: held(with(applied(), func(s *state.Task) { s.Observed = "B" }), "=def/B"), Observed: &Observed{Digest: "A"}},
			Wait, state.ReasonUnchanged, ""},
		{"enabled, and its definition changes", Input{Task: unbuffered, Definition: "other", State: held(applied(), onA), Observed: &Observed{Digest: "A"}}, Run, state.ReasonDefinition, ""},
		{"enabled after it had failed", Input{Task: webTask(), State: held(failed, state.HoldNext), Observed: &Observed{Digest: "A"}}, Wait, state.ReasonHeld, onA},
		{"enabled after it had failed, and its condition changes", Input{Task: unbuffered, State: held(failed, onA), Observed: &Observed{Digest: "B"}}, Run, state.ReasonChanged, ""},

		{"a schedule that is not due", Input{Task: hourlyTask(), State: held(with(fresh, func(s *state.Task) { s.Scheduled = noon }), onA)}, Wait, state.ReasonUnchanged, onA},
		{"a schedule that is due", Input{Task: hourlyTask(), State: held(with(fresh, func(s *state.Task) { s.Scheduled = noon.Add(-time.Hour) }), onA)}, Run, state.ReasonSchedule, ""},
		{"a schedule whose times were missed while it was disabled", Input{Task: hourlyTask(), State: held(with(applied(), func(s *state.Task) { s.Scheduled = noon.Add(-50 * time.Hour) }), state.HoldNext), Observed: &Observed{Digest: "B"}},
			Wait, state.ReasonUnchanged, "=def/B"},
		{"a task without condition", Input{Task: &config.Task{Name: "once", Enabled: true}, State: held(state.Task{}, state.HoldNext), Observed: &Observed{}}, Wait, state.ReasonHeld, "=def/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.in.Definition == "" {
				tt.in.Definition = "def"
			}
			d := Decide([]Input{tt.in}, noon)[0]
			if d.Action != tt.action || d.Reason.Code != tt.kind || d.State.Held != tt.held {
				t.Errorf("got action %v because of %q (%s), held %q", d.Action, d.Reason.Code, d.Reason.Text, d.State.Held)
			}
			if d.Reason.Code == state.ReasonHeld && (d.State.Pending != nil || !d.State.Due.IsZero()) {
				t.Errorf("something is pending: %+v, due %s", d.State.Pending, d.State.Due)
			}
		})
	}
}
