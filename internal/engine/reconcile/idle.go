package reconcile

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// refreshEvery is how often every view is read, even if no gate has moved: a gate
// is a hint, and a hint that was missed must not lose a change.
const refreshEvery = 5 * time.Minute

// idle reports whether nothing has moved since rec was written and nothing is due.
func (t *tick) idle(rec state.Reconcile) bool {
	now := t.Now()
	if t.opts.Leads || t.opts.Ended || (t.opts.Notified || t.opts.Moved != nil) && rec.Remote > 0 || len(t.opts.Force) > 0 || rec.Config != t.digest || clock.Reached(rec.Due, now) || clock.Reached(t.deliverAt, now) {
		return false
	}
	if rec.Bundle != t.Bundle || !sameRefusal(rec.Refused, t.Refused) || !t.sight(rec, now).Fails(rec.Sight) || clock.Passed(rec.Refreshed, refreshEvery, now, t.Skew) {
		return false
	}
	return !t.gates.AnyMoved(t.marks(rec), t.opts.Marks) && !t.anyRepaired()
}

func sameRefusal(a, b *state.Refused) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Bundle == b.Bundle && (a.Bundle != "" || a.Error == b.Error)
}

// unreachable reports whether nothing of Consul can be read: no gate shows anything, or no view. A watch
// keeps the mark of a gate that it cannot read any more.
func (t *tick) unreachable() bool {
	return t.opts.GatesErr != nil && (t.unanswered || !t.gates.Sees(t.opts.Marks, t.opts.GatesErr))
}

// moved returns which conditions may have changed since rec was written.
func (t *tick) moved(rec state.Reconcile) func(consul.Query) bool {
	return t.gates.Moved(t.marks(rec), t.opts.Marks)
}

// marks are those of the gates when rec was written.
func (t *tick) marks(rec state.Reconcile) consul.Marks {
	before := consul.Marks{}
	for key, gate := range t.known(rec) {
		before[key] = gate.Mark
	}
	return before
}

// known is what the gates showed in the latest tick.
func (t *tick) known(rec state.Reconcile) map[string]state.Gate {
	if t.quiet.gates != nil && t.quiet.version == t.version {
		return t.quiet.gates
	}
	return rec.Gates
}

// maxGateError is how many bytes of the error of one gate are recorded: the record is
// read by each tick.
const maxGateError = 300

// sight is what Consul shows now. While the same gates fail for the same reasons, their errors stay as
// they were recorded: an idle tick writes nothing.
func (t *tick) sight(rec state.Reconcile, now time.Time) state.Sight {
	before, was := t.known(rec), rec.Sight
	next := state.Sight{Gates: map[string]state.Gate{}, Since: was.Since, ConsulUnreachable: t.unreachable()}
	if t.opts.GatesErr != nil {
		next.ConsulError = state.Cut(t.opts.GatesErr.Error())
	}
	for _, a := range t.gates.About() {
		was := before[a.Key]
		gate := state.Gate{Mark: t.opts.Marks[a.Key], Name: a.Name, Datacenter: a.Datacenter, Namespace: a.Namespace, Index: t.opts.Marks.Index(a.Key), Moved: was.Moved}
		if was.Mark != "" && gate.Mark != "" && gate.Mark != was.Mark {
			gate.Moved = now
		}
		if err := consul.GateError(t.opts.GatesErr, a.Key); err != nil {
			gate.Error = state.CutTo(err.Error(), maxGateError)
		}
		next.Gates[a.Key] = gate
	}
	since := now.Add(-consul.Silence(t.opts.GatesErr))
	switch {
	case next.Fails(was):
		next.ConsulError = was.ConsulError
		for key, gate := range next.Gates {
			gate.Error = was.Gates[key].Error
			next.Gates[key] = gate
		}
	case next.ConsulError == "":
		next.Since = time.Time{}
	case was.ConsulError == "", next.ConsulUnreachable && !was.ConsulUnreachable, since.Before(was.Since):
		next.Since = since
	}
	return next
}

// withMarks are the gates with the marks that they had before.
func withMarks(gates, before map[string]state.Gate) map[string]state.Gate {
	all := map[string]state.Gate{}
	for key, gate := range gates {
		gate.Mark, gate.Index = before[key].Mark, before[key].Index
		all[key] = gate
	}
	return all
}
