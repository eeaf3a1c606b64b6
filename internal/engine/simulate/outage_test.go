package simulate

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/overview"
)

const (
	// outageEvery says after which histories Consul dies, when all is applied: those of every eighth seed.
	outageEvery, outageFirst = 8, 5

	// outageSaid is when an outage must be unhealthy at the latest: a function ticks every minute, and
	// clocks differ by some seconds.
	outageSaid = 2*time.Minute + 90*time.Second
)

// outage has Consul die, one gate after the other, and come back.
func (w *world) outage(seed uint64) {
	if seed%outageEvery != outageFirst || w.consul.docs != nil || len(w.judge.last.Gates) == 0 {
		return
	}
	w.note("the first of Consul's gates fails")
	w.consul.failing = 1
	w.ticks(5 * time.Second)
	w.note("all of them fail")
	w.consul.gone = true
	w.ticks(outageSaid)
	if overview.Unhealthy(nil, w.judge.last, time.Time{}, time.Now()) == "" {
		w.violated("an outage of Consul is unhealthy after two minutes: %+v", w.judge.last.Sight)
	}
	w.note("Consul is back")
	w.consul.gone, w.consul.failing = false, 0
	w.ticks(2 * time.Minute)
	if sight := w.judge.last.Sight; sight.ConsulError != "" {
		w.violated("an outage of Consul ends: %+v", sight)
	}
}

// ticks has what leads tick for a while, at once and every minute.
func (w *world) ticks(d time.Duration) {
	w.consul.moved()
	for end := time.Now().Add(d); time.Now().Before(end) && w.broken == ""; {
		if w.home == inAWS {
			w.invoke(reconcile.TickOptions{})
		}
		w.unhindered(min(time.Minute, time.Until(end)))
	}
}
