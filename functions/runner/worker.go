package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/logging"
	"github.com/terrapulse/terrapulse/internal/base/otlp"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

const (
	// claimFor is how long a claim is valid without renewal. It is longer than a failover of
	// DynamoDB. Dead containers are noticed earlier, by ECS's events.
	claimFor = time.Minute

	// patience is how long an outcome is retried if the table does not accept it. After SIGTERM,
	// ECS allows 120 s, of which Terraform may take 60 to end, and 70 in all until its state is
	// saved.
	patience = 45 * time.Second

	// liveOutput is the interval at which the output of a run under way is written to the table. A
	// write costs a unit per KB, and has at most 16 KB.
	liveOutput = 5 * time.Second
)

// worker executes the launch that its container was started for, and others while it lingers.
type worker struct {
	runner    *runner.Runner // with what claims and outcomes need; work adds the rest
	bundle    func(ctx context.Context, digest string) (*config.Config, error)
	connect   func(cfg config.Consul) (runner.Consul, error)
	driver    func(ctx context.Context, cfg *config.Config) (driver.Driver, error)
	providers providers
	parallel  int // runs at a time
	metrics   *metrics.Writer
	traces    *otlp.Exporter // nil if no traces are exported
	log       *slog.Logger

	lingering *linger.Runner                  // waits for more launches; nil if it is not known which container this is
	proceed   func(ctx context.Context) error // invokes functions/reconcile for one tick; may be nil

	launch   string       // that it executes, or has executed last
	prepared string       // digest of the bundle that the runner is prepared for
	well     atomic.Int32 // runs of the launch that ended well
}

// work executes the launch that the container was started for, and those that it takes while it
// lingers. It returns an error if it could not execute a launch at all, or if the outcome of a run
// is not in the table; failed tasks are not an error. When ctx ends, it interrupts the driver and
// waits for it. Runs that have not begun are then found lost, and decided again.
func (w *worker) work(ctx context.Context, id string) error {
	began := w.runner.Now()
	launch, err := state.Read[state.Launch](ctx, w.runner.Store, state.LaunchKey(id))
	if err != nil {
		return fmt.Errorf("read launch %s: %w", id, err)
	}
	if !launch.Exists() {
		return fmt.Errorf("the table has no launch %s: containers are started by the reconcile function, which writes the launch first; "+
			"start runs by hand with `terrapulse invoke`", id)
	}
	launch.Data.Begun = began
	err = w.execute(ctx, launch.Data)
	for next, more := launch.Data, true; err == nil; {
		if next, more = w.linger(ctx, next, began); !more {
			break
		}
		err = w.execute(ctx, next)
	}
	return err
}

// execute executes the runs of one launch.
func (w *worker) execute(ctx context.Context, launch state.Launch) error {
	id := launch.ID
	w.launch = id
	w.log.Info("launch begun", "launch", id, "fence", launch.Fence, "bundle", launch.Bundle, "runs", len(launch.Runs), "kind", launch.Kind)
	w.well.Store(0)
	r := w.runner
	r.Source, r.Claim, r.Yields, r.Patience, r.Live, r.Ended = new(overlay.Source), claimFor, true, patience, liveOutput, w.measure
	carryOut := r.Run
	unable := w.prepare(ctx, launch)
	if unable != nil {
		carryOut = func(ctx context.Context, launch state.Launch, run state.PlannedRun) error {
			return r.Refuse(ctx, launch, run, unable)
		}
	}
	without, left := w.each(ctx, launch, carryOut)
	if left > 0 {
		w.log.Warn("the container is stopping: some runs were not started", "launch", id, "runs", left)
	}
	switch {
	case unable != nil && ctx.Err() == nil:
		return unable
	case without > 0:
		return fmt.Errorf("%d of %d runs of launch %s have no outcome in the table", without, len(launch.Runs), id)
	}
	w.log.Info("launch ended", "launch", id)
	return nil
}

// each executes the runs, several in parallel, and counts the runs without an outcome and those
// that never began.
func (w *worker) each(ctx context.Context, launch state.Launch, carryOut func(context.Context, state.Launch, state.PlannedRun) error) (without, left int) {
	var group sync.WaitGroup
	var failed, unbegun atomic.Int32
	slots := make(slots, w.parallel)
	for _, run := range launch.Runs {
		ctx, giveBack := slots.take(ctx)
		group.Go(func() {
			defer giveBack()
			if ctx.Err() != nil {
				unbegun.Add(1)
				return
			}
			if err := carryOut(ctx, launch, run); err != nil {
				failed.Add(1)
				w.log.Error("outcome of a run not recorded", "task", run.Task, "run", run.ID, "fence", launch.Fence, "error", err)
			}
		})
	}
	group.Wait()
	return int(failed.Load()), int(unbegun.Load())
}

// prepare gives the runner what it needs for the runs of a launch.
func (w *worker) prepare(ctx context.Context, launch state.Launch) error {
	r := w.runner
	if launch.Bundle == "" {
		return fmt.Errorf("launch %s has no bundle: it was decided by an instance that reads the configuration from files", launch.ID)
	}
	if w.prepared == launch.Bundle {
		return nil
	}
	cfg, err := w.bundle(ctx, launch.Bundle)
	if err != nil {
		return fmt.Errorf("get the task files of the launch: %w", err)
	}
	logging.Obey(cfg.LogLevel)
	client, err := w.connect(cfg.Consul)
	if err != nil {
		return fmt.Errorf("set up the connection to Consul: %w", err)
	}
	d, err := w.driver(ctx, cfg)
	if err != nil {
		return err
	}
	r.Driver = slotted{d}
	if c, ok := client.(*consul.Client); ok { // else a test's
		r.Suppose = runner.Suppose(c)
	}
	r.Config, r.Consul, r.Bundle = func() *config.Config { return cfg }, client, w.bundle
	w.prepared = launch.Bundle
	return nil
}

// measure counts an ended run, and writes its metrics.
func (w *worker) measure(run state.Run) {
	switch run.State {
	case state.RunSucceeded, state.RunSuperseded, state.RunWaiting:
		w.well.Add(1)
	}
	if err := w.metrics.Write(run.Ended, metrics.OfRun(run)); err != nil {
		w.log.Warn("metrics not written", "error", err)
	}
}
