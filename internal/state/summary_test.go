package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/state"
)

func TestTaskSummary(t *testing.T) {
	retry := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	added := state.Reason{Code: state.ReasonChanged, Text: "added web-2"}
	running := state.Reason{Code: state.ReasonRunning, Text: "run r1 is under way"}
	live := &state.LiveRun{ID: "r1"}
	for name, test := range map[string]struct {
		task state.Task
		run  state.Run
		want state.Summary
	}{
		"a run goes on: its reason": {state.Task{Run: live, Reason: running}, state.Run{State: state.RunRunning, Reason: added},
			state.Summary{State: state.TaskRunning, Reason: added}},
		"a run that waits for its turn is not running": {state.Task{Run: live, Reason: running}, state.Run{State: state.RunIntended, Reason: added},
			state.Summary{State: state.TaskWaiting, Reason: state.Reason{Code: state.ReasonRunning, Text: "a run waits for its turn: added web-2"}}},
		"the end of a run after which no one led": {
			state.Task{Failures: 1, RetryAt: retry, Reason: running, Last: &state.Result{Run: "r1", State: state.RunFailed, Reason: added}}, state.Run{},
			state.Summary{State: state.TaskFailing, Reason: added, Due: retry}},
		"applied":     {state.Task{AppliedAt: retry}, state.Run{}, state.Summary{State: state.TaskApplied}},
		"new":         {state.Task{}, state.Run{}, state.Summary{State: state.TaskNew}},
		"interrupted": {state.Task{AppliedAt: retry, Last: &state.Result{State: state.RunInterrupted}}, state.Run{}, state.Summary{State: state.TaskInterrupted}},
		"disabled": {state.Task{Failures: 1, Reason: state.Reason{Code: state.ReasonDisabled}, Due: retry}, state.Run{},
			state.Summary{State: state.TaskDisabled, Reason: state.Reason{Code: state.ReasonDisabled}, Due: retry}},
	} {
		if diff := cmp.Diff(test.want, test.task.Summary(test.run)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
