package simulate

import (
	"context"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In histories with an order, requests come between what a tick reads and what it writes: some by chance, and at the
// end of some histories in each tick.
const (
	// requestsEvery says at the end of which histories each tick meets a request: those of every eighth seed.
	requestsEvery, requestsFirst = 8, 2

	// meetsRequest is how many of a thousand reads of Consul meet a request before.
	meetsRequest = 100
)

// direct is the table as somebody sees it whose requests have their effect at once.
type direct struct {
	view
	shelf
}

// Get implements state.Store.
func (d direct) Get(ctx context.Context, key string) (state.Record, error) {
	return d.shelf.Get(ctx, key)
}

// List implements state.Store.
func (d direct) List(ctx context.Context, prefix string) ([]state.Record, error) {
	return d.shelf.List(ctx, prefix)
}

// Apply implements state.Store.
func (d direct) Apply(_ context.Context, changes ...state.Change) ([]state.Record, error) {
	written, err := d.view.memory.apply(changes)
	if err == nil {
		d.judge.written(d.view, nil, changes)
	}
	return written, err
}

// Close implements state.Store.
func (d direct) Close() error { return nil }

// meets has a request come while a tick reads Consul.
func (w *world) meets() {
	switch {
	case !w.ordered:
	case w.requested != nil:
		w.at("requested", w.requested)
	case w.chance(meetsRequest):
		w.at("asked", w.wish())
	}
}

// at has what somebody requests happen at once.
func (w *world) at(how string, it *wish) {
	p, ctx := w.process("api")
	defer p.stop()
	w.note("%s is %s: %s %s, trial %v", p.name, how, it.what, it.task, it.trial)
	c := &control.Control{Store: summary.Keep(direct{view{process: p}, shelf{&w.memory}}), Now: p.now,
		Base: func(context.Context) (*config.Config, error) { return bundles[w.pointer].config, nil }}
	err := it.do(ctx, c, it)
	w.note("    %v", err)
	if p.dead = true; err == nil {
		w.judge.answered(w, p, it)
	}
}

// requestEach has a request come in each tick, once all is applied: a change is applied nevertheless.
func (w *world) requestEach(seed uint64) {
	if seed%requestsEvery != requestsFirst || !w.ordered || w.remote || w.ruled || w.absent || w.judge.pauses.some {
		return
	}
	task, enabled := "report", false
	w.requested = &wish{what: "tick", do: func(ctx context.Context, c *control.Control, _ *wish) error {
		if err := c.Tick(ctx); err != nil {
			return err
		}
		enabled = !enabled
		_, err := c.SetEnabled(ctx, task, enabled, control.ChangeOptions{By: "a program"})
		return err
	}}
	defer func() { w.requested = nil }()
	w.note("a request comes in each tick")
	w.consul.set(w, "web")
	w.consul.set(w, "api")
	cfg := w.judge.configuration(bundles[w.pointer].digest)
	for began := time.Now(); ; w.ticks(30 * time.Second) {
		late := ""
		for i := range cfg.Tasks {
			if t := &cfg.Tasks[i]; late == "" && t.Name != task {
				late = w.judge.unsettled(w, t, cfg)
			}
		}
		switch {
		case late == "" || w.broken != "":
			return
		case time.Since(began) > settleWithin:
			w.violated("requests in each tick delay no other task: %s later %s", settleWithin, late)
			return
		}
	}
}
