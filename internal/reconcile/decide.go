// Package reconcile decides what is to be done and sees that it is done: it
// observes Consul, decides for every task whether to run it and why, writes
// the intent and launches the run.
//
// Decide is the decision, without any I/O. Reconciler makes a tick of it, once;
// Loop makes ticks for as long as it leads.
package reconcile

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Input is all that is known about one task at the moment of a decision.
type Input struct {
	Task       *config.Task
	Definition string // digest of the task's definition
	Removed    bool   // the task is in the store only, no longer in the configuration
	// Destroy says that a removed task is to be destroyed: Task is then what it was
	// applied with. Undestroyable is why that is not possible.
	Destroy       bool
	Undestroyable error
	// Renamed are the removed tasks of which a new one is perhaps one, and RenamedTo the
	// new tasks of which a removed one is perhaps one. MovedTo is the task that takes over
	// what a removed one has, and Unmoved why a task cannot do so yet. NotMovedTo is the task
	// whose moved_from names a removed one, and that has something of its own.
	Renamed, RenamedTo           []string
	MovedTo, Unmoved, NotMovedTo string
	Shape                        string        // of the task, as config.Task.Shape says
	State                        state.Task    // as it was read from the store
	Keep                         time.Duration // how long the records of a removed task are kept

	// Observed is what the condition showed in this tick, nil if its views
	// were not read because nothing hinted at a change.
	Observed *Observed
	// Unreadable is why a view that should have been read in this tick was not.
	Unreadable error
	// ConsulUnreachable is set where Unreadable is an outage that concerns all tasks and is
	// logged as such.
	ConsulUnreachable bool
	// Blocked is why the task cannot be run where this is decided; or why one that
	// was made through the API is Removed, though nobody has deleted it.
	Blocked error
	// Corrupt is why a record of the task cannot be decoded: nothing is decided.
	Corrupt error
	// Skew is how far apart the clocks may be that write and read the times in
	// State.
	Skew time.Duration
	// Lost is the run of State.Run, ended as lost, if it is known to be dead.
	Lost *state.Run
	// Datacenters are those that the task reads; "" is that of the agent.
	Datacenters []string
	// Replaced is set if Consul was replaced in one of them, and the task loses
	// entries by that. Accepted says that a person has approved it.
	Replaced *state.Replaced
	Accepted *state.Accepted
	// Unconfirmed is Task.Unconfirmed from now on.
	Unconfirmed bool
	// ChangedBy are those who have changed the task through the API.
	ChangedBy []string
	// LostCheck is the check for drift of State.Drift, ended as lost, if it is known to
	// be dead. Check permits to check the task now.
	LostCheck *state.Run
	Check     bool
	// Remotely is set if runs of the driver go on in another system. Remote is the status of
	// the remote run that the task waits for; nil if it is not known.
	Remotely bool
	Remote   *state.RemoteStatus
	// Stopped is set if the abandoned remote run of the task is stopped.
	Stopped *Stopped
	// Paused is set if no task is to run.
	Paused *state.Paused
	// Force asks for a run whatever the condition says, and names who asks. All says that
	// who asks has asked for all tasks: that is no request against what a person has stopped.
	Force string
	All   bool
}

// Observed is what a condition showed.
type Observed struct {
	Digest  string
	Entries *state.EntryChanges // how it differs from what was last applied; nil if it does not, or if that is not known
	Lost    *loss               // what is missing of what was last applied; nil if nothing is
	// Inputs identifies all inputs of the task, also the module inputs, as
	// consul.DigestOf does; "" if they were not read. If they were, Lost is of all of
	// them, and Excess says why the input guard would hold them.
	Inputs, Excess string
}

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
	Task       *config.Task
	Action     Action
	Reason     state.Reason
	State      state.Task          // from now on; it does not hold the ids of a run to be started
	Lost       *state.Run          // the run that State no longer holds because it was lost
	LostCheck  *state.Run          // the check that State no longer holds because it was lost
	Forget     []string            // runs that State's history no longer holds
	Unreadable error               // as in Input
	Seen       time.Time           // when the change behind a run was first seen; zero if none
	Entries    *state.EntryChanges // as in Observed, if the condition was read
	Replaces   bool                // the run replaces a superseded one
	Scheduled  time.Time           // Task.Scheduled before the run; zero if the task has no schedule
	EndAs      state.RunState      // how a waiting run ends
	Resume     *state.Resume       // why a waiting run goes on
	Kind       state.Kind          // of the run
	Remote     *state.RemoteRun    // of a waiting run that goes on; nil if there is none
	Poll       time.Time           // when a remote run of the task is polled next, or stopped; zero if there is none
	Reread     time.Time           // when a condition that cannot be read is read again; zero if it can be read
}

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
//   - a task is run only if its condition is known and every view that had to
//     be read was read;
//   - a task whose observed and applied digests differ is run sooner or later,
//     unless it is disabled or waits for its schedule;
//   - so is a task whose latest run did not succeed;
//   - a task is checked for drift only if nothing else is to be done about it, and
//     whether it is checked changes no other decision.
func Decide(inputs []Input, now time.Time) []Decision {
	return decideBy(admission, inputs, now)
}

func decideBy(rules []rule, inputs []Input, now time.Time) []Decision {
	decisions := make([]Decision, len(inputs))
	for i, in := range inputs {
		d := decider{Input: in, now: now, state: in.State}
		decisions[i] = d.decide(rules)
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

func (d *decider) decide(rules []rule) Decision {
	if d.Corrupt == nil {
		d.note()
	}
	t := d.why()
	if d.waits() && !d.missing() {
		var h *hold
		if t, h = d.waiting(); h != nil {
			return d.hold(*h)
		}
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
		if d.state.Due = (time.Time{}); !d.pastApproval() { // otherwise it applies what it has read before
			d.state.Attempted = d.attempt()
		}
		out := d.done(Resume, t.reason)
		out.Resume, out.Remote = d.state.Run.Resume, d.state.Run.Remote
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
		if !s.RemovedAt.IsZero() && s.Last != nil && s.Last.Kind == state.KindDestroy {
			s.Held = nil // it is back, and perhaps a part of it was destroyed
		}
		s.MissingSince, s.RemovedAt, s.Deleted, s.DeletedBy = time.Time{}, time.Time{}, false, ""
		s.Shape, s.MovedTo, s.Renamed = d.Shape, "", d.Renamed[:min(len(d.Renamed), state.MaxRenamed)]
		if s.Forced != "" || !s.AppliedAt.IsZero() {
			s.Renamed = nil // somebody has said that it is a new task
		}
	}
	if d.Removed && d.Blocked == nil {
		d.noteRemoved()
	}
	d.noteObserved()
	d.noteUnreadable()
	d.noteAccepted()
	s.Unconfirmed = d.Unconfirmed
	d.noteDrift()
	if d.Stopped != nil {
		*s = s.Stopped(d.Stopped.Applied)
	}
	if d.Lost != nil {
		*s, d.forget = s.Conclude(*d.Lost, "")
		s.Recheck = s.Recheck && d.Observed == nil
	}
	if d.All && !d.stopped() {
		d.noteForce()
	}
}

// noteForce takes over the request for a run. A waiting run is the run that is requested.
func (d *decider) noteForce() {
	if d.Force != "" && d.state.Waits() == nil {
		d.state.Forced, d.state.Replaces = d.Force, false
	}
}

// stopped reports whether a person has stopped the task, or has to say first what it is:
// a request for all tasks does not concern it.
func (d *decider) stopped() bool {
	s := &d.state
	return s.OnHold != nil || len(s.Renamed) > 0 || s.HoldNext || d.held()
}

// noteObserved takes over what the condition showed.
func (d *decider) noteObserved() {
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
		s.Held, s.HoldNext = nil, false
		if held := d.attempt(); !d.settled() {
			s.Held = &held
		}
		if d.scheduled() {
			s.Scheduled = d.now // times that came due before do not count
		}
	case !d.held() && !s.AppliedAt.IsZero():
		s.Held = nil
	}
	switch {
	case s.Observed == s.Applied && !s.Unfinished() && !s.AppliedAt.IsZero():
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

// settled reports whether there is nothing to run the task for. Such a task needs no hold.
func (d *decider) settled() bool {
	s := &d.state
	applied := !s.AppliedAt.IsZero() && s.Definition == d.Definition && s.Observed == s.Applied && !s.Unfinished()
	return applied && s.Doubt == "" && !appliesDrift(d.Task, s)
}

// noteUnreadable notes since when the condition cannot be read.
func (d *decider) noteUnreadable() {
	s := &d.state
	switch {
	case d.Observed != nil || d.Removed || !d.Task.Enabled:
		s.UnreadableSince = time.Time{}
	case d.Unreadable != nil && !d.ConsulUnreachable && s.UnreadableSince.IsZero():
		s.UnreadableSince = d.now
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
	if t.reason.Code == state.ReasonHeld || t.reason.Code == state.ReasonCancelled {
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
	replaces := s.Replaces && (t.reason.Code == state.ReasonForced || d.destroys())
	d.dropRequests()
	*s = s.WithoutCheck()
	if !d.destroys() {
		s.Held, s.HoldNext = nil, false
	}
	s.Doubt, s.Due = "", time.Time{}
	s.Attempted = d.attempt()
	s.Remote = s.Remote || d.Remotely
	out := d.done(Run, t.reason)
	if d.scheduled() && !d.destroys() {
		out.State.Scheduled, out.Scheduled = d.now, before
	}
	out.Seen, out.Replaces, out.Poll = seen, replaces, time.Time{}
	return out
}

func (d *decider) done(action Action, reason state.Reason) Decision {
	d.state.Reason = reason
	out := Decision{Task: d.Task, Definition: d.Definition, Removed: d.Removed, Action: action, Reason: reason, State: d.state, Lost: d.Lost, LostCheck: d.LostCheck,
		Unreadable: d.Unreadable, Forget: d.forget, Kind: state.KindApply, Poll: d.polled()}
	if d.destroys() {
		out.Kind = state.KindDestroy
	}
	if d.Observed != nil {
		out.Entries = d.Observed.Entries
	}
	return out
}
