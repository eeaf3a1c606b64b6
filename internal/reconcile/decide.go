// Package reconcile decides what is to be done and sees that it is done: it
// observes Consul, decides for every task whether to run it and why, writes
// the intent and launches the run.
//
// Decide is the decision, without any I/O. Reconciler makes a tick of it, once;
// Loop makes ticks for as long as it leads.
package reconcile

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hashicorp/cronexpr"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Input is all that is known about one task at the moment of a decision.
type Input struct {
	Task       *config.Task
	Definition string     // digest of the task's definition
	Removed    bool       // the task is in the store only, no longer in the configuration
	State      state.Task // as it was read from the store

	// Observed is what the condition showed in this tick, nil if its views
	// were not read because nothing hinted at a change.
	Observed *Observed
	// Unreadable is why a view that should have been read in this tick was not.
	Unreadable error
	// Blind is set where Unreadable is an outage that concerns all tasks and is
	// logged as such.
	Blind bool
	// Blocked is why the task cannot be run where this is decided; or why one that
	// was made through the API is Removed, though nobody has deleted it.
	Blocked error
	// Corrupt says that a record of the task cannot be decoded: nothing is decided.
	Corrupt bool
	// Skew is how far apart the clocks may be that write and read the times in
	// State.
	Skew time.Duration
	// Lost is the run of State.Run, ended as lost, if it is known to be dead.
	Lost *state.Run
	// Force asks for a run whatever the condition says, and names who asks.
	Force string
}

// Observed is what a condition showed.
type Observed struct {
	Digest  string
	Changed string // how it differs from what was last applied, in words
}

// Action is what is to be done about a task.
type Action int

// The actions.
const (
	Wait  Action = iota // nothing now
	Run                 // start a run
	Note                // record that a schedule came due with nothing to apply
	Erase               // remove all records of a task that is in no configuration
)

// Decision is what is to be done about one task, and why.
type Decision struct {
	Task       *config.Task
	Action     Action
	Reason     state.Reason
	State      state.Task // from now on; it does not hold the ids of a run to be started
	Lost       *state.Run // the run that State no longer holds because it was lost
	Forget     []string   // runs that State's history no longer holds
	Unreadable error      // as in Input
	Seen       time.Time  // when the change behind a run was first seen; zero if none
	Replaces   bool       // the run replaces a superseded one
}

// Decide says for every task what to do at the time now, and why. It does no
// I/O and keeps nothing. Schedules are read in the time zone of now.
//
// Whatever the order of events, these hold:
//   - a task whose run is not known to be dead is never run;
//   - a task is run only if its condition is known and every view that had to
//     be read was read;
//   - a task whose observed and applied digests differ is run sooner or later,
//     unless it is disabled or waits for its schedule;
//   - so is a task whose latest run did not succeed.
func Decide(inputs []Input, now time.Time) []Decision {
	decisions := make([]Decision, len(inputs))
	for i, in := range inputs {
		d := decider{Input: in, now: now, state: in.State}
		decisions[i] = d.decide()
	}
	return decisions
}

// decider is the decision about one task on its way.
type decider struct {
	Input
	now    time.Time
	state  state.Task // as it shall be
	forget []string
}

func (d *decider) decide() Decision {
	s := &d.state
	if d.Corrupt {
		return d.done(Wait, state.ReasonCorrupt, "a record of the task cannot be read")
	}
	if d.Force != "" {
		s.Forced, s.Replaces = d.Force, false
	}
	if !d.Removed {
		s.RemovedAt, s.Deleted = time.Time{}, false
	}
	d.observe()
	d.noteUnreadable()
	if d.Lost != nil {
		*s, d.forget = s.Conclude(*d.Lost, "")
		s.Recheck = s.Recheck && d.Observed == nil
	}

	switch {
	case s.Run != nil:
		return d.wait(state.ReasonRunning, time.Time{}, "run %s is under way", s.Run.ID)

	case d.Removed:
		s.Pending, s.Forced, s.Replaces, s.Held, s.HoldNext = nil, "", false, nil, false
		if d.Blocked != nil {
			return d.wait(state.ReasonRemoved, time.Time{}, "the task, made through the API, is without effect: %s", state.Cut(d.Blocked.Error()))
		}
		return d.removed()

	case !d.Task.Enabled:
		s.Pending, s.Forced, s.Replaces = nil, "", false
		return d.wait(state.ReasonDisabled, time.Time{}, "the task is disabled")

	case d.Unreadable != nil:
		return d.wait(state.ReasonUnreadable, d.overdue(), "%s", state.Cut(d.Unreadable.Error()))

	case d.Blocked != nil:
		return d.wait(state.ReasonBlocked, time.Time{}, "it cannot be run on the instance that leads: %s", state.Cut(d.Blocked.Error()))

	case s.Recheck || s.ObservedAt.IsZero():
		return d.wait(state.ReasonUnread, d.overdue(), "its condition has not been read yet")

	case d.Lost != nil && d.Lost.Cancel == "" && !d.backingOff():
		return d.run(state.ReasonLost, "the run before was lost: %s", d.Lost.Error)

	case s.Forced != "":
		return d.run(state.ReasonForced, "requested by %s", s.Forced)

	case d.held() && d.scheduled():
		return d.schedule()

	case d.held() && s.Cancelled():
		s.Pending = nil
		return d.wait(state.ReasonCancelled, time.Time{}, "%s: it runs when its input or definition changes, or when a run is requested",
			cmp.Or(s.Last.Error, "the run before was cancelled"))

	case d.held():
		s.Pending = nil
		return d.wait(state.ReasonHeld, time.Time{}, "made or enabled without a run: it runs when its condition changes")

	case s.Doubt != "":
		return d.run(state.ReasonDoubt, "what is there may not be what was applied last: %s", s.Doubt)

	case s.Interrupted():
		return d.run(state.ReasonInterrupted, "the run before was interrupted: %s", s.Last.Error)

	// What was never applied and was held for this definition has changed.
	case s.Held != nil && s.Held.Definition == d.Definition && s.AppliedAt.IsZero() && s.Failures == 0:
		return d.changed()

	case s.Failures > 0 && (s.Attempted == d.attempt() || d.scheduled()):
		return d.retry()

	case s.AppliedAt.IsZero() && s.Failures == 0:
		return d.run(state.ReasonFirst, "the task has never been applied")

	// Where nothing was ever applied, what was last tried tells whether it is
	// the definition or the input that has changed.
	case s.Definition != d.Definition && !(s.AppliedAt.IsZero() && s.Attempted.Definition == d.Definition):
		return d.run(state.ReasonDefinition, "the task's definition is not the one that was last applied")

	case d.scheduled():
		return d.schedule()

	case s.Observed != s.Applied || s.Unfinished():
		return d.changed()

	case d.Task.Condition.Kind == config.KindNone:
		return d.wait(state.ReasonUnchanged, time.Time{}, "the task has no condition: nothing triggers it again")
	}
	return d.wait(state.ReasonUnchanged, time.Time{}, "nothing changed since the last apply")
}

// observe takes in what the condition showed.
func (d *decider) observe() {
	s := &d.state
	if d.Observed == nil {
		return
	}
	s.Recheck = false
	moved := s.Observed != d.Observed.Digest || s.ObservedAt.IsZero()
	if moved {
		s.Observed, s.ObservedAt = d.Observed.Digest, d.now
	}
	switch {
	case s.HoldNext:
		held := d.attempt()
		s.Held, s.HoldNext = &held, false
		if d.scheduled() {
			s.Scheduled = d.now // what came due before is none of its times
		}
	case !d.held() && !s.AppliedAt.IsZero():
		s.Held = nil
	}
	switch {
	case s.Observed == s.Applied && !s.Unfinished() && !s.AppliedAt.IsZero():
		s.Pending = nil // it went back to what is applied before a run took it up
	case moved && s.Pending == nil:
		s.Pending = &state.Pending{First: d.now, Latest: d.now, Changed: d.Observed.Changed}
	case moved:
		s.Pending = &state.Pending{First: s.Pending.First, Latest: d.now, Changed: d.Observed.Changed}
	case s.Pending != nil: // what is applied may have changed, and so the difference to it
		s.Pending = &state.Pending{First: s.Pending.First, Latest: s.Pending.Latest, Changed: d.Observed.Changed}
	}
}

// noteUnreadable notes since when the condition cannot be read.
func (d *decider) noteUnreadable() {
	s := &d.state
	switch {
	case d.Observed != nil || d.Removed || !d.Task.Enabled:
		s.UnreadableSince = time.Time{}
	case d.Unreadable != nil && !d.Blind && s.UnreadableSince.IsZero():
		s.UnreadableSince = d.now
	}
}

// retry decides about a task that failed and whose input is as it was then.
func (d *decider) retry() Decision {
	s := &d.state
	n := s.Failures
	var out Decision
	if d.backingOff() {
		out = d.wait(state.ReasonBackoff, s.RetryAt, "retry number %d at %s", n, stamp(s.RetryAt, d.now))
	} else {
		out = d.run(state.ReasonRetry, "retry number %d", n)
	}
	out.Reason.Attempt = n
	out.State.Reason.Attempt = n
	return out
}

// backingOff reports whether the next attempt has to wait.
func (d *decider) backingOff() bool {
	return d.ahead(d.state.RetryAt, state.Backoff(d.Task.Name, max(d.state.Failures, 1)))
}

// ahead reports whether a time, which was at most an interval ahead when it was
// written, has still to come. A time further ahead than that, and than clocks may
// be apart, was written by a clock that was wrong.
func (d *decider) ahead(at time.Time, interval time.Duration) bool {
	left := at.Sub(d.now)
	return left > 0 && left <= interval+d.Skew
}

// changed decides about a condition that is not as it was applied, or that has
// changed since a run failed.
func (d *decider) changed() Decision {
	s := &d.state
	if s.Pending == nil {
		s.Pending = &state.Pending{First: d.now, Latest: d.now}
	}
	text := s.Pending.Changed
	if text == "" {
		text = "it is not what was last applied"
	}
	at := bufferedUntil(d.Task.BufferPeriod, *s.Pending)
	if d.ahead(at, d.Task.BufferPeriod.Max) {
		return d.wait(state.ReasonBuffering, at, "buffering until %s: %s", stamp(at, d.now), text)
	}
	return d.run(state.ReasonChanged, "%s", text)
}

// schedule decides about a task that only its schedule triggers.
func (d *decider) schedule() Decision {
	s, cron := &d.state, d.Task.Condition.Schedule.Cron
	if s.Scheduled.IsZero() {
		s.Scheduled = d.now
	}
	due := NextCron(cron, s.Scheduled.In(d.now.Location()))
	// At most one time of the schedule is skipped for a clock that was ahead.
	if s.Scheduled.After(d.now) {
		soon := NextCron(cron, d.now)
		if later := NextCron(cron, soon); !later.IsZero() && due.After(later) {
			s.Scheduled, due = d.now, soon
		}
	}
	switch {
	case due.IsZero():
		return d.wait(state.ReasonUnchanged, time.Time{}, "the schedule %q never comes due again", cron)
	case d.now.Before(due):
		return d.wait(state.ReasonUnchanged, due, "next scheduled at %s", stamp(due, d.now))
	case s.Observed != s.Applied || s.Unfinished():
		text := "its input is not what was last applied"
		if s.Observed == s.Applied {
			text = "the run before was not finished"
		}
		if s.Pending != nil && s.Pending.Changed != "" {
			text = s.Pending.Changed
		}
		return d.run(state.ReasonSchedule, "scheduled for %s: %s", stamp(due, d.now), text)
	}
	s.Scheduled = d.now
	next := NextCron(cron, d.now)
	out := d.wait(state.ReasonUnchanged, next, "the schedule came due at %s with nothing to apply", stamp(due, d.now))
	out.Action = Note
	return out
}

// overdue is the due time of a task that waits for Consul: since when, so that
// waiting on changes nothing and nothing is written.
func (d *decider) overdue() time.Time {
	code := d.state.Reason.Code
	if (code == state.ReasonUnreadable || code == state.ReasonUnread) && reached(d.state.Due, d.now) {
		return d.state.Due
	}
	return d.now
}

func (d *decider) wait(code state.ReasonCode, due time.Time, format string, args ...any) Decision {
	d.state.Due = due
	return d.done(Wait, code, fmt.Sprintf(format, args...))
}

func (d *decider) run(code state.ReasonCode, format string, args ...any) Decision {
	text := fmt.Sprintf(format, args...)
	s := &d.state
	var seen time.Time
	if s.Pending != nil {
		seen = s.Pending.First
	}
	replaces := s.Replaces && code == state.ReasonForced
	s.Pending, s.Forced, s.Replaces, s.Doubt, s.Held, s.HoldNext, s.Due = nil, "", false, "", nil, false, time.Time{}
	s.Attempted = d.attempt()
	if d.scheduled() {
		s.Scheduled = d.now
	}
	out := d.done(Run, code, text)
	out.Seen, out.Replaces = seen, replaces
	return out
}

func (d *decider) done(action Action, code state.ReasonCode, text string) Decision {
	d.state.Reason = state.Reason{Code: code, Text: text}
	return Decision{Task: d.Task, Action: action, Reason: d.state.Reason, State: d.state, Lost: d.Lost, Unreadable: d.Unreadable, Forget: d.forget}
}

// held reports whether what would be applied is no reason for a run.
func (d *decider) held() bool { return d.state.Held != nil && *d.state.Held == d.attempt() }

func (d *decider) scheduled() bool { return d.Task.Condition.Kind == config.KindSchedule }

// attempt is what a run would try to apply now.
func (d *decider) attempt() state.Attempt {
	return state.Attempt{Definition: d.Definition, Observed: d.state.Observed}
}

// bufferedUntil is when a pending change may be run: min after the latest
// change, but never later than max after the first.
func bufferedUntil(b config.BufferPeriod, p state.Pending) time.Time {
	if !b.Enabled {
		return p.First
	}
	at := p.Latest.Add(b.Min)
	if limit := p.First.Add(b.Max); at.After(limit) {
		return limit
	}
	return at
}

// NextCron is the first time after from at which the expression is due, in
// from's time zone; zero if there is none or the expression is not valid.
func NextCron(cron string, from time.Time) time.Time {
	expr, err := cronexpr.Parse(cron)
	if err != nil {
		return time.Time{}
	}
	return expr.Next(from)
}
