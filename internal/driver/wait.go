package driver

import "github.com/terrapulse/terrapulse/internal/record/state"

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

func said(what, by, text string) string {
	if text != "" {
		text = ": " + text
	}
	return what + " by " + by + text
}
