package reconcile_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/spans"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// The engine as a whole, in random histories: processes that tick and run on
// one store, which refuses writes, loses answers and lets others in between;
// that die between any two steps and are followed by new ones, with the same
// configuration or another; a Consul that changes, hides views and goes away; a
// Terraform that fails. What must always hold is looked at with every write,
// and when the faults end, all must be applied before long.
//
// -rapid.checks=10000 looks at more histories than the usual hundred.

// noon is when each history begins.
var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

type world struct {
	t      *rapid.T
	now    time.Time
	store  *statetest.Memory
	faults bool

	// Consul.
	digests map[string]string // what it says of each service
	mark    int               // what its gates show
	closed  map[string]bool   // services that cannot be read
	gone    bool              // nothing can be read

	infra     map[string]string // what Terraform has made for each task
	rendered  map[string]string // digest that a successful apply rendered, by run
	applies   map[string]bool   // runs that were applied
	cloud     *cloud            // in which runs go on; nil if they work here
	processes []*proc
	count     int
	spans     map[tracing.Context]bool // that were sent

	broken string // the first thing that must not be
	panic  any    // from where a runner would have swallowed it
}

// chance is true in so many of a hundred cases, as long as there are faults.
func (w *world) chance(percent int, what string) bool {
	return w.faults && w.pick(100, what) >= 100-percent
}

// pick is a number below n. What rapid draws is mostly small: it is spread
// evenly here, but for 0.
func (w *world) pick(n int, what string) int {
	x := uint64(rapid.Uint32().Draw(w.t, what)) * 0x9E3779B97F4A7C15
	return int((x >> 32) % uint64(n))
}

func (w *world) violated(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// sampler has every run traced.
var sampler = tracing.FromEnviron(func(name string) string {
	return map[string]string{tracing.EndpointVariable: "http://collector:4318"}[name]
})

// export takes the spans of a process. A run is one trace, whichever processes take part in it and whichever
// answers are lost, and no span is sent twice.
func (p *proc) export(all ...tracing.Span) {
	for _, s := range all {
		if p.dead {
			return
		}
		if p.spans[s.Context] {
			p.violated("%s sent span %s twice: %+v", p.owner, s.Name, s)
		}
		p.spans[s.Context] = true
		about := map[string]string{}
		for _, a := range s.Attributes {
			about[a.Key] = fmt.Sprint(a.Value)
		}
		run := decoded[state.Run](p.store.All()[state.RunKey(about["terrapulse.task"], about["terrapulse.run"])])
		if run.ID == "" {
			continue // it was forgotten
		}
		traces := []string{run.Trace().ID()}
		if run.Traced != nil {
			traces = append(traces, tracing.Parse(run.Traced.After).ID())
		}
		if !slices.Contains(traces, s.ID()) || s.End.Before(s.Start) {
			p.violated("%s sent span %s of run %s, which has the traces %v: %+v", p.owner, s.Name, run.ID, traces, s)
		}
	}
}

// month is the keep_removed of all configurations.
const month = 30 * 24 * time.Hour

// configuration is one of the two that processes are started with: the second
// has another module for one task, and one task more.
func configuration(variant int) *config.Config {
	c := &config.Config{KeepRemoved: month, Tasks: tasks("web", "api")}
	if variant == 1 {
		c.Tasks[0].Module = "./other"
		c.Tasks = append(c.Tasks, task("db"))
		c.Tasks[2].BufferPeriod = config.BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 20 * time.Second}
	}
	return c
}

func (w *world) configuration(variant int) *config.Config {
	if w.cloud != nil {
		return remotely(configuration(variant))
	}
	return configuration(variant)
}

// start starts a process.
func (w *world) start(variant int) *proc {
	w.count++
	p := &proc{world: w, owner: fmt.Sprintf("p%d", w.count), alive: map[string]int{}}
	cfg := w.configuration(variant)
	clock := func() time.Time {
		w.now = w.now.Add(time.Nanosecond) // no two attempts to start a launch begin at the same moment
		return w.now
	}
	log := slog.New(slog.DiscardHandler)
	p.rec = &reconcile.Reconciler{Config: cfg, Store: summary.Keep(view{p, true}), Consul: p, Launcher: p, Owner: p.owner, LeaseTTL: ttl, Now: clock, Log: log}
	p.run = &runner.Runner{Config: func() *config.Config { return cfg }, Store: summary.Keep(view{p, false}), Consul: p, Driver: p,
		Owner: p.owner, Claim: anHour, Now: clock, Log: log}
	exports := spans.To(p.export)
	p.rec.Traces, p.rec.Spans, p.run.Spans = sampler, exports, exports
	if w.cloud != nil {
		p.rec.Remote, p.run.Driver = p.remote(), p.remote()
	}
	w.processes = append(w.processes, p)
	return p
}

// step is something that happens; at a depth, while something else does.
func (w *world) step(depth int) {
	if depth > 2 {
		return
	}
	p := w.processes[w.pick(len(w.processes), "who")]
	if p.dead {
		w.processes = slices.DeleteFunc(w.processes, func(other *proc) bool { return other == p })
		p = w.start(w.pick(4, "variant") / 3)
	}
	if w.cloud != nil && w.pick(3, "there or here") == 1 {
		w.cloudStep()
		return
	}
	service := []string{"web", "api", "db"}[w.pick(3, "service")]
	switch w.pick(20, "what") {
	case 0, 1, 2, 3:
		p.tick(reconcile.TickOptions{})
	case 4:
		p.tick(reconcile.TickOptions{Ended: true})
	case 5, 6, 7, 8, 9:
		p.next()
	case 10, 11:
		w.now = w.now.Add(time.Duration(w.pick(8000, "ms")) * time.Millisecond)
	case 12:
		w.now = w.now.Add(time.Duration(w.pick(4000, "seconds")) * time.Second)
	case 13, 14:
		w.count++
		w.digests[service] = fmt.Sprintf("d%d", w.count%4)
		if !w.chance(20, "no gate tells") {
			w.mark++
		}
	case 15:
		w.closed[service] = w.chance(50, "closed")
	case 16:
		w.gone = w.chance(30, "gone")
	case 17:
		p.tick(reconcile.TickOptions{Force: map[string]string{service: "a person"}})
	case 18:
		if p.held == nil && !p.ticking {
			p.do(func() {
				p.held, _ = lease.Acquire(context.Background(), summary.Keep(view{p, false}), state.LeaderLease, p.owner,
					lease.Options{TTL: ttl, Now: func() time.Time { return w.now }})
			})
		}
	case 19:
		p.dead = true // another is started in its place
	}
}

// settle lets the faults end: one process goes on, and all is applied.
func (w *world) settle() {
	w.faults, w.gone, w.closed = false, false, map[string]bool{}
	for _, p := range w.processes {
		p.dead = true
	}
	p := w.start(w.pick(4, "variant") / 3)
	if w.cloud != nil {
		w.rest(p)
		for service := range w.digests {
			w.digests[service] = "new " + service // nobody who cancelled or rejected a run has seen it
		}
		w.mark++
	}
	settled, before := false, len(w.applies)
	var report reconcile.Report
	for range 90 {
		report = p.tick(reconcile.TickOptions{})
		for len(p.queue) > 0 {
			p.next()
		}
		if w.cloud != nil {
			w.settleCloud()
		}
		if settled = w.applied(p) == ""; settled && report.Idle {
			break
		}
		w.now = w.now.Add(time.Minute)
	}
	if n := len(w.applies) - before; n > 3*len(p.rec.Config.Tasks) {
		w.violated("without faults %d runs were needed for %d tasks", n, len(p.rec.Config.Tasks))
	}
	if why := w.applied(p); why != "" {
		w.violated("no change is lost: after 90 minutes without faults %s", why)
	} else if w.cloud != nil && w.leftThere(p) != "" {
		w.violated("what no run needs is stopped there: after 90 minutes without faults %s", w.leftThere(p))
	} else if !report.Idle {
		w.violated("an idle tick only reads: with all applied there is still something to do: %+v", report)
	}
}

// applied says what is not as it should be in the end.
func (w *world) applied(p *proc) string {
	for _, t := range p.rec.Config.Tasks {
		record := decoded[state.Task](w.store.All()[state.TaskKey(t.Name)])
		switch want := w.digests[t.Name]; {
		case record.Applied != want || w.infra[t.Name] != want:
			return fmt.Sprintf("Consul says %s of %s, %s counts as applied, %s is there: %+v", want, t.Name, record.Applied, w.infra[t.Name], record)
		case record.Run != nil || record.Failures != 0 || record.Definition != t.Digest(p.rec.Config):
			return fmt.Sprintf("%s reads %+v", t.Name, record)
		}
	}
	return ""
}

// history makes one history, and says what was wrong with it.
func history(t *rapid.T, in *cloud) string {
	w := &world{t: t, cloud: in, now: noon, store: statetest.NewMemory(), faults: true, closed: map[string]bool{},
		digests: map[string]string{"web": "d0", "api": "d0", "db": "d0"}, infra: map[string]string{},
		rendered: map[string]string{}, applies: map[string]bool{}, spans: map[tracing.Context]bool{}}
	w.start(0)
	w.start(w.pick(4, "variant") / 3)
	check := func() bool {
		if w.panic != nil {
			panic(w.panic)
		}
		return w.broken == ""
	}
	for range w.pick(300, "steps") {
		if w.step(0); !check() {
			return w.broken
		}
	}
	w.settle()
	check()
	return w.broken
}

// fewHistories makes rapid look at a quarter of the histories that it looks at by default, but in
// `make test-all`: package simulate looks at more of them.
func fewHistories(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if testtools.All() || before != checks.DefValue {
		return
	}
	if err := checks.Value.Set("25"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) })
}

func TestEngine_InvariantsHoldUnderFaults(t *testing.T) {
	fewHistories(t)
	rapid.Check(t, func(r *rapid.T) {
		var broken string
		var thrown any
		// In a bubble, for the waits between attempts take no time there.
		synctest.Test(t, func(*testing.T) {
			defer func() { thrown = recover() }()
			broken = history(r, nil)
		})
		if thrown != nil {
			panic(thrown)
		}
		if broken != "" {
			r.Fatal(broken)
		}
	})
}
