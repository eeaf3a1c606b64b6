package state

import "cmp"

// Stop says that a person has done something by which an attempt is no reason for a run any more.
type Stop struct {
	// Code is ReasonHeld if the task was created or enabled without a run, or ReasonDestroyed,
	// ReasonCancelled or ReasonRejected.
	Code ReasonCode `json:"code"`
	Why  string     `json:"why,omitempty"` // of what was cancelled or rejected, as Run.Error
	// For is the attempt. What was destroyed is not made again by other input either: only its
	// definition counts.
	For Attempt `json:"for,omitzero"`
	// Next makes the attempt with what is observed next no reason for a run either.
	Next bool `json:"next,omitempty"`
}

// Concerns reports whether the stop is one of what would be applied; false for nil.
func (s *Stop) Concerns(a Attempt) bool {
	return s != nil && s.For.Definition == a.Definition && (s.For.Observed == a.Observed || s.Code == ReasonDestroyed)
}

// TakesNext reports whether it is one of what is observed next; false for nil.
func (s *Stop) TakesNext() bool { return s != nil && s.Next }

// StopFor stops the task. Of two stops, the one that lasts longer stays.
func (t *Task) StopFor(stop Stop) {
	if was := t.Stop; was != nil {
		next := was.Next || stop.Next
		if stop.For == (Attempt{}) || was.Code == ReasonDestroyed && was.For.Definition == stop.For.Definition {
			stop = *was
		}
		stop.Next = next
	}
	t.Stop = &stop
}

// StopNext makes what was observed now no reason for a run, as Stop.Next says.
func (t *Task) StopNext(a Attempt) {
	stop := Stop{Code: ReasonHeld, For: a}
	if t.Stop.Concerns(a) {
		stop = *t.Stop
		stop.Next = false
	}
	t.Stop = &stop
}

// EndStop ends it.
func (t *Task) EndStop() { t.Stop = nil }

// stopOf is the stop that follows from a run that a person has ended.
func stopOf(run Run, ended Attempt) Stop {
	stop := Stop{Code: ReasonCancelled, Why: cmp.Or(run.Error, "the run before was cancelled"), For: ended}
	if run.Rejected {
		stop.Code = ReasonRejected
	}
	return stop
}
