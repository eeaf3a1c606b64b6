package state

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
)

// Paused says that no run that applies anything begins, of any task, until somebody
// resumes. Polling, plans and runs that have begun go on.
type Paused struct {
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
}

// Undecided reports whether no tick has decided anything yet, and nobody has paused or
// resumed: a deployment that begins paused does so now.
func (r Reconcile) Undecided() bool {
	return r.Paused == nil && r.Resumed.IsZero() && r.Refreshed.IsZero() && r.Config == ""
}

// String describes the pause in words.
func (p Paused) String() string {
	text := "paused by " + p.By + " since " + clock.UTC(p.Since)
	if p.Reason != "" {
		text += " (" + p.Reason + ")"
	}
	return text
}
