package decide

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// holdReplaced refuses a task that would lose entries because Consul was replaced,
// unless a person has approved what it applies.
func holdReplaced(d *decider, t trigger) *hold {
	if approved := d.state.Accepted != nil || d.waits() && d.state.Run.Resume != nil && d.state.Run.Resume.Approval != nil; approved {
		return nil
	}
	if !t.run || d.destroys() || d.pastApproval() || d.Replaced == nil || d.Observed == nil || d.Observed.Lost == nil {
		return nil
	}
	return refuse(state.ReasonReplaced, time.Time{}, "%s"+state.LostByReplaced+" (%s): "+
		"the task waits until the entries are back, or until `terrapulse approve -all`", d.Observed.Lost.Text, d.Replaced.Why)
}

// acceptWaiting has a run go on that a guard holds because of its input, if a person
// has accepted that input by now.
func (d *decider) acceptWaiting(live *state.LiveRun) *state.LiveRun {
	a, wait := d.state.Accepted, live.Wait
	if a == nil || wait.Content == nil || live.Resume != nil || !wait.HeldByInput() || a.Content != wait.Content.OfInput() {
		return live
	}
	resumed := *live
	resumed.Resume = &state.Resume{By: a.Names(), At: d.now, Approval: &a.Approval}
	return &resumed
}

// noteAccepted keeps what a person accepted for as long as the task would apply it. A
// removed task may come back, or have got another name.
func (d *decider) noteAccepted() {
	s := &d.state
	if d.Removed {
		return
	}
	if d.Accepted != nil {
		s.Accept(d.Accepted)
	}
	if s.Accepted != nil && (s.Accepted.For() != d.attempt() || !d.Task.Approval.Enough(s.Accepted.Approval, d.now)) {
		s.Accept(nil)
	}
}
