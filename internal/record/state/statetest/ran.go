package statetest

import (
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Ran returns the record of a task at rest that was applied as often as its record shows, as after some days.
func Ran(name string) (task state.Task) {
	for range state.History {
		now := time.Now().UTC()
		task, _ = task.Conclude(state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindApply, State: state.RunSucceeded, Created: now,
			Times: state.Times{Started: now, Ended: now}, Work: state.Work{Digest: "A", Changes: &state.Changes{Add: 1}},
			Reason: state.Reason{Code: state.ReasonChanged, Text: "service " + name + ": 1 instance added"}}, "definition")
	}
	return AtRest(task)
}

// AtRest returns the record of a task that has run, as the tick after that leaves it.
func AtRest(task state.Task) state.Task {
	task.Observed.Digest, task.Observed.Recheck = task.Applied.Digest, false
	task.Reason = state.Reason{Code: state.ReasonUnchanged, Text: "nothing changed since the last apply"}
	return task
}
