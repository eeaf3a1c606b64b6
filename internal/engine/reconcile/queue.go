package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// A run that cannot be launched yet is queued. The task's record says so, and since when
// the run is due: Due. It is written when the run is queued, and not by each tick that
// finds it still there.

// inOrder returns the decisions in the order in which they are carried out: first those that
// need a launch, what has been due for longest before all, so that no task waits for ever
// behind others that change all the time.
func inOrder(decisions []decide.Decision, states map[string]state.Stored[state.Task], now time.Time) []decide.Decision {
	type entry struct {
		launches bool
		since    time.Time
		index    int
	}
	all := make([]entry, len(decisions))
	for i, d := range decisions {
		all[i] = entry{d.Action == decide.Run || d.Action == decide.Resume, dueSince(states[d.Task.Name].Data, now), i}
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		switch {
		case a.launches && b.launches:
			return a.since.Compare(b.since)
		case a.launches:
			return -1
		case b.launches:
			return 1
		}
		return 0
	})
	ordered := make([]decide.Decision, len(all))
	for i, e := range all {
		ordered[i] = decisions[e.index]
	}
	return ordered
}

// dueSince is since when a task that is decided about now is due. A queued task keeps its
// place, whatever else changes about it.
func dueSince(was state.Task, now time.Time) time.Time {
	if clock.Reached(was.Due, now) {
		return was.Due
	}
	return now
}

// postpone leaves decisions of the batch to the next tick, and records the
// requests behind them.
func (b *batch) postpone(why string, items ...item) {
	for _, it := range items {
		if b.launches == state.KindDrift {
			waits := *it.decision
			waits.Action = decide.Wait
			b.postponed = append(b.postponed, waits)
			continue
		}
		d := decide.Decision{Task: it.decision.Task, State: it.was.Data, Reason: queued(it.was.Data.Reason, it.decision.Reason, why)}
		b.tick.report.Postponed = append(b.tick.report.Postponed, d.Task.Name)
		d.State.Accept(it.decision.State.Accepted) // no other record has it
		d.State.Unconfirmed = it.decision.State.Unconfirmed
		d.State.Due = it.since
		if d.State.Run == nil { // else it is found lost once more
			d.State.Reason = d.Reason
		}
		if who := b.tick.opts.Force[d.Task.Name]; who != "" && it.resumed == nil { // a waiting run is the run that is requested
			d.State.RequestRun(who)
		}
		b.postponed = append(b.postponed, d)
	}
}

// cannotStart begins the text about a launch that cannot be started.
const cannotStart = "launches cannot be started: "

// queued is the reason of a run that has to wait. A run that is queued already keeps its
// reason, although another launch, or another error, may be in its way by now.
func queued(was, of state.Reason, why string) state.Reason {
	const before = "its run has to wait: "
	behind := fmt.Sprintf(" (%s: %s)", of.Code, of.Text)
	if was.Code == state.ReasonQueued && strings.HasSuffix(was.Text, behind) &&
		strings.HasPrefix(was.Text, before+cannotStart) == strings.HasPrefix(why, cannotStart) {
		return was
	}
	return state.Reason{Code: state.ReasonQueued, Text: before + why + behind}
}
