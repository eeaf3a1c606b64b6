package simulate

import (
	"context"
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
)

// How functions/reconcile runs the engine.
const (
	leaseTTL        = 20 * time.Second
	skew            = 30 * time.Second
	claim           = time.Minute
	invocationLimit = time.Minute
	reserve         = 3 * time.Second
	launchReserve   = 10 * time.Second
	pointerEvery    = 5 * time.Minute
	windowFor       = 40 * time.Second
)

// bundle is a configuration.
type bundle struct {
	digest string
	config *config.Config
}

// bundles are those that may be pushed: a task with another module, tasks
// that come and go, a buffer period, a schedule.
var bundles = func() []bundle {
	task := func(name string) config.Task {
		return config.Task{Name: name, Enabled: true,
			Condition: config.Condition{Kind: config.KindServices, Services: []config.Services{{Names: []string{name}}}}}
	}
	other, buffered, scheduled := task("web"), task("db"), task("report")
	other.Module = "./other"
	buffered.BufferPeriod = config.BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 20 * time.Second}
	scheduled.ModuleInputs = []config.Input{{Kind: config.KindServices, Services: scheduled.Condition.Services}}
	scheduled.Condition = config.Condition{Kind: config.KindSchedule, Schedule: &config.Schedule{Cron: "*/5 * * * *"}}
	return []bundle{
		{"b0", &config.Config{Tasks: []config.Task{task("web"), task("api")}}},
		{"b1", &config.Config{Tasks: []config.Task{other, task("api"), buffered}}},
		{"b2", &config.Config{Tasks: []config.Task{task("web"), scheduled}}},
	}
}()

// engines are copied for each function that reads a bundle: to make one takes
// a tenth of a history's time, for the digests of its configuration.
var engines = func() []*reconcile.Reconciler {
	var all []*reconcile.Reconciler
	for _, b := range bundles {
		r := &reconcile.Reconciler{Config: b.config, Bundle: b.digest, LeaseTTL: leaseTTL, Skew: skew, Log: nothing, Now: time.Now}
		if err := r.Prepare(context.Background(), ""); err != nil { // makes the digests
			panic(err)
		}
		all = append(all, r)
	}
	return all
}()

// act is one invocation.
type act struct {
	inspects bool
	unread   map[string]bool // tasks that could not be read in the latest tick
	report   reconcile.Report
	err      error
}

// function is one process of functions/reconcile. It answers one invocation
// after another.
type function struct {
	*process
	busy     bool
	began    time.Time
	max      int  // launches
	windowed bool // stays and waits on the gates
	bundle   *bundle
	looked   time.Time
	engine   *reconcile.Reconciler
	lifetime context.Context
}

// invoke has a function tick: one that is idle or, where there is none or by
// chance, a new one.
func (w *world) invoke(opts reconcile.TickOptions) *act {
	a := &act{}
	w.on(a, func(ctx context.Context, f *function) { f.tick(ctx, a, opts) })
	return a
}

// manual has someone ask for a run, or an inspection of a task or of a draft.
func (w *world) manual() {
	a := &act{inspects: w.rng.IntN(3) == 0}
	draft := w.weather.people > 0 && w.rng.IntN(3) == 0
	definition := made[w.rng.IntN(len(made))]
	name := services[w.rng.IntN(len(services))]
	w.on(a, func(ctx context.Context, f *function) {
		f.looked = time.Time{}
		if a.err = f.look(ctx); a.err != nil {
			return
		}
		f.engine.Store = view{f.process, a}
		if a.inspects && draft {
			_, a.err = f.engine.Inspections().StartDraft(ctx, definition, "a person")
			return
		}
		if _, there := f.bundle.config.Task(name); !there {
			return
		}
		if a.inspects {
			_, a.err = f.engine.Inspections().Start(ctx, []string{name}, "a person")
			return
		}
		for {
			f.tick(ctx, a, reconcile.TickOptions{Force: map[string]string{name: "a person"}})
			if held := new(lease.HeldError); !errors.As(a.err, &held) || time.Since(f.began) > invocationLimit-launchReserve {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	})
}

func (w *world) on(a *act, do func(context.Context, *function)) {
	var f *function
	for _, other := range w.functions {
		if !other.busy && !w.chance(200) {
			f = other
			break
		}
	}
	if f == nil {
		p, ctx := w.process("function")
		f = &function{process: p, lifetime: ctx, max: 1 + w.rng.IntN(3), windowed: w.rng.IntN(5) == 0}
		w.functions = append(w.functions, f)
	}
	w.note("%s is invoked", f.name)
	f.busy, f.began = true, time.Now()
	go func() {
		ctx, stop := context.WithTimeout(f.lifetime, invocationLimit-reserve)
		defer stop()
		do(ctx, f)
		_, _ = ask(f.lifetime, f.process, terraform, "answers", func() (any, error) {
			w.note("    idle %v, %d launched, %v", a.report.Idle, len(a.report.Launches), a.err)
			f.busy = false
			return nil, nil
		})
	}()
}

// tick ticks with the bundle that is to be in force.
func (f *function) tick(ctx context.Context, a *act, opts reconcile.TickOptions) {
	if f.now().Sub(f.looked) >= pointerEvery {
		f.looked = time.Time{}
	}
	for {
		if a.err = f.look(ctx); a.err != nil {
			return
		}
		a.unread = map[string]bool{}
		f.engine.Windowed = f.windowed && len(opts.Force) == 0
		f.engine.Store, f.engine.Consul = view{f.process, a}, eyes{f.process, a}
		opts.Until = f.began.Add(f.skew + invocationLimit - launchReserve)
		if f.engine.Windowed {
			f.engine.Window(ctx, f.watch, opts, f.now().Add(windowFor), func(report reconcile.Report, err error) bool {
				a.report, a.err, a.unread = report, err, map[string]bool{}
				return err == nil
			})
		} else {
			a.report, a.err = f.engine.Tick(ctx, opts)
		}
		other := new(reconcile.OtherBundleError)
		if !errors.As(a.err, &other) || opts.Replaces == other.Bundle {
			return
		}
		f.looked, opts.Replaces = time.Time{}, other.Bundle
	}
}

// watch watches Consul's gates.
func (f *function) watch(ctx context.Context, gates consul.GateSet, _ consul.Marks) reconcile.Watch {
	w := watch{eyes{process: f.process}, ctx, gates, make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consul.watches = append(f.consul.watches, w.moved)
	return w
}

// look reads the bundle's pointer, if it is time to.
func (f *function) look(ctx context.Context) error {
	if !f.looked.IsZero() {
		return nil
	}
	n, err := ask(ctx, f.process, bucket, "read the pointer", func() (int, error) { return f.pointer, nil })
	if err != nil {
		if f.bundle != nil {
			f.looked = f.now()
			return nil
		}
		return err
	}
	f.looked = f.now()
	if f.bundle == &bundles[n] {
		return nil
	}
	f.bundle = &bundles[n]
	engine := *engines[n]
	engine.Launcher, engine.Owner, engine.MaxLaunches, engine.Now = launcher{f.process}, f.name, f.max, f.now
	f.engine = &engine
	return nil
}

// unsettled says what is not as it should be in the end.
func (w *world) unsettled() string {
	b := bundles[w.pointer]
	rec := w.judge.reconcile()
	if rec.Bundle != b.digest {
		return "bundle " + rec.Bundle + " is in force, not " + b.digest
	}
	cfg := w.judge.configuration(b.digest)
	for i := range cfg.Tasks {
		if why := w.judge.unsettled(w, &cfg.Tasks[i], cfg); why != "" {
			return why
		}
	}
	return ""
}

var _ reconcile.Launcher = launcher{}

// launcher is ECS as a function sees it.
type launcher struct{ *process }

// Start implements reconcile.Launcher.
func (l launcher) Start(ctx context.Context, launch state.Launch) error {
	_, err := ask(ctx, l.process, ecsService, "start "+launch.ID, func() (any, error) {
		return nil, l.ecs.runTask(l.world, launch.ID)
	})
	return err
}

// Status implements reconcile.Launcher.
func (l launcher) Status(ctx context.Context, launches []string) (map[string]reconcile.LaunchStatus, error) {
	return ask(ctx, l.process, ecsService, "status", func() (map[string]reconcile.LaunchStatus, error) {
		return l.ecs.status(launches), nil
	})
}
