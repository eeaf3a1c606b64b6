package reconcile

import (
	"encoding/json"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/state"
)

// refreshEvery is how often every view is read, even if no gate has moved: a gate
// is a hint, and a hint that was missed must not lose a change.
const refreshEvery = 5 * time.Minute

// idle reports whether nothing has moved since rec was written and nothing is due.
func (t *tick) idle(rec state.Reconcile) bool {
	now := t.Now()
	if t.opts.Ended || len(t.opts.Force) > 0 || rec.Config != t.digest || reached(rec.Due, now) || reached(t.deliverAt, now) {
		return false
	}
	if rec.Bundle != t.Bundle || !sameRefusal(rec.Refused, t.Refused) || rec.ConsulError != t.problem() || passed(rec.Refreshed, refreshEvery, now, t.Skew) {
		return false
	}
	moved := t.moved(rec)
	for _, q := range t.queries {
		if moved(q) {
			return false
		}
	}
	return true
}

func sameRefusal(a, b *state.Refused) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Bundle == b.Bundle && (a.Bundle != "" || a.Error == b.Error)
}

// problem is why gates cannot be read, as it is recorded.
func (t *tick) problem() string {
	if t.opts.GatesErr == nil {
		return ""
	}
	return state.Cut(t.opts.GatesErr.Error())
}

// sighted reports whether any gate showed something.
func (t *tick) sighted() bool {
	for _, mark := range t.opts.Marks {
		if mark != "" {
			return true
		}
	}
	return false
}

// moved returns which conditions may have changed since rec was written.
func (t *tick) moved(rec state.Reconcile) func(consul.Query) bool {
	var before consul.Marks
	if t.quiet.marks != nil && t.quiet.version == t.version {
		before = t.quiet.marks
	} else if len(rec.Gates) > 0 {
		if err := json.Unmarshal(rec.Gates, &before); err != nil {
			before = nil // then everything may have moved
		}
	}
	return t.gates.Moved(before, t.opts.Marks)
}
