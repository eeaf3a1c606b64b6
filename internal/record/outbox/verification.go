package outbox

import "github.com/terrapulse/terrapulse/internal/record/state"

// ofVerification returns the events about what is not verified, after a run that changes its task from was
// to next. People hear again when something else fails.
func ofVerification(was, next state.Task, run state.Run) (events []Event) {
	before, now := was.Unverified, next.Unverified
	switch {
	case run.State != state.RunSucceeded || run.Kind != state.KindApply:
		return nil
	case now != nil:
		e := Event{Kind: RunUnverified, At: run.Ended, Task: run.Task, Run: run.ID, Started: run.Started, Detail: now.Text,
			Changes: run.Changes.Counts(), Entries: run.Entries}
		if before != nil {
			e.Since, e.Quiet = now.Since, before.Names == now.Names && before.State == now.State && !before.Interrupted()
		}
		e.Quiet = e.Quiet || now.Interrupted() // the task runs again
		events = append(events, e)
	case before != nil:
		events = append(events, Event{Kind: TaskVerified, At: run.Ended, Task: run.Task, Run: run.ID, Since: before.Since, Quiet: onlyInterrupted(was)})
	}
	if hold := next.OnHold; hold != nil && was.OnHold == nil {
		events = append(events, onHold(run.Task, *hold))
	}
	return events
}

// onlyInterrupted reports whether nothing else was wrong with what is not verified than that its
// verification was interrupted once: people did not hear of it.
func onlyInterrupted(was state.Task) bool {
	last := was.Last
	return was.Unverified.Interrupted() && last != nil && last.Run == was.Unverified.Run && last.Ended.Equal(was.Unverified.Since)
}
