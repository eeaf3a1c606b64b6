package decide

import (
	"cmp"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/cron"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// trigger answers the first question of a decision: why the task should run. It
// says nothing about whether the task may run now: that is admission.
type trigger struct {
	run    bool
	reason state.Reason // why it should run, or why nothing triggers it

	// If nothing triggers the task:
	due       time.Time // when its schedule is due next
	scheduled time.Time // Task.Scheduled from now on, if it is set
	missed    bool      // its schedule is due, and there is nothing to apply
}

// triggered says that the task should run, and why.
func triggered(code state.ReasonCode, format string, args ...any) trigger {
	return trigger{run: true, reason: state.Reason{Code: code, Text: fmt.Sprintf(format, args...)}}
}

// untriggered says that nothing triggers the task, and why.
func untriggered(code state.ReasonCode, format string, args ...any) trigger {
	return trigger{reason: state.Reason{Code: code, Text: fmt.Sprintf(format, args...)}}
}

// why says why the task should run, or why nothing triggers it. It changes
// nothing: what it says may be refused, and is asked again in the next tick.
func (d *decider) why() trigger {
	s := &d.state
	switch {
	case d.destroys():
		return d.whyDestroy()

	case d.Lost != nil && d.Lost.Cancel == "" && !d.backingOff():
		return triggered(state.ReasonLost, "the run before was lost: %s", d.Lost.Error)

	case s.Forced.By != "":
		return triggered(state.ReasonForced, "requested by %s", s.Forced.By)

	case d.stopped():
		return d.whyStopped()

	case s.Applied.Doubt != "":
		return triggered(state.ReasonDoubt, "its infrastructure may not be what was applied last: %s", s.Applied.Doubt)

	case s.Interrupted():
		return triggered(state.ReasonInterrupted, "the run before was interrupted: %s", s.Ended.Last.Error)

	case s.Applied.Unverified.Interrupted():
		return triggered(state.ReasonUnverified, "its latest run was applied, and its verification was interrupted: %s", s.Applied.Unverified.Text)

	// A task that was never applied and was stopped with this definition has changed.
	case s.Stop != nil && s.Stop.For.Definition == d.Definition && s.Applied.At.IsZero() && s.Failing.Count == 0:
		if d.scheduled() {
			return d.schedule()
		}
		return d.changed()

	case s.Failing.Count > 0 && (s.Attempted == d.attempt() || d.scheduled()):
		t := triggered(state.ReasonRetry, "retry number %d", s.Failing.Count)
		if t.reason.Attempt = s.Failing.Count; d.Repaired {
			t.reason.Text += ": its local module was changed"
		}
		return t

	case s.Applied.At.IsZero() && s.Failing.Count == 0:
		return triggered(state.ReasonFirst, "the task has never been applied")

	// If nothing was ever applied, the latest attempt shows whether the definition
	// or the input has changed.
	case s.Applied.Definition != d.Definition && !(s.Applied.At.IsZero() && s.Attempted.Definition == d.Definition):
		return triggered(state.ReasonDefinition, "the task's definition is not the one that was last applied")

	case AppliesDrift(d.Task, s) && atRest(s, d.Definition):
		return triggered(state.ReasonDrift, "%s", s.Drifted())

	// Its run is the one for a change if there is one, which waits for its buffer period or schedule.
	case len(s.Former.Moving) > 0 && s.UpToDate():
		return triggered(state.ReasonDefinition, "the task was renamed from %s: its Terraform state is taken along", s.Former.Moving[0])

	case d.scheduled():
		return d.schedule()

	case !s.UpToDate():
		return d.changed()

	case d.Task.Condition.Spec == nil:
		return untriggered(state.ReasonUnchanged, "the task has no condition: nothing triggers it again")
	}
	return untriggered(state.ReasonUnchanged, "nothing changed since the last apply")
}

// whyStopped is why for a task that a person has stopped. New input of a scheduled task waits for its next time.
func (d *decider) whyStopped() trigger {
	switch stop := d.state.Stop; {
	case stop.Code == state.ReasonDestroyed:
		return untriggered(stop.Code, "everything that it had made was destroyed: it runs when its definition changes, or when a run is requested")
	case stop.Code == state.ReasonRejected:
		t := untriggered(stop.Code, "%s: it is planned again when its input or definition changes, or when a run is requested", stop.Why)
		if d.scheduled() {
			t.scheduled, t.due = d.passed()
		}
		return t
	case d.scheduled():
		return d.schedule()
	case stop.Code == state.ReasonCancelled:
		return untriggered(stop.Code, "%s: it runs when its input or definition changes, or when a run is requested", stop.Why)
	}
	return untriggered(state.ReasonHeld, "created or enabled without a run: it runs when its condition changes")
}

// changed is the trigger of a condition that is not as it was applied, or that
// has changed since a run failed.
func (d *decider) changed() trigger {
	return triggered(state.ReasonChanged, "%s", d.unapplied())
}

// unapplied says what the task has to apply.
func (d *decider) unapplied() string {
	text := "its input is not what was last applied"
	if d.state.Observed.Digest == d.state.Applied.Digest {
		text = "its latest run did not apply everything"
	}
	return cmp.Or(d.pending().Entries.String(), text)
}

// pending is the change that waits for its run.
func (d *decider) pending() state.Pending {
	if d.state.Pending == nil {
		return state.Pending{First: d.now, Latest: d.now}
	}
	return *d.state.Pending
}

// schedule is the trigger of a task that only its schedule triggers.
func (d *decider) schedule() trigger {
	s := &d.state
	expression, _ := d.Task.Condition.Schedule()
	schedule, _ := cron.Parse(expression) // without a time if it is not valid
	since := s.Scheduled
	if since.IsZero() {
		since = d.now
	}
	due := schedule.Next(since.In(d.now.Location()))
	// At most one time of the schedule is skipped for a clock that was ahead.
	if since.After(d.now) {
		soon := schedule.Next(d.now)
		if later := schedule.Next(soon); !later.IsZero() && due.After(later) {
			since, due = d.now, soon
		}
	}
	var t trigger
	switch {
	case due.IsZero():
		t = untriggered(state.ReasonUnchanged, "the schedule %q never comes due again", expression)
	case d.now.Before(due):
		t = untriggered(state.ReasonUnchanged, "next scheduled at %s", clock.Stamp(due, d.now))
		t.due = due
	case !s.UpToDate():
		return triggered(state.ReasonSchedule, "scheduled for %s: %s", clock.Stamp(due, d.now), d.unapplied())
	default:
		t = untriggered(state.ReasonUnchanged, "the schedule came due at %s with nothing to apply", clock.Stamp(due, d.now))
		since, t.due, t.missed = d.now, schedule.Next(d.now), true
	}
	t.scheduled = since
	return t
}

// passed lets the times of a schedule pass that come due while the task is stopped: new input
// waits for the next one. It returns Task.Scheduled from now on, and when the next time is.
func (d *decider) passed() (scheduled, due time.Time) {
	t := d.schedule()
	if t.run || t.missed {
		at := *d
		at.state.Scheduled = d.now
		return d.now, at.schedule().due
	}
	return t.scheduled, t.due
}

func (d *decider) scheduled() bool {
	_, scheduled := d.Task.Condition.Schedule()
	return scheduled
}

// stopped reports whether what would be applied now is no reason for a run.
func (d *decider) stopped() bool { return d.state.Stop.Concerns(d.attempt()) }

// attempt is what a run would try to apply now.
func (d *decider) attempt() state.Attempt {
	return state.Attempt{Definition: d.Definition, Observed: d.state.Observed.Digest}
}
