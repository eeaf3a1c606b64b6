package state_test

import (
	"slices"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// TestConclude_PeopleHearOfAFailingTaskRarely concludes a failed run every 15 minutes.
func TestConclude_PeopleHearOfAFailingTaskRarely(t *testing.T) {
	noon := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
	var task state.Task
	var said []time.Duration
	conclude := func(s state.RunState, at time.Time) {
		run := state.Run{ID: "r", Task: "web", Kind: state.KindApply, State: s, Times: state.Times{Ended: at}}
		task, _ = task.Conclude(run, "d")
	}
	for at := noon; at.Sub(noon) < 60*time.Hour; at = at.Add(15 * time.Minute) {
		conclude(state.RunFailed, at)
		if task.Failing.Said.Equal(at) {
			said = append(said, at.Sub(noon))
		}
	}
	if want := []time.Duration{0, time.Hour, 25 * time.Hour, 49 * time.Hour}; !slices.Equal(said, want) || !task.Failing.Since.Equal(noon) {
		t.Errorf("people heard after %v, want %v", said, want)
	}
	conclude(state.RunInterrupted, noon.Add(90*time.Hour))
	if task.Failing.Said.Equal(noon.Add(90 * time.Hour)) {
		t.Error("an interrupted run counts as a failure")
	}
	conclude(state.RunSucceeded, noon.Add(91*time.Hour))
	if task.Failing != (state.Failing{}) {
		t.Errorf("a task that has recovered is %+v", task.Failing)
	}
}
