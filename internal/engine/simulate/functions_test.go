package simulate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/inforce"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	s3 "github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// How functions/reconcile runs the engine.
const (
	keptRemoved     = 7 * 24 * time.Hour // keep_removed of all bundles
	leaseTTL        = 20 * time.Second
	skew            = 30 * time.Second
	claim           = time.Minute
	invocationLimit = time.Minute
	reserve         = 3 * time.Second
	launchReserve   = 10 * time.Second
	windowFor       = 40 * time.Second
)

// bundle is a configuration.
type bundle struct {
	digest string
	files  string // digest of the configuration
	config *config.Config
}

// bundles are those that may be pushed: a task with another module, tasks
// that come and go, a buffer period, a schedule.
var bundles = func() []bundle {
	task := func(name string) config.Task {
		return config.Task{Name: name, Enabled: true,
			Condition: config.Condition{Spec: condition.Services{{Names: []string{name}}}}}
	}
	other, buffered, scheduled := task("web"), task("db"), task("report")
	other.Module = "./other"
	buffered.BufferPeriod = config.BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 20 * time.Second}
	scheduled.ModuleInputs = []condition.Spec{scheduled.Condition.Spec}
	scheduled.Condition = config.Condition{Spec: condition.Schedule{Cron: "*/5 * * * *"}}
	all := []bundle{
		{digest: "b0", config: &config.Config{KeepRemoved: keptRemoved, Tasks: []config.Task{task("web"), task("api")}}},
		{digest: "b1", config: &config.Config{KeepRemoved: keptRemoved, Tasks: []config.Task{other, task("api"), buffered}}},
		{digest: "b2", config: &config.Config{KeepRemoved: keptRemoved, Tasks: []config.Task{task("web"), scheduled}}},
	}
	all = append(all, withRules(all)...)
	all = append(all, forRemoval()...)
	all = append(all, slices.Concat(forRemote(all), forDocuments(all))...)
	all = append(all, forCrossings()...)
	all = append(all, slices.Concat(forThird(all[:withRemote]), forOrder(all[:withRemote]), forRemoteOrder(forOrder(all[:withRemote])))...)
	all = append(all, forFleets()...)
	shrinking := forShrinking(all[1])
	all = append(all, slices.Concat(shrinking, forRemote(shrinking))...)
	all = append(all, forPartly(task))
	for i := range all {
		all[i].files = all[i].config.Digest()
	}
	return all
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
	unread   map[string]bool   // tasks that could not be read in the latest tick
	seen     map[string]string // what the latest tick was shown, by task
	paused   int               // the pause that it read last; 0 if nothing was paused
	requests string            // the task that a person has requested a run of with this tick
	consul   *state.Identity   // the Consul that it identified last
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
	bundles  *inforce.Follower
	deployed deployment      // that it is of
	loaded   *inforce.Loaded // what engine works on
	engine   *reconcile.Reconciler
	lifetime context.Context

	far   *far          // in histories with HCP Terraform
	local *launch.Local // the same: runs of this invocation
}

// invoke has a function tick: one that is idle or, where there is none or by
// chance, a new one.
func (w *world) invoke(opts reconcile.TickOptions) *act {
	a := &act{}
	w.on(a, func(ctx context.Context, f *function) { f.tick(ctx, a, opts) })
	return a
}

// manual has someone ask for a run, or a plan of a task or of a draft.
func (w *world) manual() {
	a := &act{inspects: w.rng.IntN(3) == 0}
	draft := w.weather.people > 0 && w.rng.IntN(3) == 0
	definition := w.makes()[w.rng.IntN(len(made))]
	name := w.someTask()
	w.on(a, func(ctx context.Context, f *function) {
		f.bundles.Forget()
		if a.err = f.prepare(ctx); a.err != nil {
			return
		}
		f.engine.Store = summary.Keep(view{process: f.process, act: a})
		if a.inspects && draft {
			_, a.err = f.engine.Planner().Start(ctx, nil, definition, "a person")
			return
		}
		if _, there := f.loaded.Config.Task(name); !there {
			return
		}
		if a.inspects {
			_, a.err = f.engine.Planner().Start(ctx, []string{name}, nil, "a person")
			return
		}
		a.requests = name
		for {
			f.mu.Lock()
			f.judge.crossings.asked[name] = true
			delete(f.judge.crossings.suspects, name)
			f.mu.Unlock()
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
		if !other.busy && other.deployed == w.deployed && !w.chance(200) {
			f = other
			break
		}
	}
	if f == nil {
		p, ctx := w.process("function")
		f = &function{process: p, lifetime: ctx, max: 1 + w.rng.IntN(3) + w.fleetRoom(), windowed: w.rng.IntN(5) == 0, deployed: w.deployed}
		f.bundles = &inforce.Follower{Source: source{p}, Store: summary.Keep(view{process: p}), Now: p.now}
		w.functions = append(w.functions, f)
	}
	w.note("%s is invoked", f.name)
	f.busy, f.began = true, time.Now()
	go func() {
		ctx, stop := context.WithTimeout(f.lifetime, invocationLimit-reserve)
		defer stop()
		if f.remote {
			f.carriesOut(ctx)
		}
		do(ctx, f)
		if f.remote {
			f.rest(ctx, a)
		}
		_, _ = ask(f.lifetime, f.process, terraform, "answers", func() (any, error) {
			w.note("    idle %v, %d launched, %v", a.report.Idle, len(a.report.Launches), a.err)
			f.busy = false
			return nil, nil
		})
	}()
}

// tick ticks with the bundle that is to be in force.
func (f *function) tick(ctx context.Context, a *act, opts reconcile.TickOptions) {
	for {
		if a.err = f.prepare(ctx); a.err != nil {
			return
		}
		opts.Replaces = f.bundles.Replaces
		a.unread = map[string]bool{}
		f.engine.Windowed = f.windowed && len(opts.Force) == 0
		f.engine.Store, f.engine.Consul = summary.Keep(view{process: f.process, act: a}), eyes{f.process, a}
		opts.Until = f.began.Add(f.skew + invocationLimit - launchReserve)
		if f.engine.Windowed {
			f.engine.Window(ctx, f.watch, opts, f.now().Add(windowFor), func(report reconcile.Report, err error) bool {
				a.report, a.err, a.unread = report, err, map[string]bool{}
				return err == nil
			})
		} else {
			a.report, a.err = f.engine.Tick(ctx, opts)
		}
		if !f.bundles.IsOther(a.err) {
			return
		}
	}
}

// watch watches Consul's gates.
func (f *function) watch(ctx context.Context, gates consul.GateSet, _ consul.Marks) reconcile.Watch {
	w := watch{eyes{process: f.process}, ctx, gates, make(chan struct{}, 1), consul.Marks{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consul.watches = append(f.consul.watches, w.moved)
	return w
}

// prepare makes an engine for the bundle to work with, if that is another one.
func (f *function) prepare(ctx context.Context) error {
	if err := f.bundles.Refresh(ctx, nothing); err != nil {
		return err
	}
	if b := f.bundles.Loaded; b != f.loaded {
		engine := *engines[indexOf(b.Digest)]
		engine.Linger, engine.Definition = f.deployed.linger, f.deployed.revision
		engine.BeginsPaused = f.judge.pauses.begins
		engine.Launcher, engine.Owner, engine.MaxLaunches, engine.Now = launcher{f.process, f.deployed.revision}, f.name, f.max, f.now
		engine.Refused, engine.Sinks = b.Refused, func() []outbox.Sink { return []outbox.Sink{sink{f.process}} }
		f.loaded, f.engine = b, &engine
	}
	if f.remote {
		f.engine.Launcher, f.engine.Remote = f.local, f.far
	}
	return nil
}

func indexOf(digest string) int {
	return slices.IndexFunc(bundles, func(b bundle) bool { return b.digest == digest })
}

var _ inforce.Source = source{}

// source is the bucket as a function sees it.
type source struct{ *process }

// Current implements inforce.Source.
func (s source) Current(ctx context.Context) (s3.Pointer, error) {
	return ask(ctx, s.process, bucket, "read the pointer", func() (s3.Pointer, error) {
		if s.pointerGone {
			return s3.Pointer{}, nil
		}
		return s3.Pointer{Digest: bundles[s.pointer].digest}, nil
	})
}

// Load implements inforce.Source.
func (s source) Load(ctx context.Context, digest string) (*config.Config, error) {
	return ask(ctx, s.process, bucket, "read bundle "+digest, func() (*config.Config, error) {
		return bundles[indexOf(digest)].config, nil
	})
}

// unsettled says what is not as it should be in the end.
func (w *world) unsettled() string {
	b := bundles[w.pointer]
	rec := w.judge.reconcile()
	if w.home == inAWS && rec.Bundle != b.digest {
		return "bundle " + rec.Bundle + " is in force, not " + b.digest
	}
	cfg := w.judge.configuration(b.digest)
	for i := range cfg.Tasks {
		if why := w.judge.unsettled(w, &cfg.Tasks[i], cfg); why != "" {
			return why
		}
	}
	if why := w.judge.undestroyed(w, cfg); why != "" {
		return why
	}
	if why := w.judge.unendedThere(w); why != "" {
		return why
	}
	if id := w.judge.undelivered(); id != "" {
		return "event " + id + " is not delivered"
	}
	return ""
}

var _ reconcile.Launcher = launcher{}

// launcher is ECS as a function sees it.
type launcher struct {
	*process
	revision string // of the task definition
}

// Start implements reconcile.Launcher.
func (l launcher) Start(ctx context.Context, launch state.Launch) error {
	_, err := ask(ctx, l.process, ecsService, "start "+launch.ID, func() (any, error) {
		return nil, l.ecs.runTask(l.world, launch.ID, l.revision)
	})
	return err
}

// Status implements reconcile.Launcher.
func (l launcher) Status(ctx context.Context, launches []string) (map[string]reconcile.LaunchStatus, error) {
	return ask(ctx, l.process, ecsService, "status", func() (map[string]reconcile.LaunchStatus, error) {
		return l.ecs.status(launches), nil
	})
}
