package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

// erasedPerTick is how many tasks' records one tick removes at most: each
// takes some hundred requests, and other tasks wait meanwhile.
const erasedPerTick = 20

// removalLasts is how long a task must be missing in the configuration until that counts as
// its removal: task files that are copied slowly are not all there for some seconds.
const removalLasts = 30 * time.Second

// noteRemoved notes that the task is not in the configuration. If somebody has deleted or
// renamed it, that counts at once.
func (d *decider) noteRemoved() {
	s := &d.state
	since := s.MissingSince
	if since.IsZero() || since.After(d.now.Add(d.Skew)) {
		since = d.now
	}
	switch {
	case s.RemovedAt.After(d.now):
		s.RemovedAt = d.now
	case !s.RemovedAt.IsZero():
	case s.Deleted || d.MovedTo != "" || reached(since.Add(removalLasts), d.now):
		s.MissingSince, s.RemovedAt = time.Time{}, d.now
	default:
		s.MissingSince = since
	}
}

// missing reports whether the task is missing in the configuration and does not count as
// removed yet. Nothing is done about it then, and nothing is forgotten.
func (d *decider) missing() bool { return d.Removed && !d.state.MissingSince.IsZero() }

// erase removes all records of a task, its own last: after a crash in between
// the rest is removed by the next tick.
func (t *tick) erase(ctx context.Context, task state.Stored[state.Task]) error {
	name := state.TaskName(task.Key)
	if err := state.Erase(ctx, t.Store, name); err != nil {
		return fmt.Errorf("remove the records of task %s: %w", name, err)
	}
	if task.Data.Remote {
		if err := state.EraseRemote(ctx, t.Store, name); err != nil {
			return err
		}
	}
	if !task.Exists() {
		return nil
	}
	rec := t.rec
	changes, events := forgotten(&rec.Data, task, t.Now())
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

// forgotten returns the changes that remove the record of a task, which are written
// with rec, and their event.
func forgotten(rec *state.Reconcile, task state.Stored[state.Task], now time.Time) ([]state.Change, outbox.Events) {
	events := outbox.NewEvents(outbox.Number(&task.Data, outbox.Event{Kind: outbox.TaskForgotten, At: now, Task: state.TaskName(task.Key)}))
	outbox.Remember(rec, task.Data)
	return append([]state.Change{state.Delete(task.Record)}, events.Changes()...), events
}

// Forget removes all records of a task: of one that is in no configuration, or
// one with a record that cannot be decoded. What it has made stays. The error is
// ErrNoTask, ErrActive or ErrConfigured.
func (c *Control) Forget(ctx context.Context, task string) error {
	if len(state.TaskKey(task)) > state.MaxKey {
		return ErrNoTask
	}
	e, err := c.Config(ctx)
	if err != nil {
		return err
	}
	_, configured := e.Config.Task(task)
	return c.write(ctx, func(rec *state.Reconcile) ([]state.Change, error) {
		record, corrupt, err := readAnyway[state.Task](ctx, c.Store, state.TaskKey(task))
		if err != nil {
			return nil, fmt.Errorf("read task %s: %w", task, err)
		}
		override, corruptOverride, err := readAnyway[state.Override](ctx, c.Store, state.OverrideKey(task))
		if err != nil {
			return nil, fmt.Errorf("read what was changed about task %s: %w", task, err)
		}
		live := record.Data.Run
		if live != nil { // a run whose record is gone or corrupt never ends
			run, corrupt, err := readAnyway[state.Run](ctx, c.Store, state.RunKey(task, live.ID))
			if err == nil && corrupt == nil && run.Exists() {
				err = ErrActive
			}
			if err != nil {
				return nil, err
			}
		}
		var changes []state.Change
		if record.Exists() {
			changes, _ = forgotten(rec, record, c.Now())
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
		if err == nil && (record.Data.Remote || corrupt != nil) {
			err = state.EraseRemote(ctx, c.Store, task)
		}
		return changes, err
	})
}
