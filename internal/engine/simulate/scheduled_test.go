package simulate

import (
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// dueWithin is how long the schedule of rareReport may take until it is due.
const dueWithin = 3*time.Hour + 10*time.Minute

// limitOnce has the limits of a task change while the run of its schedule waits for an approval.
// That run is replaced, and another must follow soon: the schedule is due again hours later.
func (w *world) limitOnce() {
	const task = "report"
	cfg := w.judge.configuration(bundles[w.pointer].digest)
	t, there := cfg.Task(task)
	if record := w.judge.tasks[task]; !there || !isRare(t) || !t.Enabled || record.Stop != nil || record.OnHold != nil || record.Run != nil && record.Waits() == nil {
		return
	}
	if w.judge.tasks[task].Waits() == nil {
		w.consul.set(w, task)
	}
	if !w.works(dueWithin, func() bool { return w.judge.tasks[task].Waits() != nil }) {
		return
	}
	run := w.judge.tasks[task].Run.ID
	w.note("the limits of %s change while its run waits", task)
	next := w.pointer + 1 // every second bundle has these limits
	if next == withThird {
		next = w.pointer - 1
	}
	if w.home == inAWS {
		w.pushed(next)
	} else {
		w.reloaded(next)
	}
	unfollowed := func() bool { // and not lost or failed: such a run is followed after its backoff
		return w.judge.runs[task][run].State == state.RunSuperseded && strings.Contains(w.judge.unfollowed(task), run)
	}
	if w.works(2*soon, unfollowed) && !w.works(soon, func() bool { return !unfollowed() }) && w.broken == "" {
		w.violated("%s", w.judge.unfollowed(task))
	}
}

// works lets everybody work without faults until something is so, and reports whether it is.
func (w *world) works(longest time.Duration, until func() bool) bool {
	for began := time.Now(); time.Since(began) < longest && w.broken == ""; {
		if w.home == inAWS {
			w.invoke(reconcile.TickOptions{})
		}
		if w.unhindered(time.Minute); until() {
			return true
		}
	}
	return false
}
