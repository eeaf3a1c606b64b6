package control

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Forget removes all records of a task: of one that is in no configuration, or
// one with a record that cannot be decoded. What it has made stays. The error is
// ErrNoTask, ErrActive or ErrConfigured.
func (c *Control) Forget(ctx context.Context, task, by string) error {
	if len(state.TaskKey(task)) > state.MaxKey {
		return ErrNoTask
	}
	e, err := c.Config(ctx)
	if err != nil {
		return err
	}
	_, configured := e.Config.Task(task)
	return c.write(ctx, acts(audit.Forget, task, by), func(rec *state.Reconcile) ([]state.Change, error) {
		record, corrupt, err := state.ReadAnyway[state.Task](ctx, c.Store, state.TaskKey(task))
		if err != nil {
			return nil, fmt.Errorf("read task %s: %w", task, err)
		}
		override, corruptOverride, err := state.ReadAnyway[state.Override](ctx, c.Store, state.OverrideKey(task))
		if err != nil {
			return nil, fmt.Errorf("read what was changed about task %s: %w", task, err)
		}
		live := record.Data.Run
		if live != nil { // a run whose record is gone or corrupt never ends
			run, corrupt, err := state.ReadAnyway[state.Run](ctx, c.Store, state.RunKey(task, live.ID))
			if err == nil && corrupt == nil && run.Exists() {
				err = ErrActive
			}
			if err != nil {
				return nil, err
			}
		}
		var changes []state.Change
		if record.Exists() {
			changes, _ = outbox.Forget(rec, record, c.Now())
		}
		if corruptOverride != nil {
			changes = append(changes, state.Delete(override.Record))
		}
		switch {
		case len(changes) == 0:
			return nil, ErrNoTask
		case configured && corrupt == nil && corruptOverride == nil && live == nil:
			return nil, ErrConfigured
		}
		rec.Overrides = uuid.NewString()
		err = state.Erase(ctx, c.Store, task)
		if err == nil && (record.Data.RemoteRun != nil || corrupt != nil) {
			err = state.EraseRemote(ctx, c.Store, task)
		}
		return changes, err
	})
}
