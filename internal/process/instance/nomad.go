package instance

import (
	"context"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/process/nomad"
	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// dispatches reports whether the runs of a configuration are dispatched as Nomad jobs.
func (o Options) dispatches(cfg *config.Config) bool { return cfg.Nomad != nil && !o.RunsHere }

// carry is Carry where this process carries out runs. An instance that dispatches them needs no
// Terraform.
func (o Options) carry(ctx context.Context, cfg *config.Config) (wait func() (Carrier, error), stop func()) {
	if !o.dispatches(cfg) {
		return Carry(ctx, cfg, o.Parallel, o.Log)
	}
	c := Carrier{Values: Values(ctx, o.Log), Parallel: 1, Program: "Nomad"}
	return func() (Carrier, error) { return c, nil }, func() {}
}

// dispatch makes the instance dispatch its launches as Nomad jobs, if the configuration says so.
func (i *Instance) dispatch(cfg *config.Config) error {
	if !i.dispatches(cfg) {
		return nil
	}
	var err error
	if i.nomad, err = nomad.New(*cfg.Nomad, i.Log); err != nil {
		return fmt.Errorf("set up the connection to Nomad: %w", err)
	}
	i.Reconciler.Launcher, i.Reconciler.MaxLaunches = i.nomad, cfg.Nomad.MaxLaunches
	i.jobEnded = make(chan struct{}, 1)
	return nil
}

// ended receives after a run has ended; several ends may be merged.
func (i *Instance) ended() <-chan struct{} {
	if i.nomad != nil {
		return i.jobEnded
	}
	return i.Launcher.Ended()
}

// watchJobs settles the launches whose Nomad jobs end while this instance leads, and has a tick
// follow.
func (i *Instance) watchJobs(ctx context.Context) {
	if i.nomad == nil {
		return
	}
	go i.nomad.Watch(ctx, func(stopped map[string]reconcile.LaunchStatus) {
		for launch, status := range stopped {
			i.settle(ctx, launch, status)
		}
		select {
		case i.jobEnded <- struct{}{}:
		default: // an earlier signal was not read yet
		}
	})
}

// settle marks the runs lost that a stopped job has left, and counts the others. If it cannot mark
// them, the next tick does.
func (i *Instance) settle(ctx context.Context, launch string, status reconcile.LaunchStatus) {
	lost, err := orphan.Runs(ctx, i.store, orphan.Stopped{Launch: launch, Runner: status.Runner, Why: status.Stopped}, time.Now())
	for _, run := range lost {
		i.metrics.RunEnded(run)
	}
	if i.spans != nil {
		i.spans.Ended(time.Now(), lost...)
	}
	if err != nil && ctx.Err() == nil {
		i.Log.Warn("cannot mark what a stopped Nomad job has left: the next tick finds it", "launch", launch, "error", err)
	}
	if err := i.count(ctx, launch); err != nil && ctx.Err() == nil {
		i.Log.Warn("the runs of a Nomad job are not in the metrics", "launch", launch, "error", err)
	}
}

// count counts the runs of a launch that its runner has ended.
func (i *Instance) count(ctx context.Context, launch string) error {
	rec, err := state.Read[state.Launch](ctx, i.store, state.LaunchKey(launch))
	if err != nil {
		return err
	}
	for _, planned := range rec.Data.Runs {
		run, err := state.Read[state.Run](ctx, i.store, state.RunKey(planned.Task, planned.ID))
		if err != nil {
			return err
		}
		if run.Data.Launch == launch && run.Data.State != state.RunLost { // who marks a run as lost counts it
			i.metrics.RunEnded(run.Data)
		}
	}
	return nil
}
