// Package instance is one Terrapulse process on one machine or in a cluster: it
// builds the engine, serves the HTTP API, registers in Consul and reloads the
// task files.
package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/otlp"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/dynamic"
	"github.com/terrapulse/terrapulse/internal/driver/module"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/people/openmetrics"
	"github.com/terrapulse/terrapulse/internal/process/nomad"
	"github.com/terrapulse/terrapulse/internal/process/reload"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/spans"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// leaseTTL is how long the lease and the claims of a killed process block the
// next process. On one machine a renewal takes about a millisecond: three tries
// fit into it.
const leaseTTL = 10 * time.Second

// consulPatience is how long start-up waits for an answer of Consul.
const consulPatience = 10 * time.Second

// electionPatience is how long start-up waits while Consul answers and its servers have elected no
// leader, as when all of them boot.
const electionPatience = 30 * time.Second

// ErrTerraform is returned by New if no usable Terraform was found.
var ErrTerraform = errors.New("no usable Terraform")

// Options are the settings of an instance beside its configuration.
type Options struct {
	Version     string
	StoreURL    string // "" is the store that the configuration names
	Joins       bool   // without StoreURL, the store is that of the latest instance with these task files
	Parallel    int    // runs at a time; 0 is the default of Workers
	NeedsConsul bool   // New fails if Consul does not answer
	RunsHere    bool   // this process carries out its runs itself, also if the configuration has a nomad block

	// Run reads the task files with Read when Files says that they have changed
	// since ReadAt, when they were read for New.
	Files  *reload.Watcher
	Read   func() (*config.Config, error)
	ReadAt time.Time
	// AllowOrigin lets web pages of this origin use the API.
	AllowOrigin string
	// Watch returns where a run's output also goes, and Ended is called when a run
	// has ended. Both may be nil.
	Watch func(state.Run) io.Writer
	Ended func(state.Run)

	Log *slog.Logger

	launched *launched // nil for an instance that ticks
}

// Instance is one process that runs tasks.
type Instance struct {
	Options
	Reconciler *reconcile.Reconciler
	Launcher   *launch.Local

	runner  *runner.Runner
	shared  *launch.Shared // gives launches to other instances, and takes theirs; nil if there are none
	store   *stores.Store
	consul  *consul.Client
	base    *atomic.Pointer[config.Config] // what the files say
	asked   chan struct{}                  // for a tick
	values  *dynamic.Evaluator
	metrics *openmetrics.Metrics
	program string                                                           // that runs modules, with its version
	output  func(context.Context, *config.Config, state.Run) (string, error) // of a run in another system; may be nil
	gates   atomic.Pointer[map[string]state.Gate]                            // as this process has seen them

	traces *otlp.Exporter // nil if no traces are exported
	spans  spans.Recorder // the same

	nomad    *nomad.Launcher // nil if this process carries out its runs itself
	jobEnded chan struct{}   // receives when a Nomad job has ended
}

// New builds an instance. Its runs are interrupted when ctx ends.
func New(ctx context.Context, cfg *config.Config, o Options) (*Instance, error) {
	search, stop := o.carry(ctx, cfg)
	defer stop()
	terraformcli.Sweep(o.Log)
	client, err := Connect(ctx, cfg, o.NeedsConsul)
	if err != nil {
		return nil, err
	}
	if o.NeedsConsul { // this process ends after its runs
		client.KeepReadings()
		WarnAccess(ctx, client, o.Log)
	} else {
		go WarnAccess(ctx, client, o.Log) // Consul may not answer yet
	}
	store, err := openStore(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	store.Store = &state.Noting{Store: store.Store, Now: time.Now}
	carrier, err := search()
	switch {
	case err == nil:
	case o.launched == nil:
		store.Close()
		return nil, errors.Join(ErrTerraform, err)
	default:
		o.launched.unable, carrier.Values = fmt.Errorf("%w: %w", ErrTerraform, err), Values(ctx, o.Log)
	}

	owner, timing := lease.NewOwner(), timingOf(cfg)
	i := &Instance{
		Options: o, store: store, consul: client, base: new(atomic.Pointer[config.Config]), asked: make(chan struct{}, 1),
		values:  carrier.Values,
		program: carrier.Program,
	}
	i.base.Store(cfg)
	var sampler *tracing.Sampler
	i.traces, sampler = otlp.FromEnviron(o.Version, o.Log)
	i.spans = spans.To(i.traces.Export())
	measures := openmetrics.Options{Version: o.Version, Commit: buildinfo.Commit(), URL: cfg.API.URL, Store: store, Now: time.Now}
	if cfg.HighAvailability != nil {
		measures.Room = func() (parallel, room int) { return i.Launcher.Parallel(), i.Launcher.Room() }
	}
	source := new(overlay.Source)
	measures.Tasks = func(ctx context.Context, change string) ([]config.Task, error) {
		effective, err := source.At(ctx, store, i.base.Load(), change)
		if err != nil {
			return nil, err
		}
		return effective.Config.Tasks, nil
	}
	i.metrics = openmetrics.New(measures)
	sinks := Sinks(i.values, i.base.Load)
	sinks.Store = store
	i.keepToken(ctx, cfg)
	said := new(outbox.Said)
	run := &runner.Runner{
		Said:   said,
		Config: i.base.Load, Source: source, Store: store, Consul: client,
		Driver: carrier.Driver, Suppose: runner.Suppose(client),
		Owner: owner, Claim: timing.Claim, Now: time.Now, Log: o.Log,
		Yields: cfg.HighAvailability != nil, Live: store.LiveOutput, Watch: o.Watch, Ended: i.metrics.RunEnded, Spans: i.spans, Environ: terraformcli.Environ, Verify: verify.Run,
	}
	if o.Ended != nil {
		run.Ended = o.Ended
	}
	i.output = carrier.Output
	if cfg.HighAvailability != nil {
		run.Instance = cfg.ID
	}
	i.runner, i.Launcher = run, launch.NewLocal(ctx, carrier.Parallel, o.Log, o.carryOut(run))
	i.Reconciler = &reconcile.Reconciler{
		Config: cfg, Source: source, Store: store, Consul: client, Launcher: i.Launcher, Remote: carrier.Remote,
		Owner: owner, LeaseTTL: timing.LeaseTTL, Skew: timing.Skew, Witness: new(lease.Witness), OneClock: store.OneClock,
		Now: time.Now, Log: o.Log, Said: said,
		Sinks:  func() []outbox.Sink { return sinks.Sinks(i.base.Load().Notify) },
		Secret: module.Secret, ModuleChanged: terraformcli.ModuleChanged, Traces: sampler, Spans: i.spans,
		Gates:   func(gates map[string]state.Gate) { i.gates.Store(&gates) },
		Backlog: i.metrics.Backlog,
	}
	if cfg.HighAvailability != nil && carrier.Remote == nil && !o.dispatches(cfg) { // steps of runs in another system are short
		i.shared = launch.NewShared(i.Launcher, store, cfg.ID)
		i.shared.Skew, i.shared.Now, i.shared.Log = timing.Skew, time.Now, o.Log
	}
	if err := i.dispatch(cfg); err != nil {
		store.Close()
		return nil, err
	}
	return i, nil
}

// Sinks returns the sinks of notify blocks, whose templates are evaluated with the
// configuration in force.
func Sinks(values *dynamic.Evaluator, cfg func() *config.Config) *notify.Set {
	return &notify.Set{Evaluate: func(ctx context.Context, key, text string) (string, error) { return values.Text(ctx, cfg(), key, text) }}
}

// Close sends the spans that are left, and closes the store.
func (i *Instance) Close() error {
	i.traces.Close()
	return i.store.Close()
}

// Control returns what changes tasks and requests runs.
func (i *Instance) Control() *control.Control {
	return &control.Control{
		Store: i.store, Poll: 100 * time.Millisecond, Now: time.Now,
		Base:   func(context.Context) (*config.Config, error) { return i.base.Load(), nil },
		Source: i.Reconciler.Source,
		Wake: func(context.Context) {
			select {
			case i.asked <- struct{}{}:
			default: // a tick is requested already
			}
		},
		Plan: i.plan,
		PlanReplacing: func(ctx context.Context, definition json.RawMessage) (state.PlannedRun, error) {
			return i.planner().PlanReplacing(ctx, definition, "the API")
		},
		Spans:        i.spans,
		WhatIf:       i.whatIf,
		RemoteOutput: i.output,
	}
}

// seen is what this process has seen of Consul's gates; nil if it has led no tick.
func (i *Instance) seen() map[string]state.Gate {
	if gates := i.gates.Load(); gates != nil {
		return *gates
	}
	return nil
}

// plan starts a plan run in this process.
func (i *Instance) plan(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error) {
	return i.planner().Plan(ctx, task, draft, "the API")
}

// planner starts plan runs.
func (i *Instance) planner() reconcile.Planner {
	return reconcile.Planner{Store: i.store, Launcher: i.Reconciler.Launcher, Config: i.base.Load(), Source: i.Reconciler.Source, Now: time.Now}
}

// whatIf starts the plan runs of a what-if in this process.
func (i *Instance) whatIf(ctx context.Context, w condition.WhatIf, tasks []string, by string) (state.Question, error) {
	planner := reconcile.Planner{Store: i.store, Launcher: i.Reconciler.Launcher, Config: i.base.Load(), Source: i.Reconciler.Source, Now: time.Now, Consul: i.consul}
	q, _, err := planner.WhatIf(ctx, w, tasks, reconcile.NewQuestion(), by)
	return q, err
}

// Connect returns a client of the configured Consul. If Consul is needed, the
// error is also that it does not answer, or has no leader after electionPatience.
func Connect(ctx context.Context, cfg *config.Config, needed bool) (*consul.Client, error) {
	client, err := consul.New(cfg.Consul)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to Consul: %w", err)
	}
	if needed {
		err = awaitLeader(ctx, client.Leader)
	}
	return client, err
}

// awaitLeader waits until leader is not consul.ErrNoLeader any more.
func awaitLeader(ctx context.Context, leader func(context.Context) error) error {
	for until := time.Now().Add(electionPatience); ; {
		asking, cancel := context.WithTimeout(ctx, consulPatience)
		err := leader(asking)
		cancel()
		if !errors.Is(err, consul.ErrNoLeader) || time.Now().After(until) || !delay.For(ctx, time.Second) {
			return err
		}
	}
}

// WarnAccess logs which rights in Consul are missing.
func WarnAccess(ctx context.Context, client *consul.Client, log *slog.Logger) {
	if access := client.Access(ctx); access != "" {
		log.Warn(access)
	}
}

// LogWarnings logs the warnings of a configuration, except those that an earlier
// configuration had, on whichever line.
func LogWarnings(log *slog.Logger, cfg *config.Config, earlier ...config.Diagnostic) {
	type finding struct{ key, problem string }
	known := map[finding]bool{}
	for _, w := range earlier {
		known[finding{w.Key, w.Problem}] = true
	}
	for _, w := range cfg.Warnings {
		if !known[finding{w.Key, w.Problem}] {
			log.Warn("configuration", "finding", w.String())
		}
	}
}

// Workers returns how many tasks run at a time if -parallel is n.
func Workers(n int) int {
	if n > 0 {
		return n
	}
	// Terraform mostly waits for providers, and a run that hangs must not take
	// the only place.
	return max(4, 2*runtime.GOMAXPROCS(0))
}
