package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/state"
)

// What Control refuses.
var (
	ErrNoTask   = errors.New("there is no such task")
	ErrExists   = errors.New("there is a task of this name already")
	ErrActive   = errors.New("the task is active and cannot be changed at this time")
	ErrDisabled = errors.New("the task is disabled")
	ErrNoRun    = errors.New("the task has no run under way")
	ErrNoRetry  = errors.New("the task's latest run did not fail")
	// ErrConfigured is what Forget returns of a task that there is.
	ErrConfigured = errors.New("the task is in the configuration")
	ErrGivenUp    = errors.New("the run is given up") // that somebody waits for
)

// maxDefinition is how long the definition of a task may be, in bytes, so that
// it fits into a record.
const maxDefinition = 64 << 10

// changeTries is how often a change is written whose records others write, too.
const changeTries = 20

// turnWait is how long a change waits for those before it, at most. While the
// store answers, each takes milliseconds.
const turnWait = 3 * time.Second

// trialSettled is how long AwaitRun waits for the leader to keep a change that
// was on trial, or to take it back, once its run has ended.
const trialSettled = 10 * time.Second

// Control is what people ask of the engine, through whichever process serves
// them: it writes to the store, and whoever leads looks there.
type Control struct {
	Store state.Store
	// Base returns what the files, or the bundle in force, say.
	Base func(context.Context) (*config.Config, error)
	// Plan starts an inspection of a task or, if a definition is given, of a
	// task that is not there.
	Plan func(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error)
	// Wake has the leader look at once, where that is possible; nil where it
	// looks by itself before long.
	Wake func(context.Context)
	// Output loads what is kept elsewhere than in the store, by its URL; nil
	// where nothing is.
	Output func(ctx context.Context, url string) ([]byte, error)
	// Poll is how often a run is looked at that is waited for.
	Poll time.Duration
	Now  func() time.Time

	once  sync.Once
	turns chan struct{} // one place: who writes through this process waits here, not in the store
}

// Config returns the configuration that counts, and what makes it so.
func (c *Control) Config(ctx context.Context) (*overlay.Effective, error) {
	base, err := c.Base(ctx)
	if err != nil {
		return nil, err
	}
	return overlay.Load(ctx, c.Store, base)
}

// ChangeOptions say how a change is to be made.
type ChangeOptions struct {
	By string // who asks, in words; "somebody" if it is empty
	// Trial has the task run at once, and keeps the change only if that run
	// succeeds. Without it the task runs when its condition changes.
	Trial bool
}

// someone is who asks, also where nobody has said who.
func someone(by string) string { return cmp.Or(by, "somebody") }

// Create makes a task from its definition, JSON as the API takes it. The error
// is ErrExists, or config.Errors about the definition.
func (c *Control) Create(ctx context.Context, definition json.RawMessage, opts ChangeOptions) (*config.Task, error) {
	var task *config.Task
	err := c.change(ctx, func(e *overlay.Effective) (changes []state.Change, err error) {
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
		fresh := state.Task{History: record.Data.History, Held: state.HoldNext}
		if opts.Trial && task.Enabled {
			next.Trial = &state.Trial{}
			if override.Data.Deleted != "" {
				next.Trial.Before = &override.Data
			}
			fresh.Held, fresh.Forced = "", next.By
		}
		return []state.Change{override.Write(next), record.Write(fresh)}, nil
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

// SetEnabled enables or disables a task. AwaitRun returns the run of a trial,
// given what is returned. The error is ErrNoTask or ErrActive.
func (c *Control) SetEnabled(ctx context.Context, task string, enabled bool, opts ChangeOptions) (since string, err error) {
	err = c.change(ctx, func(e *overlay.Effective) ([]state.Change, error) {
		t, ok := e.Config.Task(task)
		if !ok {
			return nil, c.missing(ctx, e, task)
		}
		record, err := c.idle(ctx, task)
		if err != nil {
			return nil, err
		}
		override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task))
		if err != nil {
			return nil, err
		}
		if override.Data.Trial != nil {
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
		if since = ""; record.Data.Last != nil {
			since = record.Data.Last.Run
		}
		trial := opts.Trial && enabled
		if trial {
			next.Trial = &state.Trial{Since: since}
			if override.Exists() {
				next.Trial.Before = &override.Data
			}
		}
		if t.Enabled == enabled && !trial {
			return nil, nil // it is so
		}
		change := override.Write(next)
		if override.Exists() && needless(next, e.Base) {
			change = state.Delete(override.Record)
		}
		if !enabled {
			return []state.Change{change, unwanted(record)}, nil
		}
		fresh := record.Data
		fresh.Held = state.HoldNext
		if trial {
			fresh.Held, fresh.Forced = "", next.By
		}
		return []state.Change{change, record.Write(fresh)}, nil
	})
	return since, err
}

// needless reports whether an override says no more than the files do. It is not
// kept: what the files say of it later is to count.
func needless(o state.Override, base *config.Config) bool {
	t, ok := base.Task(o.Task)
	return ok && o.Trial == nil && len(o.Definition) == 0 && o.Deleted == "" && o.Enabled != nil && *o.Enabled == t.Enabled
}

// Delete removes a task; what it has made stays. A task of a file is hidden:
// it comes back when its block there is changed. The error is ErrNoTask.
func (c *Control) Delete(ctx context.Context, task, by string) (comesBack bool, err error) {
	err = c.change(ctx, func(e *overlay.Effective) ([]state.Change, error) {
		t, ok := e.Config.Task(task)
		if e.Problems[task] == nil && !ok { // one that is only without effect can be deleted
			if err := c.missing(ctx, e, task); errors.Is(err, ErrActive) {
				return nil, nil // deleted already, and shown until its run has ended
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
			return []state.Change{state.Delete(override.Record), unwanted(record)}, nil
		case !override.Exists():
			next.Made = now
		}
		return []state.Change{override.Write(next), unwanted(record)}, nil
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
	all, err := state.ReadAll[state.Override](ctx, c.Store, state.OverridePrefix)
	if err != nil {
		return nil, fmt.Errorf("read what was changed through the API: %w", err)
	}
	var forgotten []state.Override
	for _, o := range all {
		err := c.write(ctx, true, func() ([]state.Change, error) {
			now, err := state.Read[state.Override](ctx, c.Store, o.Key)
			if err != nil || !now.Exists() {
				return nil, err
			}
			record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(o.Data.Task))
			if err != nil {
				return nil, err
			}
			return []state.Change{state.Delete(now.Record), unwanted(record)}, nil
		})
		if err != nil {
			return forgotten, fmt.Errorf("forget what was changed about task %s: %w", o.Data.Task, err)
		}
		forgotten = append(forgotten, o.Data)
	}
	return forgotten, nil
}

// Force asks for a run of the task, whatever its condition says. AwaitRun
// returns it, given what is returned. The error is ErrNoTask or ErrDisabled.
func (c *Control) Force(ctx context.Context, task, by string) (since string, err error) {
	if err := c.runnable(ctx, task); err != nil {
		return "", err
	}
	err = c.write(ctx, false, func() ([]state.Change, error) {
		record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
		if err != nil {
			return nil, err
		}
		next := record.Data
		since = ""
		if next.Last != nil {
			since = next.Last.Run
		}
		if next.Run != nil { // one more is to follow
			since += " " + next.Run.ID
		}
		next.Forced = someone(by)
		return []state.Change{record.Write(next)}, nil
	})
	return since, err
}

// Tick asks for a tick.
func (c *Control) Tick(ctx context.Context) error {
	return c.write(ctx, false, func() ([]state.Change, error) { return []state.Change{}, nil })
}

// AwaitRun waits until the task has had the run that was asked for, by Force or
// as a trial: the one after those that since names. A trial is then settled as
// a rule. The error is ErrGivenUp if there will be no such run.
func (c *Control) AwaitRun(ctx context.Context, task, since string) (state.Run, error) {
	for {
		record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
		if err != nil {
			return state.Run{}, fmt.Errorf("read task %s: %w", task, err)
		}
		t := record.Data
		if t.Run == nil && t.Forced == "" && t.Last != nil && !slices.Contains(strings.Fields(since), t.Last.Run) {
			run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(task, t.Last.Run))
			if err != nil {
				return state.Run{}, fmt.Errorf("read run %s: %w", t.Last.Run, err)
			}
			// A run whose record is gone is one of a deleted task of that name.
			if run.Exists() {
				return run.Data, c.awaitSettled(ctx, task)
			}
		}
		if t.Run == nil && t.Forced == "" {
			// Nobody asks for it any more, unless the task is only not there for a while.
			override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task))
			if err != nil {
				return state.Run{}, fmt.Errorf("read what was changed about task %s: %w", task, err)
			}
			if override.Data.Trial == nil {
				return state.Run{}, fmt.Errorf("%w: task %s was disabled or deleted before it began, or whoever leads does not have it", ErrGivenUp, task)
			}
		}
		if !sleep(ctx, c.Poll) {
			why := ""
			if t.Reason.Text != "" {
				why = fmt.Sprintf(" (%s: %s)", t.Reason.Kind, t.Reason.Text)
			}
			return state.Run{}, fmt.Errorf("wait for the run of task %s%s: %w", task, why, ctx.Err())
		}
	}
}

// awaitSettled gives the leader the time to settle a trial.
func (c *Control) awaitSettled(ctx context.Context, task string) error {
	limited, cancel := context.WithTimeout(ctx, trialSettled)
	defer cancel()
	for told := false; ; told = true {
		override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task))
		if err != nil {
			return fmt.Errorf("read what was changed about task %s: %w", task, err)
		}
		if override.Data.Trial == nil {
			return nil
		}
		// A leader that is woken may not know yet that the run has ended: ECS
		// tells of it when its container is gone.
		if c.Wake != nil && !told {
			c.Wake(ctx)
		}
		if !sleep(limited, c.Poll) {
			return nil
		}
	}
}

// AwaitPlan waits until an inspection has ended and returns its plan, in
// Terraform's words.
func (c *Control) AwaitPlan(ctx context.Context, planned state.PlannedRun) (state.Run, string, error) {
	for {
		run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(planned.Task, planned.ID))
		if err != nil {
			return state.Run{}, "", fmt.Errorf("read inspection %s: %w", planned.ID, err)
		}
		if run.Data.State.Ended() {
			if run.Data.Plan == "" {
				return run.Data, "", nil
			}
			plan, err := c.load(ctx, run.Data.Task, run.Data.Plan)
			return run.Data, string(plan), err
		}
		if !sleep(ctx, c.Poll) {
			return run.Data, "", fmt.Errorf("wait for the inspection of task %s: %w", planned.Task, ctx.Err())
		}
	}
}

// Log returns what Terraform printed in a run. The error is state.ErrNotFound
// if nothing is kept.
func (c *Control) Log(ctx context.Context, run state.Run) ([]byte, error) {
	if run.Output != "" {
		return c.load(ctx, run.Task, run.Output)
	}
	return c.load(ctx, run.Task, run.ID)
}

// load loads what is kept at a URL, or under a name in the store.
func (c *Control) load(ctx context.Context, task, name string) ([]byte, error) {
	if c.Output != nil && strings.Contains(name, "://") {
		return c.Output(ctx, name)
	}
	return state.LoadLog(ctx, c.Store, task, name)
}

// idle returns the record of a task that no run is under way of.
func (c *Control) idle(ctx context.Context, task string) (state.Stored[state.Task], error) {
	record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
	if err == nil && record.Data.Run != nil {
		err = ErrActive
	}
	return record, err
}

// change writes what is to change about the overrides, which decide makes of
// what counts now; nothing if that is nil.
func (c *Control) change(ctx context.Context, decide func(*overlay.Effective) ([]state.Change, error)) error {
	return c.write(ctx, true, func() ([]state.Change, error) {
		e, err := c.Config(ctx)
		if err != nil {
			return nil, err
		}
		return decide(e)
	})
}

// write makes changes and has whoever leads look at once. They are made anew
// from what was read whenever somebody else was faster: whoever changes an
// override writes the reconcile record, which is read before anything else.
func (c *Control) write(ctx context.Context, overrides bool, decide func() ([]state.Change, error)) error {
	defer c.turn(ctx)()
	for try := 1; ; try++ {
		rec, err := state.Read[state.Reconcile](ctx, c.Store, state.ReconcileKey)
		if err != nil {
			return fmt.Errorf("read the reconcile record: %w", err)
		}
		changes, err := decide()
		if err != nil || changes == nil {
			return err
		}
		next := rec.Data
		next.Due = earlier(next.Due, c.Now())
		if overrides {
			next.Overrides = uuid.NewString()
		}
		_, err = c.Store.Apply(ctx, append(changes, rec.Write(next))...)
		conflict := new(state.ConflictError)
		if errors.As(err, &conflict) && try < changeTries && sleep(ctx, time.Duration(try)*5*time.Millisecond) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write the change: %w", err)
		}
		if c.Wake != nil {
			c.Wake(ctx)
		}
		return nil
	}
}

// turn waits for one's turn to write, and returns what ends it. Turns only save
// attempts: where the store does not answer who is first, the others go on
// without one, and are not kept from what it tells them.
func (c *Control) turn(ctx context.Context) (end func()) {
	c.once.Do(func() { c.turns = make(chan struct{}, 1) })
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	select {
	case c.turns <- struct{}{}:
		return func() { <-c.turns }
	case <-ctx.Done():
		return func() {}
	}
}

// unwanted is the record of a task that is not to be run. It is written also
// where it says nothing new, so that no tick that has read it before has the
// task run after all.
func unwanted(record state.Stored[state.Task]) state.Change {
	next := record.Data
	next.Pending, next.Forced = nil, ""
	return record.Write(next)
}
