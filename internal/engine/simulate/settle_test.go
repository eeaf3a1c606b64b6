package simulate

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
)

const (
	// settleWithin is how long after the end of all faults everything must be
	// applied. The longest waits are the backoff of a task that kept failing
	// and that of a launch that nobody knows any more, 15 minutes each.
	settleWithin = 40 * time.Minute

	// atOnce is how many requests may be made in a row without a pause, once the
	// faults have ended.
	atOnce = 5000
)

// settle lets the faults end: before long, all is applied.
func (w *world) settle() (took time.Duration) {
	w.note("the faults end")
	w.faults = false
	w.absent = w.ruled && w.rng.IntN(2) == 0
	if p := &w.judge.pauses; p.some && !w.removes {
		p.stays = w.rng.IntN(2) == 0
	}
	w.consul.clear(w)
	w.consul.comeBack(w)
	w.thawAll(true)
	w.ahead.Store(0)
	for _, p := range w.freezable() {
		p.ahead.Store(0)
	}
	for _, f := range w.functions {
		f.ahead.Store(0)
	}
	w.ecs.capacity, w.pointerGone = true, false
	w.adrift = nil
	began, before := time.Now(), w.applies
	if w.home != inAWS {
		w.settleLoop()
	}
	within := settleWithin
	if w.absent {
		within *= 2 // polls of remote runs that wait for a person become rare only then
	}
	for w.home == inAWS && time.Since(began) < within && w.broken == "" {
		w.resumeAll()
		w.agree()
		idle := w.invoke(reconcile.TickOptions{})
		w.unhindered(time.Minute)
		if idle.report.Idle && idle.err == nil && w.unsettled() == "" {
			break
		}
	}
	took = time.Since(began).Truncate(time.Second) // steps take nanoseconds
	if why := w.unsettled(); why != "" {
		w.violated("no change is lost: %s after the last fault %s", took, why)
	} else if took >= within {
		w.violated("an idle tick only reads: with all applied there is still something to do")
	}
	if n, tasks := w.applies-before, len(w.judge.configuration(bundles[w.pointer].digest).Tasks); n > 4*tasks+len(services) { // some may have been deleted since they were decided
		w.violated("without faults %d runs were needed for %d tasks", n, tasks)
	}
	if w.consul.docs != nil && !w.ruled && !w.judge.pauses.some && w.broken == "" {
		w.changeOnce()
	}
	if w.crosses && !w.absent && !w.judge.pauses.some && w.broken == "" {
		w.limitOnce()
	}
	return took
}

// unhindered lets everybody work for a while.
func (w *world) unhindered(d time.Duration) {
	w.freeLocks(nil) // a person does, where nobody can know that the holder is dead
	busy := 0        // requests since time has passed
	for until := time.Now().Add(d); time.Now().Before(until) && w.broken == ""; {
		w.quiet()
		if r := w.next(); r != nil {
			if busy++; busy > atOnce && !w.fleet || busy > 20*atOnce {
				w.violated("nobody spins: %d requests without a pause, the latest is %q of %s", busy, r.label, r.of.name)
			}
			if w.requested != nil && r.label == "observe" { // a tick takes longer than the time between two requests
				w.sleep(time.Second)
				busy = 0
			}
			w.serve(r)
			continue
		}
		if w.ecs.progress(w) || w.ecs.tell(w) || w.cloud.progress(w) {
			continue
		}
		step := time.Until(until)
		if w.ecs.busy() {
			step = min(step, 5*time.Second)
		} else if w.home != inAWS || w.remote {
			step = min(step, 3*time.Second)
		}
		busy = 0
		w.sleep(step)
	}
}
