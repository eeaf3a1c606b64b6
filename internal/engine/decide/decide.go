// Package decide decides for every task whether to run it now, and why. It does no I/O:
// all that is known of a task is an Input, and all that is to be done about it a Decision.
package decide

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Action is what is to be done about a task.
type Action int

// The actions.
const (
	Wait   Action = iota // nothing now
	Run                  // start a run
	Resume               // start a runner for a waiting run
	End                  // end a waiting run
	Check                // start a check for drift
	Note                 // record that a schedule came due with nothing to apply
	Erase                // remove all records of a task that is in no configuration
)

// Decision is what is to be done about one task, and why.
type Decision struct {
	Definition string // digest of the task's definition
	Removed    bool   // as in Input
	MovedTo    string // as in Renaming
	Task       *config.Task
	Action     Action
	Reason     state.Reason
	State      state.Task          // from now on; it does not hold the ids of a run to be started
	Lost       *state.Run          // the run that State no longer holds because it was lost
	EndedCheck *state.Run          // the check that State no longer holds because it has ended
	Forget     []string            // runs that State's history no longer holds
	Unreadable error               // as in Input
	Seen       time.Time           // when the change behind a run was first seen; zero if none
	Entries    *state.EntryChanges // as in Observed, if the condition was read
	Replaces   bool                // the run replaces a superseded one
	Behind     []string            // of a destroy: the tasks that come after
	Scheduled  time.Time           // Task.Scheduled before the run; zero if the task has no schedule
	EndAs      state.RunState      // how a waiting run ends
	Resume     *state.Resume       // why a waiting run goes on
	Kind       state.Kind          // of the run
	Poll       time.Time           // when a remote run of the task is polled next, or stopped; zero if there is none
	Reread     time.Time           // when a condition that cannot be read is read again; zero if it can be read
}

// Decide is Order.Decide for tasks without an order.
func Decide(inputs []Input, now time.Time) []Decision { return Order{}.Decide(inputs, now) }

// Decide says for every task what to do at the time now, and why. It does no
// I/O and keeps nothing. Schedules are read in the time zone of now.
//
// It has two stages. The first says why a task should run (why.go), the second
// whether it may run now (admit.go). A run that somebody requested has passed the
// first stage only.
//
// Whatever the order of events, these hold:
//   - a task is run only if every rule of admission lets it;
//   - a task whose run is not known to be dead is never run;
//   - a task is run only if all tasks that come before it are at rest;
//   - a task is run only if its condition is known and every view that had to
//     be read was read;
//   - a task whose observed and applied digests differ is run sooner or later,
//     unless it is disabled or waits for its schedule;
//   - so is a task whose latest run did not succeed;
//   - a task is checked for drift only if nothing else is to be done about it, and
//     whether it is checked changes no other decision.
func (o Order) Decide(inputs []Input, now time.Time) []Decision {
	return o.decideBy(admission, inputs, now)
}

func (o Order) decideBy(rules []rule, inputs []Input, now time.Time) []Decision {
	return ordered(inputs, o, now, func(i int, by *order) Decision {
		d := decider{Input: inputs[i], now: now, order: by, state: inputs[i].State}
		return d.decide(rules)
	})
}

// decider is the decision about one task on its way.
type decider struct {
	Input
	now    time.Time
	order  *order     // nil if there is none
	state  state.Task // as it shall be
	forget []string
	behind []string // as in Decision
}

func (d *decider) decide(rules []rule) Decision {
	if d.Corrupt == nil {
		d.note()
	}
	t := d.why()
	if d.waits() && !d.missing() {
		var h *hold
		if t, h = d.waiting(); h != nil {
			d.state.After = nil
			return d.hold(*h)
		}
	}
	if !t.run {
		d.state.After = nil
	}
	for _, refuses := range rules {
		if h := refuses(d, t); h != nil {
			return d.hold(*h)
		}
	}
	if !t.run {
		return d.rest(t)
	}
	if d.waits() {
		d.state.After = nil
		if d.state.Due = (time.Time{}); !d.pastApproval() { // otherwise it applies what it has read before
			d.state.Try(d.attempt())
		}
		out := d.done(Resume, t.reason)
		out.Resume = d.state.Run.Resume
		return out
	}
	return d.run(t)
}

// note takes over what is known since the last decision.
func (d *decider) note() {
	s := &d.state
	if !d.All {
		d.noteForce()
	}
	if !d.Removed {
		s.Configured()
		s.Follows = d.Task.After
	}
	if s.Forced.By != "" {
		s.Renamed = nil // a person has said that it is a new task
	}
	if d.Removed && d.Blocked == nil {
		d.noteRemoved()
	}
	*s = s.WithoutFuture(d.now.Add(d.Skew))
	d.noteObserved()
	d.noteUnreadable()
	d.noteAccepted()
	s.Unconfirmed = d.Unconfirmed
	d.noteDrift()
	if left := d.State.GivenUp(); left != nil && d.State.Run == nil && left.OfOther(d.Driver) {
		*s = s.Stopped(false) // nobody here can stop it
	}
	if d.Lost != nil {
		*s, d.forget = s.Conclude(*d.Lost, "")
		if d.Observed != nil {
			s.Observed.Recheck, s.Observed.Superseded = false, false
		}
	}
	if d.All && !d.saysPerson() {
		d.noteForce()
	}
}

// noteForce takes over the request for a run. A waiting run is the run that is requested.
func (d *decider) noteForce() {
	if d.Force != "" && d.state.Waits() == nil {
		d.state.RequestRun(d.Force)
	}
}

// saysPerson reports whether a person has stopped the task, or has to say first what it is:
// a request for all tasks does not concern it.
func (d *decider) saysPerson() bool {
	s := &d.state
	return s.OnHold != nil || len(s.Renamed) > 0 || s.Stop.TakesNext() || d.stopped() || d.Unreached != ""
}

// noteObserved takes over what the condition showed.
func (d *decider) noteObserved() {
	s := &d.state
	if d.Observed == nil {
		return
	}
	moved := s.Observed.Digest != d.Observed.Digest || s.Observed.At.IsZero()
	now := state.Observed{Digest: d.Observed.Digest, At: s.Observed.At, Chased: d.chased(moved)}
	if moved {
		now.At = d.now
	}
	s.Observed = now
	switch {
	case s.Stop.TakesNext():
		if d.settled() {
			s.EndStop()
		} else {
			s.StopNext(d.attempt())
		}
		if d.scheduled() {
			s.Scheduled = d.now // times that came due before do not count
		}
	case !d.stopped() && !s.Applied.At.IsZero():
		s.EndStop()
	}
	switch {
	case s.UpToDate():
		s.Pending = nil // it went back to what is applied before a run took it up
	case moved, s.Pending != nil:
		pending := d.pending()
		if moved {
			pending.Latest = d.now
		}
		pending.Entries = d.Observed.Entries // what is applied may have changed, and so the difference to it
		s.Pending = &pending
	}
}

// chased counts the runs that may change themselves what the task watches. A change while no run is under
// way is one from outside, and ends that.
func (d *decider) chased(moved bool) int {
	s, recheck := &d.state, d.state.Observed.Recheck
	n := s.Observed.Chased
	switch {
	case !recheck && !moved || s.Run != nil:
	case recheck && s.Ended.In(state.RunSucceeded) && d.Observed.Digest != s.Applied.Digest:
		n++
	case !recheck || d.Observed.Digest == s.Applied.Digest:
		n = 0
	}
	return n
}

// settled reports whether there is nothing to run the task for. Such a task needs no stop.
func (d *decider) settled() bool {
	s := &d.state
	return s.UpToDate() && s.Applied.Definition == d.Definition && s.Applied.Doubt == "" && !AppliesDrift(d.Task, s)
}

// noteUnreadable notes since when the condition cannot be read.
func (d *decider) noteUnreadable() {
	s := &d.state
	switch {
	case d.Removed || !d.Task.Enabled:
		s.Observed.UnreadableSince = time.Time{}
	case d.Unreadable != nil && !d.ConsulUnreachable && s.Observed.UnreadableSince.IsZero():
		s.Observed.UnreadableSince = d.now
	}
}

// hold is the decision that the task may not run now.
func (d *decider) hold(h hold) Decision {
	d.state.Due = h.due
	out := d.done(h.action, h.reason)
	out.EndAs, out.Reread = h.endAs, h.reread
	return out
}

// rest is the decision about a task that nothing triggers.
func (d *decider) rest(t trigger) Decision {
	s := &d.state
	if s.Stop != nil && t.reason.Code == s.Stop.Code {
		s.Pending = nil
	}
	if !t.scheduled.IsZero() {
		s.Scheduled = t.scheduled
	}
	h := hold{reason: t.reason, due: t.due}
	switch {
	case t.missed:
		h.action = Note
	case d.checks(t):
		h.action = Check
	}
	return d.hold(h)
}

// run is the decision to run the task.
func (d *decider) run(t trigger) Decision {
	s := &d.state
	var seen time.Time
	if s.Pending != nil || t.reason.Code == state.ReasonChanged {
		seen = d.pending().First
	}
	before := s.Scheduled
	replaces := s.Forced.Replaces && (t.reason.Code == state.ReasonForced || d.destroys())
	s.Begin(d.attempt(), d.destroys())
	*s = s.WithoutCheck()
	s.RunsRemotely(d.Driver)
	out := d.done(Run, t.reason)
	if d.scheduled() && !d.destroys() {
		out.State.Scheduled, out.Scheduled = d.now, before
	}
	out.Seen, out.Replaces, out.Poll = seen, replaces, time.Time{}
	return out
}

func (d *decider) done(action Action, reason state.Reason) Decision {
	d.state.Reason = reason
	out := Decision{Task: d.Task, Definition: d.Definition, Removed: d.Removed, MovedTo: d.MovedTo, Action: action, Reason: reason, State: d.state, Lost: d.Lost, EndedCheck: d.EndedCheck,
		Unreadable: d.Unreadable, Forget: d.forget, Kind: state.KindApply, Poll: d.polled()}
	if d.destroys() && !d.verifies() {
		out.Kind, out.Behind = state.KindDestroy, d.behind
	}
	if d.Observed != nil {
		out.Entries = d.Observed.Entries
	}
	return out
}
