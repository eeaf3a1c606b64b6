package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/terrapulse/terrapulse/internal/api"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/dynamic"
	"github.com/terrapulse/terrapulse/internal/launch"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/openmetrics"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/runner"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// leaseTTL is how long the lease and the claims of a process that was killed
// stand in the way of the next one. On one machine a renewal takes about a
// millisecond, so three chances within it are plenty.
const leaseTTL = 10 * time.Second

// consulPatience is how long start-up waits for an answer of Consul.
const consulPatience = 10 * time.Second

// engine is the whole of Terrapulse on one machine.
type engine struct {
	store      state.Store
	consul     *consul.Client
	launcher   *launch.Local
	reconciler *reconcile.Reconciler
	base       *atomic.Pointer[config.Config] // what the files say
	asked      chan struct{}                  // for a tick
	values     *dynamic.Evaluator
	metrics    *openmetrics.Metrics
	terraform  string // program and version
}

// control is what people ask the engine through.
func (e *engine) control() *reconcile.Control {
	return &reconcile.Control{
		Store: e.store, Poll: 100 * time.Millisecond, Now: time.Now,
		Base: func(context.Context) (*config.Config, error) { return e.base.Load(), nil },
		Wake: func(context.Context) {
			select {
			case e.asked <- struct{}{}:
			default: // it has been asked for one already
			}
		},
		Plan: e.plan,
	}
}

// plan starts a plan run in this process.
func (e *engine) plan(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error) {
	planner := reconcile.Planner{Store: e.store, Launcher: e.launcher, Config: e.base.Load(), Now: time.Now}
	return planner.Plan(ctx, task, draft, "the API")
}

// engineOptions are what the command line says beside the configuration.
type engineOptions struct {
	store    string    // URL; "" is the one of working_dir
	parallel int       // runs at a time; 0 is the default of workers
	reach    bool      // Consul must answer
	progress *progress // of the runs; nil if nobody watches
}

// newEngine puts the parts together. The exit code is -1 when all is well.
// Runs are interrupted when ctx ends.
func (a *app) newEngine(ctx context.Context, cfg *config.Config, log *slog.Logger, opts engineOptions) (*engine, int) {
	client, code := a.connect(cfg)
	if code >= 0 {
		return nil, code
	}
	binary := a.findTerraform(ctx, cfg, log)
	defer binary.stop()
	terraform.Sweep(log)
	if opts.reach {
		if code := a.reach(ctx, client); code >= 0 {
			return nil, code
		}
		warnAccess(ctx, client, log)
	} else {
		go warnAccess(ctx, client, log) // Consul may not answer yet
	}
	if cfg.HighAvailability != nil && opts.store != "" {
		log.Warn("-store is not used: with high_availability the state is kept in Consul", "store", opts.store)
	}
	store, err := engineStore(ctx, cfg, opts.store)
	if err != nil {
		return nil, a.unready(exitConfig, err)
	}
	found, err := binary.wait()
	if err != nil {
		store.Close()
		return nil, a.unready(exitTerraform, err)
	}
	log.Debug("Terraform found", "path", found.Path, "version", found.Version, "source", found.Source)

	owner, timing := lease.NewOwner(), timingOf(cfg)
	base := new(atomic.Pointer[config.Config])
	base.Store(cfg)
	values := a.values(log)
	keepToken(ctx, values, cfg, log)
	measured := openmetrics.New(openmetrics.Options{Version: version, Commit: api.Commit(), Store: store, Now: time.Now})
	said := new(outbox.Said)
	run := &runner.Runner{
		Said:   said,
		Config: base.Load, Store: store, Consul: client,
		Driver: tfdriver.New(tfdriver.Options{Terraform: found, Values: values, Log: log, Parallel: workers(opts.parallel)}),
		Owner:  owner, Claim: timing.Claim, Now: time.Now, Log: log, Verbose: cfg.Terraform.Log,
		Yields: cfg.HighAvailability != nil, Live: store.LiveOutput, Ended: measured.RunEnded,
	}
	if p := opts.progress; p != nil {
		run.Watch, run.Ended = p.watch, func(run state.Run) { p.end(run.Task) }
	}
	launcher := launch.NewLocal(ctx, workers(opts.parallel), log, run.Run)
	return &engine{
		store: store, consul: client, launcher: launcher, base: base, values: values, metrics: measured, terraform: found.Program() + " " + found.Version.String(), asked: make(chan struct{}, 1),
		reconciler: &reconcile.Reconciler{
			Config: cfg, Store: store, Consul: client, Launcher: launcher,
			Owner: owner, LeaseTTL: timing.LeaseTTL, Skew: timing.Skew, Witness: new(lease.Witness), OneClock: store.OneClock,
			Now: time.Now, Log: log, Said: said,
		},
	}, -1
}

// finding is Terraform being looked for, which takes the time of a process or
// of a download: meanwhile other things are set up.
type finding struct {
	stop   context.CancelFunc
	result chan error
	binary *terraform.Binary
}

func (a *app) findTerraform(ctx context.Context, cfg *config.Config, log *slog.Logger) *finding {
	ctx, stop := context.WithCancel(ctx)
	f := &finding{stop: stop, result: make(chan error, 1)}
	go func() {
		var err error
		f.binary, err = terraform.Find(ctx, cfg.Terraform, log)
		f.result <- err
	}()
	return f
}

// wait returns what was found.
func (f *finding) wait() (*terraform.Binary, error) {
	err := <-f.result
	return f.binary, err
}

// connect returns a client of Consul.
func (a *app) connect(cfg *config.Config) (*consul.Client, int) {
	client, err := consul.New(cfg.Consul)
	if err != nil {
		return nil, a.fail(exitConfig, fmt.Errorf("set up the connection to Consul: %w", err))
	}
	return client, -1
}

// reach makes sure that Consul answers and has a leader.
func (a *app) reach(ctx context.Context, client *consul.Client) int {
	ctx, cancel := context.WithTimeout(ctx, consulPatience)
	defer cancel()
	if err := client.Leader(ctx); err != nil {
		return a.unready(exitConfig, err)
	}
	return -1
}

// warnAccess logs what a person should know about the rights in Consul.
func warnAccess(ctx context.Context, client *consul.Client, log *slog.Logger) {
	if access := client.Access(ctx); access != "" {
		log.Warn(access)
	}
}

// warnSnapshot logs what a person should know about what the task reads.
func warnSnapshot(log *slog.Logger, task *config.Task, snap *consul.Snapshot) {
	if hidden := snap.Visibility.Hidden(); hidden != "" {
		log.Warn(hidden, "task", task.Name)
	}
	if warning := snap.PortWarning(); warning != "" {
		log.Warn(warning, "task", task.Name)
	}
}

// unready is fail for what could not be set up, unless that is because the
// program was told to stop.
func (a *app) unready(code int, err error) int {
	if a.ctx.Err() == nil {
		return a.fail(code, err)
	}
	fmt.Fprintln(a.stderr, "stopped before anything was run")
	return exitError
}

// workers is how many tasks run at a time if the flag says n.
func workers(n int) int {
	if n > 0 {
		return n
	}
	// Terraform mostly waits for providers, and a run that hangs must not take
	// the only place.
	return max(4, 2*runtime.GOMAXPROCS(0))
}
