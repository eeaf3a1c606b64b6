package state

import "time"

// Failing says how often, since when and why a task fails, when it is tried again, and when people
// were told. A success clears it.
type Failing struct {
	Count   int       `json:"count,omitempty"` // runs that failed or were lost since the last success or cancel
	Since   time.Time `json:"since,omitzero"`  // end of the first such run since the last success
	Said    time.Time `json:"said,omitzero"`   // end of the latest such run that was a message to people
	Error   string    `json:"error,omitempty"` // of the latest such run
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// People hear again of a task that still fails after firstReminder, and then each laterReminder.
const (
	firstReminder = time.Hour
	laterReminder = 24 * time.Hour
)

// failed notes a run that failed or was lost.
func (f Failing) failed(run Run) Failing {
	at := run.Ended
	f.Error = run.Error
	pause := laterReminder
	if f.Said.Equal(f.Since) {
		pause = firstReminder
	}
	switch {
	case f.Since.IsZero():
		f.Since, f.Said = at, at
	case at.Sub(f.Said) >= pause:
		f.Said = at
	}
	f.Count++
	switch {
	case run.State == RunLost && f.Count == 1:
		f.RetryAt = at // the first loss is made good at once
	case run.State == RunLost:
		// A task that keeps killing its runner backs off like one that fails.
		f.RetryAt = at.Add(Backoff(run.Task, f.Count-1))
	case !run.ForPerson() || !f.RetryAt.After(at): // a request does not delay the retry that was to come anyway
		f.RetryAt = at.Add(Backoff(run.Task, f.Count))
	}
	return f
}

// cancelled notes that somebody has ended a run: people hear at once if the task fails again, and when
// it has recovered.
func (f Failing) cancelled() Failing { return Failing{Since: f.Since} }
