package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/terrapulse/terrapulse/internal/config"
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
	task, err := c.Check(ctx, definition)
	if err != nil {
		return nil, err
	}
	return task, c.change(ctx, task.Name, func(e *edit) error {
		if _, err := check(e.Effective, definition); err != nil {
			return err
		}
		override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task.Name))
		if err != nil {
			return err
		}
		if e.next.Run != nil {
			return ErrActive
		}
		// A file's task of this name that was deleted stays so.
		next := state.Override{Task: task.Name, Definition: definition, Deleted: override.Data.Deleted, By: someone(opts.By), At: e.now, Made: e.now}
		e.next = state.Task{History: e.next.History, Events: e.next.Events, Remote: e.next.Remote, Abandoned: e.next.Abandoned, HoldNext: true}
		if opts.Provisional && task.Enabled {
			next.Provisional = &state.Provisional{}
			if override.Data.Deleted != "" {
				next.Provisional.Before = &override.Data
			}
			e.next.HoldNext, e.next.Forced = false, next.By
		}
		e.overridden(override.Write(next), next)
		return nil
	})
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
	err = c.change(ctx, task, func(e *edit) error {
		t, ok := e.Config.Task(task)
		if !ok {
			return e.missing(task)
		}
		// If the task is disabled, the next tick ends the run that waits.
		if e.next.Run != nil && (enabled || e.next.Waits() == nil) {
			return ErrActive
		}
		override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task))
		if err != nil {
			return err
		}
		if override.Data.Provisional != nil {
			return ErrActive
		}
		next := override.Data
		if !override.Exists() {
			next.Made = e.now
		}
		next.Task, next.Enabled, next.By, next.At = task, &enabled, someone(opts.By), e.now
		next.Others = slices.DeleteFunc(override.Data.ChangedBy(), func(by string) bool { return by == next.By })
		if !t.FromAPI {
			next.Deleted = "" // its block was changed since
		}
		earlier = earlierThan(e.next)
		provisional := opts.Provisional && enabled
		if t.Enabled == enabled && !provisional {
			return errNoChange
		}
		if provisional {
			next.Provisional = &state.Provisional{Since: earlier.Ended}
			if override.Exists() {
				next.Provisional.Before = &override.Data
			}
		}
		if !enabled {
			e.cancelPending()
		} else {
			e.next.Held, e.next.HoldNext = nil, !provisional
			if provisional {
				e.next.Forced, e.next.Replaces = next.By, false
			}
		}
		change := override.Write(next)
		if override.Exists() && redundant(next, e.Base) {
			change = state.Delete(override.Record)
		}
		e.overridden(change, next)
		return nil
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
	err = c.change(ctx, task, func(e *edit) error {
		t, ok := e.Config.Task(task)
		if e.Problems[task] == nil && !ok { // one that is only without effect can be deleted
			if err := e.missing(task); !errors.Is(err, ErrActive) {
				return err
			}
			return errNoChange // deleted already, and shown until its run has ended
		}
		override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task))
		if err != nil {
			return err
		}
		next := state.Override{Task: task, Deleted: override.Data.Deleted, By: someone(by), At: e.now, Made: override.Data.Made}
		if comesBack = ok && !t.FromAPI; comesBack {
			next.Deleted = t.Identity(e.Base)
		}
		if !override.Exists() {
			next.Made = e.now
		}
		change := override.Write(next)
		if next.Deleted == "" && override.Exists() {
			change = state.Delete(override.Record)
			if ok && e.next.Run != nil {
				e.next.Leaving = override.Data.Definition
			}
		}
		e.next.Deleted, e.next.DeletedBy = true, next.By
		e.cancelPending()
		e.overridden(change, next)
		return nil
	})
	return comesBack, err
}

// missing is why a task that is not in the configuration cannot be changed:
// ErrActive if it was deleted while a run of it is under way, else ErrNoTask.
func (e *edit) missing(task string) error {
	if _, ok := e.Base.Task(task); e.next.Run != nil && (ok || len(e.next.Leaving) > 0) {
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
		err := c.write(ctx, func(rec *state.Reconcile) ([]state.Change, error) {
			override, _, err := readAnyway[state.Override](ctx, c.Store, o.Key)
			if err == nil && !override.Exists() {
				err = errNoChange
			}
			if err != nil {
				return nil, err
			}
			record, corrupt, err := readAnyway[state.Task](ctx, c.Store, state.TaskKey(task))
			if err != nil {
				return nil, err
			}
			e := &edit{rec: rec, record: record, next: record.Data}
			e.cancelPending()
			e.overridden(state.Delete(override.Record), state.Override{Task: task, By: "start -reset-storage", At: c.Now()})
			if corrupt != nil {
				return e.others, nil // no tick acts on such a record
			}
			changes, _ := e.changes()
			return changes, nil
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

// readAnyway reads a record also if it is corrupt: then its data is empty.
func readAnyway[T any](ctx context.Context, store state.Store, key string) (state.Stored[T], *state.CorruptError, error) {
	stored, err := state.Read[T](ctx, store, key)
	if corrupt := (*state.CorruptError)(nil); errors.As(err, &corrupt) {
		return state.Stored[T]{Record: corrupt.Record}, corrupt, nil
	}
	return stored, nil, err
}

// cancelPending removes the change and the request that wait for a run.
func (e *edit) cancelPending() {
	e.next.Pending, e.next.Forced, e.next.Replaces = nil, "", false
}
