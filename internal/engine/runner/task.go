package runner

import (
	"context"
	"fmt"

	"github.com/cenkalti/backoff/v5"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// task returns the configuration and the task of a run. The error is errSuperseded if the task has changed
// since the run was decided.
func (c *claim) task(ctx context.Context, launch state.Launch, planned state.PlannedRun) (*config.Config, *config.Task, error) {
	r := c.Runner
	effective, paused, err := r.effective(ctx)
	if err != nil {
		return nil, nil, err
	}
	if paused != nil && c.claimed.Kind.Applies() && !c.claimed.AppliedElsewhere() {
		return nil, nil, fmt.Errorf("%w: %s", errPaused, paused)
	}
	cfg := effective.Config
	if launch.Draft != nil {
		draft := effective.Draft
		if launch.Replacing {
			draft = effective.Replacing
		}
		if cfg, _, err = draft(launch.Draft); err != nil {
			return nil, nil, err
		}
	}
	if err := effective.Corrupt[planned.Task]; err != nil {
		return nil, nil, err
	}
	task, ok := cfg.Task(planned.Task)
	switch {
	case c.claimed.Removed && ok:
		return nil, nil, fmt.Errorf("%w: the task is in the configuration again", errSuperseded)
	case c.claimed.Removed:
		return r.removed(ctx, cfg, launch, planned)
	case !ok:
		return nil, nil, fmt.Errorf("%w: the task was removed since it was decided", errSuperseded)
	}
	if !task.Enabled && c.claimed.Kind == state.KindApply && !c.claimed.AppliedElsewhere() {
		return nil, nil, fmt.Errorf("%w: the task was disabled since it was decided", errSuperseded)
	}
	if now := task.Digest(cfg); now != planned.Definition {
		return nil, nil, fmt.Errorf("%w: it was decided on another definition of the task (%.12s) than there is now (%.12s)", errSuperseded, planned.Definition, now)
	}
	return cfg, task, nil
}

// effective reads the configuration with what was changed through the API, and whether everything is paused.
func (r *Runner) effective(ctx context.Context) (effective *overlay.Effective, paused *state.Paused, err error) {
	effective, err = retry(ctx, func() (*overlay.Effective, error) {
		rec, err := state.ReadReconcile(ctx, r.Store)
		if err != nil {
			return nil, err
		}
		paused = rec.Data.Paused
		return r.Source.At(ctx, r.Store, r.Config(), rec.Data.Overrides)
	}, backoff.WithMaxTries(claimTries))
	return effective, paused, err
}
