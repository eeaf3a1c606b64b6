package outbox

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// OfDrift returns the events about what differs from what was applied last, if a task
// changes from was to next.
func OfDrift(was, next state.Task, task string, at time.Time) []Event {
	before, now := was.Drifted(), next.Drifted()
	switch {
	case now != nil && (before == nil || before.Digest != now.Digest || before.Persists != now.Persists):
		detail := now.String()
		if now.Persists {
			detail += "; an apply has not ended it"
		}
		return []Event{{Kind: DriftFound, At: at, Task: task, Run: now.Run, Detail: detail, Changes: &now.Changes, Drift: now}}
	case before != nil && now == nil && next.Drift == nil:
		return []Event{{Kind: DriftEnded, At: at, Task: task, Since: before.Since, Detail: "the task is not checked any more"}}
	case before != nil && now == nil:
		return []Event{{Kind: DriftEnded, At: at, Task: task, Since: before.Since}}
	}
	return nil
}

// OfCheck returns the event of a check for drift that has ended, if it has one.
func OfCheck(run state.Run) []Event {
	if run.State != state.RunFailed && run.State != state.RunLost {
		return nil
	}
	return []Event{{Kind: DriftCheckFailed, At: run.Ended, Task: run.Task, Run: run.ID, Error: run.Error}}
}
