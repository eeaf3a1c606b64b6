package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// erasedPerTick is how many tasks' records one tick removes at most: each
// takes some hundred requests, and other tasks wait meanwhile.
const erasedPerTick = 20

// erase removes all records of a task, its own last: after a crash in between
// the rest is removed by the next tick.
func (t *tick) erase(ctx context.Context, task state.Stored[state.Task]) error {
	name := state.TaskName(task.Key)
	if err := state.Erase(ctx, t.Store, name); err != nil {
		return fmt.Errorf("remove the records of task %s: %w", name, err)
	}
	if task.Data.RemoteRun != nil {
		if err := state.EraseRemote(ctx, t.Store, name); err != nil {
			return err
		}
	}
	if !task.Exists() {
		return nil
	}
	rec := t.rec
	changes, events := outbox.Forget(&rec.Data, task, t.Now())
	written, err := t.opts.Lease.Apply(ctx, append([]state.Change{t.rec.Write(rec.Data)}, changes...)...)
	if errors.As(err, new(*state.ConflictError)) {
		return nil // somebody has changed it meanwhile: the next tick decides again
	}
	if err != nil {
		return fmt.Errorf("remove the record of task %s: %w", name, err)
	}
	rec.Record = written[0]
	t.rec = rec
	t.noteVersion(rec.Version)
	t.eventLog().Now(ctx, events)
	return nil
}

// warnCorrupt logs the errors of records that cannot be decoded, each once.
func (t *tick) warnCorrupt() {
	for task, err := range t.corrupt {
		if t.warned[task] != err.Error() {
			t.Log.Warn("a record of a task cannot be read, so the task waits: put the record right, or remove all records of the task with `terrapulse forget` (an enabled task then runs)",
				"task", task, "error", err)
		}
	}
	t.warned = map[string]string{}
	for task, err := range t.corrupt {
		t.warned[task] = err.Error()
	}
}
