package driver

import (
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// WaitError is returned by Apply and Destroy if the run cannot go on now: it waits
// for a person, for its window, or for another system. The run is recorded as
// waiting. When it is resumed, possibly by another process, the driver is called
// again, and Job.Run.Wait is this wait.
type WaitError struct {
	Wait      state.Wait
	Confirmed *Decision // by which a person has confirmed the plan in another system; nil if nobody has
}

func (e *WaitError) Error() string { return "the run " + e.Wait.String() }

// EndedError is returned if a person has discarded the plan (Reject) or cancelled the run (Cancel) in another
// system. That counts like the same decision in Terrapulse.
type EndedError struct{ Decision }

func (e *EndedError) Error() string {
	what, text := "cancelled", e.Comment
	if e.Action == audit.Reject {
		what = "rejected"
	}
	if text != "" {
		text = ": " + text
	}
	return what + " by " + e.By + text
}

// DecidedBy returns what people have decided about a run in another system, by the error of its driver.
func DecidedBy(err error) []Decision {
	wait, ended := new(WaitError), new(EndedError)
	switch {
	case errors.As(err, &wait) && wait.Confirmed != nil:
		return []Decision{*wait.Confirmed}
	case errors.As(err, &ended):
		return []Decision{ended.Decision}
	}
	return nil
}

// Decision is what a person has decided about a remote run in another system.
type Decision struct {
	Action  audit.Action // Approve, Reject or Cancel
	By      string
	At      time.Time // zero if it is not known
	Comment string
	Remote  string // id of the remote run
	URL     string // of the remote run
	Run     string // the run that the remote run belongs to; "" if that is not known
}

// Audited returns what the audit record has of the remote run with an entry of this decision, and whether
// it has one already.
func (d Decision) Audited(before state.Audited) (now state.Audited, already bool) {
	now = before.Of(d.Remote)
	of := &now.Ended
	if d.Action == audit.Approve {
		of = &now.Confirmed
	}
	already, *of = *of, true
	return now, already
}
