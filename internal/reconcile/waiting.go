package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/window"
)

// ErrNotWaiting is what Resume returns of a run that does not wait, or not any
// more for what was meant.
var ErrNotWaiting = errors.New("the run does not wait for this")

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
	if resume := s.Run.Resume; resume != nil && !resume.Permits(*s.Run.Wait, d.now) {
		unapproved := *s.Run
		unapproved.Resume = nil // the run waits for another approval
		s.Run = &unapproved
	}
	if s.Run.Destroys() {
		return d.waitingDestroy()
	}
	s.Run = d.acceptWaiting(s.Run)
	moved := !s.Recheck && s.Observed != s.Run.Input
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
	case wentOn && live.Remote.Phase.PastApproval():
		return t, nil
	case live.Remote != nil && !d.Remotely:
		return trigger{}, d.end(state.RunSuperseded, state.ReasonDefinition, "the driver has changed while the run waited")
	case !d.elsewhere() && moved && !d.ahead(buffered, d.Task.BufferPeriod.Max):
		return trigger{}, d.end(state.RunSuperseded, state.ReasonChanged, "the task's input has changed while the run waited"+d.changes(live))
	case wait.Rules != "" && wait.Rules != d.Task.RulesDigest():
		return trigger{}, d.end(state.RunSuperseded, state.ReasonRules, "the task's rules have changed while the run waited")
	case d.inputReturned(wait):
		return trigger{}, d.end(state.RunSuperseded, state.ReasonChanged, "the entries that were gone are back, or their loss was approved, while the run waited")
	case wentOn:
		return t, nil
	case live.Resume != nil && !(moved && (wait.Content != nil || wait.For == state.WaitRemotePlan)): // other input was approved, or planned
		return triggered(state.ReasonRunning, "run %s goes on: resumed by %s", live.ID, live.Resume.By), nil
	case reached(wait.Until, d.now):
		return trigger{}, d.end(state.RunCancelled, state.ReasonCancelled, "it "+wait.String()+" since "+stamp(wait.Since, d.now)+", and the time for that is over")
	}
	t, due := d.windowOpened(window.Apply)
	if t.run {
		return t, nil
	}
	d.noteRemote()
	if moved && !d.elsewhere() {
		due = earlier(due, buffered)
	}
	due = earlier(due, scheduled)
	return trigger{}, refuse(state.ReasonWaiting, due, "run %s %s", live.ID, d.says(s.Run.Wait))
}

// changes says what has changed while a run with a remote run waited: it is part of the
// comment with which the remote run is discarded.
func (d *decider) changes(live *state.LiveRun) string {
	if what := d.pending().Entries.String(); live.Remote != nil && what != "" {
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
	v := window.Judge(d.Task.Windows, window.Change{Action: action}, d.now)
	if !v.Open {
		return trigger{}, earlier(live.Wait.Until, v.Next)
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

// waitingRun reads the record of a run that is to be resumed or ended. It returns
// false if the run does not wait any more: the next tick decides anew.
func (b *batch) waitingRun(ctx context.Context, task string, live *state.LiveRun) (state.Stored[state.Run], bool, error) {
	run, _, err := readAnyway[state.Run](ctx, b.tick.Store, state.RunKey(task, live.ID))
	if err != nil {
		return run, false, fmt.Errorf("read run %s: %w", live.ID, err)
	}
	if run.Data.ID == "" { // its record is gone, or cannot be decoded: only its task tells of it
		run.Data = state.Run{ID: live.ID, Task: task, Kind: cmp.Or(live.Kind, state.KindApply), Launch: live.Launch, Created: live.Created,
			State: state.RunWaiting, Wait: live.Wait}
	}
	return run, run.Data.State == state.RunWaiting, nil
}

// ended ends a waiting run as it was decided.
func (b *batch) ended(it *item, next state.Task, run state.Stored[state.Run]) state.Task {
	d, ended := it.decision, run.Data
	ended.State, ended.Ended, ended.Error = d.EndAs, b.now, state.Cut(d.Reason.Text)
	was := next
	next, d.Forget = was.Conclude(ended, "")
	it.changes = append(it.changes, run.Write(ended).Until(ended.KeptUntil()))
	it.events = append(it.events, outbox.OfEnd(was, next, ended)...)
	return next
}

// Resume requests that the waiting run of a task goes on, if it still waits for
// what the given wait identifies. To repeat the request is harmless. The error
// is ErrNotWaiting.
func (c *Control) Resume(ctx context.Context, task, run, wait, by string) error {
	return c.edit(ctx, task, func(e *edit) error {
		live := e.next.Run
		if w := e.next.Waits(); w == nil || live.ID != run || w.ID != wait || live.Resume == nil && reached(w.Until, e.now) {
			return ErrNotWaiting
		}
		if live.Resume == nil {
			resumed := *live
			resumed.Resume = &state.Resume{By: someone(by), At: e.now}
			e.next.Run = &resumed
		}
		return nil
	})
}
