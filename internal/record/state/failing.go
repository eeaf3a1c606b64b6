package state

import "time"

// Failing says since when a task fails, and how often people were told.
type Failing struct {
	Since time.Time `json:"since,omitzero"`  // end of the first run that failed or was lost since the last success
	Said  time.Time `json:"said,omitzero"`   // end of the latest such run that was a message to people
	Error string    `json:"error,omitempty"` // of the latest such run
}

// People hear again of a task that still fails after firstReminder, and then each laterReminder.
const (
	firstReminder = time.Hour
	laterReminder = 24 * time.Hour
)

// failed notes a run that failed or was lost.
func (f Failing) failed(at time.Time, why string) Failing {
	f.Error = why
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
	return f
}
