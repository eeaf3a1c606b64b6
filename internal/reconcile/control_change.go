package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/state"
)

// maxDefinition is how long the definition of a task may be, in bytes, so that
// it fits into a record.
const maxDefinition = 64 << 10

// ChangeOptions say how a change is to be made.
type ChangeOptions struct {
	By string // who requests it, in words; "somebody" if it is empty
	// Provisional requests a run at once and keeps the change only if that run
	// succeeds. Without it the task runs when its condition changes.
	Provisional bool
}

// Create makes a task from its definition, JSON as the API takes it. The error
// is ErrExists, or config.Errors about the definition.
func (c *Control) Create(ctx context.Context, definition json.RawMessage, opts ChangeOptions) (*config.Task, error) {
	var task *config.Task
	err := c.change(ctx, func(e *overlay.Effective, rec *state.Reconcile) (changes []state.Change, err error) {
		if task, err = check(e, definition); err != nil {
			return nil, err
		}
		key := state.OverrideKey(task.Name)
		override, err := state.Read[state.Override](ctx, c.Store, key)
		if err != nil {
			return nil, err
		}
		record, err := c.idle(ctx, task.Name)
		if err != nil {
			return nil, err
		}
		now := c.Now()
		// A file's task of this name that was deleted stays so.
		next := state.Override{Task: task.Name, Definition: definition, Deleted: override.Data.Deleted, By: someone(opts.By), At: now, Made: now}
		fresh := state.Task{History: record.Data.History, Events: record.Data.Events, HoldNext: true}
		if opts.Provisional && task.Enabled {
			next.Provisional = &state.Provisional{}
			if override.Data.Deleted != "" {
				next.Provisional.Before = &override.Data
			}
			fresh.HoldNext, fresh.Forced = false, next.By
		}
		return overridden(rec, override.Write(next), next, record, fresh), nil
	})
	return task, err
}

// Check says what Create would.
func (c *Control) Check(ctx context.Context, definition json.RawMessage) (*config.Task, error) {
	e, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	return check(e, definition)
}

func check(e *overlay.Effective, definition json.RawMessage) (*config.Task, error) {
	// JSON is kept without spaces, and with some characters escaped. What is none is refused below.
	if kept, err := json.Marshal(definition); err == nil && len(kept) > maxDefinition {
		return nil, config.Errors{{Key: "task", Problem: fmt.Sprintf("the definition is %d bytes long", len(kept)), Hint: fmt.Sprintf("at most %d are kept", maxDefinition)}}
	}
	var named struct{ Name string }
	if json.Unmarshal(definition, &named) == nil {
		if _, ok := e.Config.Task(named.Name); ok {
			return nil, ErrExists
		}
	}
	return e.Config.Parse(definition)
}

// SetEnabled enables or disables a task. AwaitRun waits for the run of a
// provisional change.
// The error is ErrNoTask or ErrActive.
func (c *Control) SetEnabled(ctx context.Context, task string, enabled bool, opts ChangeOptions) (earlier Earlier, err error) {
	err = c.change(ctx, func(e *overlay.Effective, rec *state.Reconcile) ([]state.Change, error) {
		t, ok := e.Config.Task(task)
		if !ok {
			return nil, c.missing(ctx, e, task)
		}
		record, err := c.idle(ctx, task)
		if errors.Is(err, ErrActive) && !enabled && record.Data.Waits() != nil {
			err = nil // the next tick ends the run that waits
		}
		if err != nil {
			return nil, err
		}
		override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task))
		if err != nil {
			return nil, err
		}
		if override.Data.Provisional != nil {
			return nil, ErrActive
		}
		now := c.Now()
		next := override.Data
		if !override.Exists() {
			next.Made = now
		}
		next.Task, next.Enabled, next.By, next.At = task, &enabled, someone(opts.By), now
		if !t.FromAPI {
			next.Deleted = "" // its block was changed since
		}
		earlier = earlierThan(record.Data)
		provisional := opts.Provisional && enabled
		if provisional {
			next.Provisional = &state.Provisional{Since: earlier.Ended}
			if override.Exists() {
				next.Provisional.Before = &override.Data
			}
		}
		if t.Enabled == enabled && !provisional {
			return nil, errNoChange
		}
		change := override.Write(next)
		if override.Exists() && redundant(next, e.Base) {
			change = state.Delete(override.Record)
		}
		if !enabled {
			return overridden(rec, change, next, record, cancelPending(record.Data)), nil
		}
		fresh := record.Data
		fresh.Held, fresh.HoldNext = nil, !provisional
		if provisional {
			fresh.Forced, fresh.Replaces = next.By, false
		}
		return overridden(rec, change, next, record, fresh), nil
	})
	return earlier, err
}

// redundant reports whether an override says the same as the files. It is not
// kept, so that later changes of the files take effect.
func redundant(o state.Override, base *config.Config) bool {
	t, ok := base.Task(o.Task)
	return ok && o.Provisional == nil && len(o.Definition) == 0 && o.Deleted == "" && o.Enabled != nil && *o.Enabled == t.Enabled
}

// Delete removes a task; what it has made stays. A task of a file is hidden:
// it comes back when its block there is changed. The error is ErrNoTask.
func (c *Control) Delete(ctx context.Context, task, by string) (comesBack bool, err error) {
	err = c.change(ctx, func(e *overlay.Effective, rec *state.Reconcile) ([]state.Change, error) {
		t, ok := e.Config.Task(task)
		if e.Problems[task] == nil && !ok { // one that is only without effect can be deleted
			if err := c.missing(ctx, e, task); errors.Is(err, ErrActive) {
				return nil, errNoChange // deleted already, and shown until its run has ended
			} else {
				return nil, err
			}
		}
		override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task))
		if err != nil {
			return nil, err
		}
		record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
		if err != nil {
			return nil, err
		}
		record.Data.Deleted = true
		now := c.Now()
		next := state.Override{Task: task, Deleted: override.Data.Deleted, By: someone(by), At: now, Made: override.Data.Made}
		if comesBack = ok && !t.FromAPI; comesBack {
			next.Deleted = t.Identity(e.Base)
		}
		switch {
		case next.Deleted == "" && override.Exists():
			if ok && record.Data.Run != nil {
				record.Data.Leaving = override.Data.Definition
			}
			return overridden(rec, state.Delete(override.Record), next, record, cancelPending(record.Data)), nil
		case !override.Exists():
			next.Made = now
		}
		return overridden(rec, override.Write(next), next, record, cancelPending(record.Data)), nil
	})
	return comesBack, err
}

// missing is why a task that is not in the configuration cannot be changed:
// ErrActive if it was deleted while a run of it is under way, else ErrNoTask.
func (c *Control) missing(ctx context.Context, e *overlay.Effective, task string) error {
	if len(state.TaskKey(task)) > state.MaxKey {
		return ErrNoTask
	}
	record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
	if err != nil {
		return fmt.Errorf("read task %s: %w", task, err)
	}
	if _, ok := e.Base.Task(task); record.Data.Run != nil && (ok || len(record.Data.Leaving) > 0) {
		return ErrActive
	}
	return ErrNoTask
}

// Reset forgets every change that was made through the API, and returns them.
func (c *Control) Reset(ctx context.Context) ([]state.Override, error) {
	all, err := c.Store.List(ctx, state.OverridePrefix)
	if err != nil {
		return nil, fmt.Errorf("read the changes made through the API: %w", err)
	}
	var forgotten []state.Override
	for _, o := range all {
		task := state.OverrideTask(o.Key)
		err := c.write(ctx, true, func(rec *state.Reconcile) ([]state.Change, error) {
			now, err := c.Store.Get(ctx, o.Key)
			if errors.Is(err, state.ErrNotFound) {
				return nil, errNoChange
			}
			if err != nil {
				return nil, err
			}
			if _, err := state.Decode[state.Override](now); errors.As(err, new(*state.NewerError)) {
				return nil, err
			}
			record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
			if errors.As(err, new(*state.CorruptError)) {
				return []state.Change{state.Delete(now)}, nil // no tick acts on such a record
			}
			if err != nil {
				return nil, err
			}
			removed := state.Override{Task: task, By: "start -reset-storage", At: c.Now()}
			return overridden(rec, state.Delete(now), removed, record, cancelPending(record.Data)), nil
		})
		if err != nil {
			return forgotten, fmt.Errorf("forget what was changed about task %s: %w", task, err)
		}
		// Of an override that cannot be decoded only the task is known.
		override := state.Override{Task: task}
		if stored, err := state.Decode[state.Override](o); err == nil {
			override = stored.Data
		}
		forgotten = append(forgotten, override)
	}
	return forgotten, nil
}

// cancelPending removes the change and the request that wait for a run. The
// record is written even if it stays the same, so that a tick that has read it
// before does not run the task.
func cancelPending(task state.Task) state.Task {
	task.Pending, task.Forced, task.Replaces = nil, "", false
	return task
}

// overridden returns the changes that write an override, the record of its task
// and the event of both. They are written with rec.
func overridden(rec *state.Reconcile, change state.Change, o state.Override, record state.Stored[state.Task], next state.Task) []state.Change {
	kind := map[state.Op]outbox.Kind{state.OpCreate: outbox.OverrideCreated, state.OpReplace: outbox.OverrideChanged, state.OpDelete: outbox.OverrideRemoved}[change.Op]
	outbox.Continue(&next, *rec)
	events := outbox.NewEvents(outbox.Number(&next, outbox.Event{Kind: kind, At: o.At, Task: o.Task, By: o.By, Detail: o.String()}))
	return append([]state.Change{change, record.Write(next)}, events.Changes()...)
}
