package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
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

// Create makes a task from its definition, JSON as the API takes it. AwaitRun waits for the run
// of a provisional change. The error is ErrExists, or config.Errors about the definition.
func (c *Control) Create(ctx context.Context, definition json.RawMessage, opts ChangeOptions) (task *config.Task, earlier Earlier, err error) {
	if task, err = c.Check(ctx, definition); err != nil {
		return nil, earlier, err
	}
	err = c.change(ctx, task.Name, acts(audit.Create, task.Name, opts.By), func(e *Edit) error {
		if _, err := c.check(ctx, e.Effective, definition); err != nil {
			return err
		}
		override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task.Name))
		if err != nil {
			return err
		}
		if e.Next.Run != nil {
			return ErrActive
		}
		// A file's task of this name that was deleted stays so.
		next := state.Override{Task: task.Name, Definition: definition, Deleted: override.Data.Deleted, Made: e.Now}
		next.Change(someone(opts.By), accountOf(ctx, opts.By), e.Now)
		run := ""
		earlier = earlierThan(e.Next)
		if opts.Provisional && task.Enabled {
			run = next.By
			next.Provisional = &state.Provisional{Since: earlier.Ended}
			if override.Data.Deleted != "" {
				next.Provisional.Before = &override.Data
			}
		}
		e.Next = e.Next.Create(run)
		e.overridden(override.Write(next), next)
		return nil
	})
	return task, earlier, err
}

// Check says what Create would.
func (c *Control) Check(ctx context.Context, definition json.RawMessage) (*config.Task, error) {
	e, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	return c.check(ctx, e, definition)
}

// CheckReplacement is Check for a definition that may also replace that of a task.
func (c *Control) CheckReplacement(ctx context.Context, definition json.RawMessage) (*config.Task, error) {
	task, err := c.Check(ctx, definition)
	if !errors.Is(err, ErrExists) {
		return task, err
	}
	e, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	_, task, err = e.Replacing(definition)
	return task, err
}

func (c *Control) check(ctx context.Context, e *overlay.Effective, definition json.RawMessage) (*config.Task, error) {
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
	task, err := e.Config.Parse(definition)
	if err != nil {
		return nil, err
	}
	for _, former := range task.MovedFrom {
		record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(former))
		if err != nil {
			return nil, fmt.Errorf("read task %s: %w", former, err)
		}
		if record.Data.Gone.MovedTo != "" { // rights are checked on names, so nobody gets more than they name
			return nil, config.Errors{{Key: "task.moved_from", Problem: fmt.Sprintf("task %s was renamed since", block.Quoted(former)), Hint: "its present name"}}
		}
	}
	return task, nil
}

// enables are the actions of SetEnabled.
var enables = map[bool]audit.Action{true: audit.Enable, false: audit.Disable}

// SetEnabled enables or disables a task. AwaitRun waits for the run of a
// provisional change.
// The error is ErrNoTask or ErrActive.
func (c *Control) SetEnabled(ctx context.Context, task string, enabled bool, opts ChangeOptions) (earlier Earlier, err error) {
	err = c.change(ctx, task, acts(enables[enabled], task, opts.By), func(e *Edit) error {
		t, ok := e.Config.Task(task)
		if !ok {
			return e.missing(task)
		}
		// If the task is disabled, the next tick ends the run that waits.
		if e.Next.Run != nil && (enabled || e.Next.Waits() == nil) {
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
			next.Made = e.Now
		}
		next.Task, next.Enabled = task, &enabled
		next.Change(someone(opts.By), accountOf(ctx, opts.By), e.Now)
		if !t.FromAPI {
			next.Deleted = "" // its block was changed since
		}
		earlier = earlierThan(e.Next)
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
			e.Next.DropRequests()
		} else if provisional {
			e.Next.Enable(next.By)
		} else {
			e.Next.Enable("")
		}
		change := override.Write(next)
		if override.Exists() && overlay.Redundant(next, e.Base) {
			change = state.Delete(override.Record)
		}
		e.overridden(change, next)
		return nil
	})
	return earlier, err
}

// Delete removes a task; what it has made stays. A task of a file is hidden:
// it comes back when its block there is changed. The error is ErrNoTask.
func (c *Control) Delete(ctx context.Context, task, by string) (comesBack bool, err error) {
	err = c.change(ctx, task, acts(audit.Delete, task, by), func(e *Edit) error {
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
		next := state.Override{Task: task, Deleted: override.Data.Deleted, Made: override.Data.Made}
		next.Change(someone(by), accountOf(ctx, by), e.Now)
		if comesBack = ok && !t.FromAPI; comesBack {
			next.Deleted = t.Identity(e.Base)
		}
		if !override.Exists() {
			next.Made = e.Now
		}
		change := override.Write(next)
		var leaving json.RawMessage
		if next.Deleted == "" && override.Exists() {
			change = state.Delete(override.Record)
			if ok && e.Next.Run != nil {
				leaving = override.Data.Definition
			}
		}
		e.Next.Delete(next.By, accountOf(ctx, by), leaving)
		e.overridden(change, next)
		return nil
	})
	return comesBack, err
}

// missing is why a task that is not in the configuration cannot be changed:
// ErrActive if it was deleted while a run of it is under way, else ErrNoTask.
func (e *Edit) missing(task string) error {
	if _, ok := e.Base.Task(task); e.Next.Run != nil && (ok || len(e.Next.Gone.Leaving) > 0) {
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
		err := c.write(ctx, acts(audit.Reset, task, "start -reset-storage"), func(rec *state.Reconcile) ([]state.Change, error) {
			override, _, err := state.ReadAnyway[state.Override](ctx, c.Store, o.Key)
			if err == nil && !override.Exists() {
				err = errNoChange
			}
			if err != nil {
				return nil, err
			}
			record, corrupt, err := state.ReadAnyway[state.Task](ctx, c.Store, state.TaskKey(task))
			if err != nil {
				return nil, err
			}
			e := &Edit{Rec: rec, Record: record, Next: record.Data}
			e.Next.DropRequests()
			e.overridden(state.Delete(override.Record), state.Override{Task: task, By: "start -reset-storage", At: c.Now()})
			if corrupt != nil {
				return e.Others, nil // no tick acts on such a record
			}
			changes, _ := e.Changes()
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
