package decide

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestDecide_HeldTaskRunsWhenItsConditionOrDefinitionChanges(t *testing.T) {
	unbuffered := webTask()
	unbuffered.BufferPeriod = config.BufferPeriod{}
	disabled := webTask()
	disabled.Enabled = false
	next := &state.Stop{Code: state.ReasonHeld, Next: true}
	held := func(s state.Task, stop *state.Stop) state.Task {
		s.Stop = stop
		return s
	}
	on := func(definition, observed string) *state.Stop {
		return &state.Stop{Code: state.ReasonHeld, For: state.Attempt{Definition: definition, Observed: observed}}
	}
	onA := on("def", "A")
	fresh := state.Task{Observed: state.Observed{Digest: "A", At: noon.Add(-time.Hour)}}
	failed := with(applied(), func(s *state.Task) { s.Failing.Count, s.Failing.RetryAt = 2, noon })
	for _, tt := range []struct {
		name   string
		in     Input
		action Action
		kind   state.ReasonCode
		held   *state.Stop // from now on
	}{
		{"made, and not read", Input{Task: webTask(), State: held(state.Task{}, next)}, Wait, state.ReasonUnread, next},
		{"made, and read", Input{Task: webTask(), State: held(state.Task{}, next), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Wait, state.ReasonHeld, onA},
		{"read again", Input{Task: webTask(), State: held(fresh, onA), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Wait, state.ReasonHeld, onA},
		{"not read again", Input{Task: webTask(), State: held(fresh, onA)}, Wait, state.ReasonHeld, onA},
		{"its condition changes", Input{Task: unbuffered, State: held(fresh, onA), Reading: Reading{Observed: &Observed{Digest: "B"}}}, Run, state.ReasonChanged, nil},
		{"its condition changes, within the buffer period", Input{Task: webTask(), State: held(fresh, onA), Reading: Reading{Observed: &Observed{Digest: "B"}}}, Wait, state.ReasonBuffering, onA},
		{"and back", Input{Task: unbuffered, State: held(with(fresh, func(s *state.Task) { s.Observed.Digest = "B" }), onA), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Wait, state.ReasonHeld, onA},
		{"its definition changes", Input{Task: unbuffered, Definition: "other", State: held(fresh, onA), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Run, state.ReasonFirst, nil},
		{"somebody asks", Input{Task: webTask(), State: held(fresh, onA), Request: Request{Force: "somebody"}}, Run, state.ReasonForced, nil},
		{"somebody asks before it was read", Input{Task: webTask(), State: held(state.Task{}, next), Reading: Reading{Observed: &Observed{Digest: "A"}}, Request: Request{Force: "somebody"}}, Run, state.ReasonForced, nil},
		{"it is disabled again", Input{Task: disabled, State: held(fresh, onA)}, Wait, state.ReasonDisabled, onA},
		{"it is removed", Input{Task: webTask(), Removal: Removal{Removed: true, Keep: keptRemoved}, State: held(fresh, onA)}, Wait, state.ReasonRemoved, onA},
		{"it was removed a minute ago", Input{Task: webTask(), Removal: Removal{Removed: true, Keep: keptRemoved}, State: held(with(fresh, func(s *state.Task) { s.Gone.Since = noon.Add(-removalLasts) }), onA)}, Wait, state.ReasonRemoved, onA},
		{"a view cannot be read", Input{Task: webTask(), State: held(state.Task{}, next), Reading: Reading{Unreadable: errors.New("no leader")}}, Wait, state.ReasonUnreadable, next},

		{"enabled, with what was applied", Input{Task: webTask(), State: held(applied(), next), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Wait, state.ReasonUnchanged, nil},
		{"enabled, and in doubt", Input{Task: webTask(), State: held(with(applied(), func(s *state.Task) { s.Applied.Doubt = "a run went on" }), next), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Wait, state.ReasonHeld, onA},
		{"enabled, with something else than what was applied", Input{Task: unbuffered, State: held(applied(), next), Reading: Reading{Observed: &Observed{Digest: "B"}}}, Wait, state.ReasonHeld, on("def", "B")},
		{"and read again", Input{Task: unbuffered, State: held(with(applied(), func(s *state.Task) { s.Observed.Digest = "B" }), on("def", "B")), Reading: Reading{Observed: &Observed{Digest: "B"}}}, Wait, state.ReasonHeld, on("def", "B")},
		{"enabled, with another definition than was applied", Input{Task: unbuffered, Definition: "other", State: held(applied(), next), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Wait, state.ReasonHeld, on("other", "A")},
		{"enabled, and its condition changes", Input{Task: unbuffered, State: held(applied(), onA), Reading: Reading{Observed: &Observed{Digest: "B"}}}, Run, state.ReasonChanged, nil},
		{"enabled, and its condition becomes what was applied", Input{Task: unbuffered, State: held(with(applied(), func(s *state.Task) { s.Observed.Digest = "B" }), on("def", "B")), Reading: Reading{Observed: &Observed{Digest: "A"}}},
			Wait, state.ReasonUnchanged, nil},
		{"enabled, and its definition changes", Input{Task: unbuffered, Definition: "other", State: held(applied(), onA), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Run, state.ReasonDefinition, nil},
		{"enabled after it had failed", Input{Task: webTask(), State: held(failed, next), Reading: Reading{Observed: &Observed{Digest: "A"}}}, Wait, state.ReasonHeld, onA},
		{"enabled after it had failed, and its condition changes", Input{Task: unbuffered, State: held(failed, onA), Reading: Reading{Observed: &Observed{Digest: "B"}}}, Run, state.ReasonChanged, nil},

		{"a schedule that is not due", Input{Task: hourlyTask(), State: held(with(fresh, func(s *state.Task) { s.Scheduled = noon }), onA)}, Wait, state.ReasonUnchanged, onA},
		{"a schedule that is due", Input{Task: hourlyTask(), State: held(with(fresh, func(s *state.Task) { s.Scheduled = noon.Add(-time.Hour) }), onA)}, Run, state.ReasonSchedule, nil},
		{"a schedule whose times were missed while it was disabled", Input{Task: hourlyTask(), State: held(with(applied(), func(s *state.Task) { s.Scheduled = noon.Add(-50 * time.Hour) }), next), Reading: Reading{Observed: &Observed{Digest: "B"}}},
			Wait, state.ReasonUnchanged, on("def", "B")},
		{"a task without condition", Input{Task: &config.Task{Name: "once", Enabled: true}, State: held(state.Task{}, next), Reading: Reading{Observed: &Observed{}}}, Wait, state.ReasonHeld, on("def", "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.in.Definition == "" {
				tt.in.Definition = "def"
			}
			d := Decide([]Input{tt.in}, noon)[0]
			if d.Action != tt.action || d.Reason.Code != tt.kind || !cmp.Equal(d.State.Stop, tt.held) {
				t.Errorf("got action %v because of %q (%s), stopped for %+v", d.Action, d.Reason.Code, d.Reason.Text, d.State.Stop)
			}
			if d.Reason.Code == state.ReasonHeld && !strings.HasPrefix(d.Reason.Text, "created or enabled without a run") {
				t.Errorf("nothing was destroyed: %s", d.Reason.Text)
			}
			if d.Reason.Code == state.ReasonHeld && (d.State.Pending != nil || !d.State.Due.IsZero()) {
				t.Errorf("something is pending: %+v, due %s", d.State.Pending, d.State.Due)
			}
		})
	}
}
