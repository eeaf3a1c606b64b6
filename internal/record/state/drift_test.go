package state_test

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestEndCheck_RunnerWithASlowClockDoesNotMakeItDueAgain(t *testing.T) {
	decided := time.Date(2086, 3, 14, 12, 0, 30, 0, time.UTC)
	for _, ended := range []time.Duration{-20 * time.Second, 20 * time.Second} {
		task := state.Task{Drift: &state.Drift{Run: &state.LiveRun{ID: "r"}}}
		next := task.EndCheck(state.Run{ID: "r", Created: decided, State: state.RunSucceeded, Times: state.Times{Ended: decided.Add(ended)}})
		if want := decided.Add(max(ended, 0)); !next.Drift.After.Equal(want) {
			t.Errorf("ended %s after it was decided, the next check is due after %s, want %s", ended, next.Drift.After, want)
		}
	}
}
