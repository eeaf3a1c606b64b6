package outbox

import "github.com/terrapulse/terrapulse/internal/record/state"

// ofVerification returns the events about what is not verified, after a run that changes its task from was
// to next. People hear again when something else fails. If the task is put on hold, that is the same message.
func ofVerification(was, next state.Task, run state.Run) []Event {
	before, now := was.Applied.Unverified, next.Applied.Unverified
	switch {
	case run.State != state.RunSucceeded || run.Kind != state.KindApply:
		return nil
	case now != nil:
		e := Event{Kind: RunUnverified, At: run.Ended, Task: run.Task, Run: run.ID, Started: run.Started, Took: took(run), Detail: now.Text,
			Changes: run.Changes.Counts(), Entries: run.Entries}
		if before != nil {
			e.Since, e.Quiet = now.Since, before.Names == now.Names && before.State == now.State && !before.Interrupted()
		}
		e.Quiet = e.Quiet || now.Interrupted() // the task runs again
		if hold := next.OnHold; hold != nil && was.OnHold == nil {
			held := onHold(run.Task, *hold)
			e.Detail, e.Quiet, held.Quiet = e.Detail+"; the task is on hold until somebody releases it", false, true
			return []Event{e, held}
		}
		return []Event{e}
	case before != nil:
		return []Event{{Kind: TaskVerified, At: run.Ended, Task: run.Task, Run: run.ID, Since: before.Since, Quiet: onlyInterrupted(was)}}
	}
	return nil
}

// onlyInterrupted reports whether nothing else was wrong with what is not verified than that its
// verification was interrupted once: people did not hear of it.
func onlyInterrupted(was state.Task) bool {
	last := was.Ended.Last
	return was.Applied.Unverified.Interrupted() && last != nil && last.Run == was.Applied.Unverified.Run && last.Ended.Equal(was.Applied.Unverified.Since)
}
