package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// removed returns a task that is in no configuration, as it was applied last, with the
// current providers. The files of its module are those of the bundle that had them.
func (r *Runner) removed(ctx context.Context, cfg *config.Config, launch state.Launch, planned state.PlannedRun) (*config.Config, *config.Task, error) {
	d, err := state.LoadDefinition(ctx, r.Store, planned.Task)
	if err != nil {
		return nil, nil, err
	}
	with, t, err := overlay.Restore(cfg, planned.Task, d)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errSuperseded, err)
	}
	if now := t.Digest(with); now != planned.Definition {
		return nil, nil, fmt.Errorf("%w: it was decided on another definition of the task (%.12s) than there is now (%.12s)", errSuperseded, planned.Definition, now)
	}
	if d.Bundle == "" || d.Bundle == launch.Bundle || r.Bundle == nil {
		return with, t, nil
	}
	old, err := r.Bundle(ctx, d.Bundle)
	if errors.As(err, new(*bundle.InvalidError)) { // it is gone, or damaged
		r.Log.Warn("the bundle with the module of a removed task cannot be used", "bundle", d.Bundle, "error", err)
		t.Module = filepath.Join(with.Dir(), "the bundle is gone", d.Bundle) // not that of another bundle
		return with, t, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("get the bundle with the module that task %s was applied with: %w", planned.Task, err)
	}
	place, err := filepath.Rel(with.Dir(), t.Module)
	if err != nil {
		return nil, nil, fmt.Errorf("find the module of task %s in bundle %.12s: %w", planned.Task, d.Bundle, err)
	}
	t.Module = filepath.Join(old.Dir(), place)
	return with, t, nil
}
