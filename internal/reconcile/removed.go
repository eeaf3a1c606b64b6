package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

const (
	// keptRemoved is how long the records of a task are kept that has vanished
	// from the files: a file that was removed by mistake is noticed within that.
	keptRemoved = 7 * 24 * time.Hour

	// erasedPerTick is how many tasks' records one tick removes at most: each
	// takes some hundred requests, and other tasks wait meanwhile.
	erasedPerTick = 20
)

// erase removes all records of a task, its own last: after a crash in between
// the rest is removed by the next tick.
func (t *tick) erase(ctx context.Context, task state.Stored[state.Task]) error {
	name := state.TaskName(task.Key)
	if err := state.Erase(ctx, t.Store, name); err != nil {
		return fmt.Errorf("remove the records of task %s: %w", name, err)
	}
	if !task.Exists() {
		return nil
	}
	last := task.Data
	events := outbox.NewEvents(outbox.Number(&last, outbox.Event{Kind: outbox.TaskForgotten, At: t.Now(), Task: name}))
	rec := t.rec
	outbox.Remember(&rec.Data, last)
	written, err := t.opts.Lease.Apply(ctx, append([]state.Change{t.rec.Write(rec.Data), state.Delete(task.Record)}, events.Changes()...)...)
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

// corrupt remembers which tasks have a record that cannot be decoded.
type corrupt struct {
	now    map[string]error  // by task
	warned map[string]string // errors that were logged, by task
}

func (c *corrupt) begin(overrides map[string]error) {
	c.now = map[string]error{}
	for task, err := range overrides {
		c.now[task] = err
	}
}

func (c *corrupt) add(task string, err error) { c.now[task] = err }

func (c *corrupt) has(task string) bool { return c.now[task] != nil }

// tell puts the errors into the decisions, and logs each once.
func (c *corrupt) explain(log *slog.Logger, decisions []Decision) {
	warned := map[string]string{}
	for i := range decisions {
		d := &decisions[i]
		err := c.now[d.Task.Name]
		if err == nil || d.Reason.Code != state.ReasonCorrupt {
			continue
		}
		d.Reason.Text = state.Cut(err.Error())
		if warned[d.Task.Name] = err.Error(); c.warned[d.Task.Name] != err.Error() {
			log.Warn("a record of a task cannot be read, so the task waits: put the record right, or remove all records of the task with `terrapulse forget` (an enabled task then runs)",
				"task", d.Task.Name, "error", err)
		}
	}
	c.warned = warned
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
	err = c.write(ctx, true, func(last *state.Reconcile) ([]state.Change, error) {
		var changes []state.Change
		broken := false
		for _, key := range []string{state.TaskKey(task), state.OverrideKey(task)} {
			rec, err := c.Store.Get(ctx, key)
			if errors.Is(err, state.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", key, err)
			}
			if key == state.OverrideKey(task) {
				if _, err := state.Decode[state.Override](rec); errors.As(err, new(*state.NewerError)) {
					return nil, err
				} else if err != nil {
					broken, changes = true, append(changes, state.Delete(rec))
				}
				continue
			}
			stored, err := state.Decode[state.Task](rec)
			if errors.As(err, new(*state.NewerError)) {
				return nil, err
			}
			events := outbox.NewEvents(outbox.Number(&stored.Data, outbox.Event{Kind: outbox.TaskForgotten, At: c.Now(), Task: task}))
			outbox.Remember(last, stored.Data)
			changes = append(append(changes, state.Delete(rec)), events.Changes()...)
			if err != nil {
				broken = true
				continue
			}
			if stored.Data.Run != nil {
				run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(task, stored.Data.Run.ID))
				if !errors.As(err, new(*state.CorruptError)) {
					if err == nil && run.Exists() {
						err = ErrActive
					}
					if err != nil {
						return nil, err
					}
				}
				broken = true
			}
		}
		switch {
		case len(changes) == 0:
			return nil, ErrNoTask
		case configured && !broken:
			return nil, ErrConfigured
		}
		return changes, state.Erase(ctx, c.Store, task)
	})
	return err
}
