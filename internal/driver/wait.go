package driver

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// WaitError is returned by Apply and Destroy if the run cannot go on now: it waits
// for a person, for its window, or for another system. The run is recorded as
// waiting. When it is resumed, possibly by another process, the driver is called
// again, and Job.Run.Wait is this wait.
type WaitError struct {
	Wait state.Wait
	// Approval, if set, says who has confirmed the plan in another system. Of it, By, At
	// and Comment are used.
	Approval *state.Approval
}

func (e *WaitError) Error() string { return "the run " + e.Wait.String() }

// RejectedError is returned if a person has discarded the plan in another system. It
// counts as rejected with Terrapulse.
type RejectedError struct{ By, Text string }

func (e *RejectedError) Error() string { return said("rejected", e.By, e.Text) }

// CancelledError is returned if a person has cancelled the run in another system. It
// counts as cancelled with Terrapulse.
type CancelledError struct{ By, Text string }

func (e *CancelledError) Error() string { return said("cancelled", e.By, e.Text) }

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

func said(what, by, text string) string {
	if text != "" {
		text = ": " + text
	}
	return what + " by " + by + text
}
