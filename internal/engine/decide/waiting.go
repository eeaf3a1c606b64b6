package decide

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/window"
)

// waits reports whether the task has a waiting run, which the decision is about.
func (d *decider) waits() bool { return d.Corrupt == nil && d.state.Waits() != nil }

// waiting decides about a task with a waiting run. The hold says that the run waits
// on, or ends. Without a hold it should go on, and the rules of admission decide on
// the trigger.
//
// New input or a new definition replaces the run: what it waits with is not
// what would be applied. New input of a scheduled task does so when the schedule is
// due. If the work of the run goes on elsewhere, new input waits for it.
func (d *decider) waiting() (trigger, *hold) {
	s := &d.state
	if resume := s.Run.Resume; resume != nil && (!resume.Permits(*s.Run.Wait, d.now) || d.lacksPeople(*resume)) {
		unapproved := *s.Run
		unapproved.Resume = nil // the run waits for another approval
		if a := resume.Approval; a != nil && s.Run.Wait.Content != nil && a.Content == *s.Run.Wait.Content {
			unapproved.Approvals = a.All()
		}
		s.Run = &unapproved
	}
	d.dropExpired()
	if s.Run.Wait.For == state.WaitVerify {
		return d.waitingVerify()
	}
	if s.Run.Destroys() {
		return d.waitingDestroy()
	}
	s.Run = d.acceptWaiting(s.Run)
	moved := !s.Observed.Recheck && s.Observed.Digest != s.Run.Input
	var scheduled time.Time // when a schedule takes up what has changed meanwhile
	if moved && d.scheduled() {
		t := d.schedule()
		moved, scheduled = t.run || t.missed, t.due
	}
	t, wentOn := d.remoteWentOn(moved)
	live := s.Run
	wait := live.Wait
	var buffered time.Time // no wait for more changes if the input went back to what is applied
	if s.Pending != nil {
		buffered = bufferedUntil(d.Task.BufferPeriod, *s.Pending)
	}
	switch {
	case d.destroys():
		return trigger{}, d.end(state.RunSuperseded, state.ReasonDestroy, "everything that the task has made is to be destroyed")
	case d.Removed:
		return trigger{}, d.end(state.RunSuperseded, state.ReasonRemoved, "the task is not in the configuration any more")
	case !d.Task.Enabled && !d.pastApproval():
		return trigger{}, d.end(state.RunSuperseded, state.ReasonDisabled, "the task is disabled")
	case s.Attempted.Definition != d.Definition:
		return trigger{}, d.end(state.RunSuperseded, state.ReasonDefinition, "the task's definition has changed while the run waited")
	case wentOn && d.Remote.Phase.PastApproval():
		return t, nil
	case s.LiveRemote().OfOther(d.Driver):
		return trigger{}, d.end(state.RunSuperseded, state.ReasonDefinition, "the driver has changed while the run waited")
	case !d.elsewhere() && moved && !d.ahead(buffered, d.Task.BufferPeriod.Max):
		return trigger{}, d.end(state.RunSuperseded, state.ReasonChanged, "the task's input has changed while the run waited"+d.changes())
	case wait.Rules != "" && wait.Rules != d.Task.RulesDigest():
		return trigger{}, d.end(state.RunSuperseded, state.ReasonRules, "the task's rules have changed while the run waited")
	case d.inputReturned(wait):
		return trigger{}, d.end(state.RunSuperseded, state.ReasonChanged, "the entries that were gone are back, or their loss was approved, while the run waited")
	case d.judgedAgain(wait):
		return trigger{}, d.end(state.RunSuperseded, state.ReasonChanged, "what was applied before the window of its guard does not count any more, so it is judged again")
	case wentOn:
		return t, nil
	case live.Resume != nil && !(moved && (wait.Content != nil || wait.For == state.WaitRemotePlan)): // other input was approved, or planned
		return triggered(state.ReasonRunning, "run %s goes on: resumed by %s", live.ID, live.Resume.By), nil
	case clock.Reached(wait.Until, d.now):
		return trigger{}, d.end(state.RunCancelled, state.ReasonCancelled, "it "+wait.String()+" since "+clock.Stamp(wait.Since, d.now)+", and the time for that is over")
	}
	t, due := d.windowOpened(window.Apply)
	if t.run {
		return t, nil
	}
	d.noteRemote()
	if moved && !d.elsewhere() {
		due = clock.Earlier(due, buffered)
	}
	due = clock.Earlier(clock.Earlier(clock.Earlier(due, scheduled), wait.Again), state.FirstExpiry(s.Run.Approvals))
	return trigger{}, refuse(state.ReasonWaiting, due, "run %s %s", live.ID, d.says(s.Run.Wait))
}

// verifies reports whether the verification of the task's run is to be continued.
func (d *decider) verifies() bool {
	wait, stays := d.state.Waits(), !d.destroys() || d.Kept != ""
	return wait != nil && wait.For == state.WaitVerify && stays
}

// waitingVerify is waiting for a run that has applied everything, and is not verified to the end. Nothing but
// a destroy of all that replaces it: its runner records what was applied, and what has failed, also of a task
// that was removed or renamed. The rename waits for that.
func (d *decider) waitingVerify() (trigger, *hold) {
	if !d.verifies() {
		return trigger{}, d.end(state.RunSuperseded, state.ReasonDestroy, "everything that the task has made is to be destroyed")
	}
	live := *d.state.Run
	if live.Resume == nil {
		live.Resume = &state.Resume{By: "its verification", At: d.now}
	}
	d.state.Run = &live
	return triggered(state.ReasonRunning, "run %s goes on: its verification continues", live.ID), nil
}

// lacksPeople reports whether a run that waits with a plan was resumed by the approvals of several people,
// and the configuration says since then that some of them are one person.
func (d *decider) lacksPeople(resume state.Resume) bool {
	return d.state.Run.Wait.Content != nil && resume.Approval != nil && !d.Task.Approval.Enough(*resume.Approval, d.now)
}

// dropExpired drops the approvals of the waiting run that do not count any more.
func (d *decider) dropExpired() {
	live := *d.state.Run
	counting := d.Task.Approval.Counting(live.Approvals, d.now)
	if len(counting) < len(live.Approvals) {
		live.Approvals = counting
		d.state.Run = &live
	}
}

// changes says what has changed while a run with a remote run waited: it is part of the
// comment with which the remote run is discarded.
func (d *decider) changes() string {
	if what := d.pending().Entries.String(); d.state.LiveRemote() != nil && what != "" {
		return ": " + what
	}
	return ""
}

// windowOpened is the trigger of a waiting run whose window is open now. If the run
// waits on, due is when its window opens or its time is over; zero for never.
func (d *decider) windowOpened(action window.Action) (t trigger, due time.Time) {
	live := *d.state.Run
	if live.Wait.For != state.WaitWindow {
		return trigger{}, live.Wait.Until
	}
	// The run waits because its runner judged that the window is closed. If the clock of the runner is
	// ahead, that is so until this clock has come to that time: otherwise the run would be resumed, and
	// wait, again and again.
	now := d.now
	if since := live.Wait.Since; since.After(now) && since.Sub(now) <= d.Skew {
		now = since
	}
	v := window.Judge(d.Task.Windows, window.Change{Action: action}, now)
	if !v.Open {
		return trigger{}, clock.Earlier(live.Wait.Until, v.Next)
	}
	live.Resume = &state.Resume{By: "its window", At: d.now}
	d.state.Run = &live
	return triggered(state.ReasonWindow, "run %s goes on: its window is open", live.ID), time.Time{}
}

// end says that a waiting run ends. Its task is decided in the next tick, which
// follows at once.
func (d *decider) end(as state.RunState, code state.ReasonCode, text string) *hold {
	h := refuse(code, d.now, "%s", text)
	h.action, h.endAs = End, as
	return h
}

// judgedAgain reports whether the time has come to judge again what a guard holds. A time that is
// further ahead than its window was written by a clock that was wrong.
func (d *decider) judgedAgain(wait *state.Wait) bool {
	return clock.Reached(wait.Again, d.now) || wait.Again.After(d.now.Add(d.Task.Guard.Window()+d.Skew))
}

// inputReturned reports whether a run that is held because of its input would not be
// held any more: the data is back, or a person has accepted what Consul shows now.
func (d *decider) inputReturned(wait *state.Wait) bool {
	o := d.Observed
	if o == nil || o.Inputs == "" || wait.Content == nil || !wait.HeldByInput() || o.Inputs == wait.Content.Input {
		return false
	}
	if a := d.state.Accepted; a != nil && a.Content.Input == o.Inputs {
		return true
	}
	return o.Excess == "" && (o.Lost == nil || !wait.Has(state.RuleReplaced))
}
