package instance

import (
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// launched is what an instance knows that only executes one launch.
type launched struct {
	id     string // by which the launcher knows this process; recorded with claims
	unable error  // why it cannot carry out any run
}

// RunLaunch executes the runs of one launch in this process, which its launcher knows by an id, and
// returns when they have ended. When ctx ends, it interrupts the driver and waits for it. A failed
// run is no error. If there is no usable Terraform, each run fails with that reason.
func RunLaunch(ctx context.Context, cfg *config.Config, o Options, launch, id string) error {
	o.RunsHere, o.launched = true, &launched{id: id}
	i, err := New(ctx, cfg, o)
	if err != nil {
		return err
	}
	defer i.Close()
	rec, err := state.Read[state.Launch](ctx, i.store, state.LaunchKey(launch))
	if err != nil {
		return fmt.Errorf("read launch %s: %w", launch, err)
	}
	if !rec.Exists() {
		return fmt.Errorf("the store has no launch %s: the leader writes a launch before it starts this program. To run a task, use `terrapulse run TASK`", launch)
	}
	i.Log.Info("launch begun", "launch", launch, "fence", rec.Data.Fence, "runs", len(rec.Data.Runs), "kind", rec.Data.Kind)
	if err := i.Launcher.Start(ctx, rec.Data); err != nil {
		return err
	}
	i.Launcher.Wait()
	without := 0
	for _, run := range rec.Data.Runs {
		if i.Launcher.Lost(run.ID) != nil { // it was logged
			without++
		}
	}
	switch {
	case o.launched.unable != nil && ctx.Err() == nil:
		return o.launched.unable
	case without > 0:
		return fmt.Errorf("%d of %d runs of launch %s have no outcome in the store", without, len(rec.Data.Runs), launch)
	}
	i.Log.Info("launch ended", "launch", launch)
	return nil
}

// carryOut returns what carries out a run.
func (o Options) carryOut(r *runner.Runner) func(context.Context, state.Launch, state.PlannedRun) error {
	l := o.launched
	if l == nil {
		return r.Run
	}
	r.ID = l.id
	if l.unable == nil {
		return r.Run
	}
	return func(ctx context.Context, launch state.Launch, run state.PlannedRun) error {
		return r.Refuse(ctx, launch, run, l.unable)
	}
}
