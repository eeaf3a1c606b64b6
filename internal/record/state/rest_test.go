package state_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// harmless are the fields of a task's record that say nothing of what is to be done about it.
var harmless = []string{"Applied.Definition", "Applied.Digest", "Applied.At", "Applied.Counts", "Applied.Sizes", "Applied.Made",
	"Observed.Digest", "Observed.At", "Scheduled", "Attempted", "Shape", "Former.Moved", "OnRemoval", "Follows",
	"Due", "Ended", "Events", "Revision", "Drift", "RemoteRun", "Reason",
}

func TestRest_EveryOtherFieldIsSomethingToDo(t *testing.T) {
	resting := func() state.Task {
		at := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
		return state.Task{
			Applied: state.Applied{Definition: "d", Digest: "A", At: at, Counts: []state.Count{{Of: "service instances"}}, Made: &state.Made{Run: "r"}}, Observed: state.Observed{Digest: "A", At: at},
			Requests:  state.Requests{Scheduled: at},
			Attempted: state.Attempt{Definition: "d", Observed: "A"},
			Naming:    state.Naming{Shape: "s", Former: state.Former{Moved: []string{"was"}}},
			OnRemoval: "k", Follows: []string{"a"},
			Drift: &state.Drift{After: at, Last: "c", Checked: at, Error: "e", Skipped: "s"}, RemoteRun: &state.RemoteRun{Driver: "d"},
			Reason: state.Reason{Code: state.ReasonUnchanged}, Due: at, Ended: state.Ended{IDs: []string{"r"}, Last: &state.Result{State: state.RunSucceeded}}, Events: 7, Revision: 9,
		}
	}
	if got := resting().Rest(); got != state.RestApplied {
		t.Fatalf("a task at rest is %q", got)
	}
	for _, field := range state.FieldsOf(reflect.TypeFor[state.Task]()) {
		if field.In(harmless) {
			continue
		}
		task := resting()
		setSomething(t, reflect.ValueOf(&task).Elem().FieldByIndex(field.Index))
		if got := task.Rest(); got != "" {
			t.Errorf("with %s, a task is %q", field.Name, got)
		}
	}
	for what, change := range map[string]func(*state.Task){
		"something else is observed":   func(s *state.Task) { s.Observed.Digest = "B" },
		"it was never applied":         func(s *state.Task) { s.Applied.At = time.Time{} },
		"another reason":               func(s *state.Task) { s.Reason.Code = state.ReasonFirst },
		"its run was interrupted":      func(s *state.Task) { s.Ended.Last.State = state.RunInterrupted },
		"its run was lost":             func(s *state.Task) { s.Ended.Last.State = state.RunLost },
		"it is being checked":          func(s *state.Task) { s.Drift.Run = new(state.LiveRun) },
		"a check has found something":  func(s *state.Task) { s.Drift.Found = new(state.Drifted) },
		"a check was interrupted":      func(s *state.Task) { s.Drift.Interrupted = true },
		"drift was applied":            func(s *state.Task) { s.Drift.Applied = "d" },
		"a remote run is given up":     func(s *state.Task) { s.RemoteRun.GivenUp = new(state.GivenUp) },
		"a remote run may still exist": func(s *state.Task) { s.RemoteRun.Version = "1" },
	} {
		task := resting()
		if change(&task); task.Rest() != "" {
			t.Errorf("%s: a task is %q", what, task.Rest())
		}
	}
	disabled := resting()
	disabled.Reason.Code, disabled.Applied.At, disabled.Observed.Digest = state.ReasonDisabled, time.Time{}, ""
	if got := disabled.Rest(); got != state.RestDisabled {
		t.Errorf("a disabled task is %q", got)
	}
}

// setSomething gives a field a value other than zero.
func setSomething(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Struct:
		v.Set(reflect.ValueOf(time.Date(2086, 1, 1, 0, 0, 0, 0, time.UTC)))
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}
