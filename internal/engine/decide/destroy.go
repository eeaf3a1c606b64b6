package decide

import (
	"cmp"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/window"
)

// destroys reports whether the task is to be destroyed: because it is removed, or
// because somebody requests it.
func (d *decider) destroys() bool {
	return d.Corrupt == nil && (d.Destroy || !d.Removed && d.state.Destroy != nil)
}

// whyDestroy is why for a task that is to be destroyed.
func (d *decider) whyDestroy() trigger {
	s := &d.state
	ended := s.Ended.Of(state.KindDestroy)
	switch {
	case d.Lost != nil && d.Lost.Kind == state.KindDestroy && d.Lost.Cancel == "" && !d.backingOff():
		return triggered(state.ReasonLost, "the run before was lost: %s", d.Lost.Error)

	case ended && s.Failing.Count > 0:
		t := triggered(state.ReasonRetry, "retry number %d", s.Failing.Count)
		t.reason.Attempt = s.Failing.Count
		return t

	case s.Destroy != nil:
		return triggered(state.ReasonDestroy, "%s requested that everything that the task has made is destroyed", s.Destroy.By)

	case ended && s.Ended.In(state.RunCancelled):
		code := state.ReasonCancelled
		if s.Ended.Last.Rejected {
			code = state.ReasonRejected
		}
		return untriggered(code, "%s: everything that the task has made stays until `terrapulse destroy %s` requests a new plan",
			cmp.Or(s.Ended.Last.Error, "the run before was cancelled"), d.Task.Name)
	}
	return triggered(state.ReasonDestroy, "the task is not in the configuration any more, and its on_removal is \"destroy\"")
}

// holdUndestroyed refuses to destroy a removed task if that is not possible, or if a
// person does not want it. Then its records are kept as long as those of any other
// removed task.
func (d *decider) holdUndestroyed(t trigger) *hold {
	until := d.state.Gone.Since.Add(d.Keep)
	switch {
	case d.Undestroyable != nil:
		return refuse(state.ReasonBlocked, time.Time{}, "the task is not in the configuration any more, and it cannot be destroyed: %s", state.Cut(d.Undestroyable.Error()))
	case t.run:
		return nil
	case clock.Reached(until, d.now):
		h := refuse(state.ReasonRemoved, d.now, "the task is not in the configuration any more: its records are removed")
		h.action = Erase
		return h
	}
	t.reason.Text = "the task is not in the configuration any more; " + t.reason.Text
	return &hold{reason: t.reason, due: until}
}

// waitingDestroy is waiting for a run that destroys what the task has made. What
// Consul shows does not matter.
func (d *decider) waitingDestroy() (trigger, *hold) {
	s := &d.state
	t, wentOn := d.remoteWentOn(false)
	live := s.Run
	wait := live.Wait
	switch {
	case wentOn && d.Remote.Phase.PastApproval() && d.destroys():
		return t, nil
	case s.LiveRemote().OfOther(d.Driver):
		return trigger{}, d.end(state.RunSuperseded, state.ReasonDefinition, "the driver has changed while the run waited")
	case d.Undestroyable != nil:
		return trigger{}, d.end(state.RunSuperseded, state.ReasonBlocked, state.Cut(d.Undestroyable.Error()))
	case !d.destroys() && d.Removed:
		return trigger{}, d.end(state.RunSuperseded, state.ReasonRemoved, "what the task was applied with is not kept any more")
	case !d.destroys():
		return trigger{}, d.end(state.RunSuperseded, state.ReasonDestroy, "the task is in the configuration again")
	case s.Attempted.Definition != d.Definition:
		return trigger{}, d.end(state.RunSuperseded, state.ReasonDefinition, "the task's definition has changed while the run waited")
	case wait.Rules != "" && wait.Rules != d.Task.RulesDigest():
		return trigger{}, d.end(state.RunSuperseded, state.ReasonRules, "the task's rules have changed while the run waited")
	case wentOn:
		return t, nil
	case live.Resume != nil:
		return triggered(state.ReasonRunning, "run %s goes on: resumed by %s", live.ID, live.Resume.By), nil
	case clock.Reached(wait.Until, d.now):
		return trigger{}, d.end(state.RunCancelled, state.ReasonCancelled, "it "+wait.String()+" since "+clock.Stamp(wait.Since, d.now)+", and the time for that is over")
	}
	t, due := d.windowOpened(window.Destroy)
	if t.run {
		return t, nil
	}
	d.noteRemote()
	due = clock.Earlier(due, state.FirstExpiry(s.Run.Approvals))
	return trigger{}, refuse(state.ReasonWaiting, due, "run %s %s", live.ID, d.says(s.Run.Wait))
}
