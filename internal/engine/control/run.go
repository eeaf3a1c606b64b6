package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// provisionalSettled is how long AwaitRun waits for the leader to keep a
// provisional change, or to revert it, once its run has ended.
const provisionalSettled = 10 * time.Second

// Earlier names the runs that a task had when a run of it was requested.
// AwaitRun waits for the first run after them.
type Earlier struct {
	Ended string // the latest that had ended; empty if none had
	Live  string // the one under way; empty if none was
}

// Newest is the newest of the runs, empty if there was none.
func (e Earlier) Newest() string { return cmp.Or(e.Live, e.Ended) }

func (e Earlier) includes(run string) bool { return run == e.Ended || run == e.Live }

func earlierThan(t state.Task) (e Earlier) {
	if t.Ended.Last != nil {
		e.Ended = t.Ended.Last.Run
	}
	if t.Run != nil {
		e.Live = t.Run.ID
	}
	return e
}

// Force requests a run of the task, whatever its condition says, and without the backoff of one that failed.
// AwaitRun waits for it. A run that waits for an approval or its window is the requested run: it
// waits on. The error is ErrNoTask or ErrDisabled.
func (c *Control) Force(ctx context.Context, task, by string) (earlier Earlier, err error) {
	by = someone(by)
	err = c.change(ctx, task, acts(audit.Run, task, by), func(e *Edit) error {
		t, ok := e.Config.Task(task)
		switch {
		case !ok:
			return ErrNoTask
		case !t.Enabled:
			return ErrDisabled
		}
		earlier = earlierThan(e.Next)
		if wait := e.Next.Waits(); wait != nil && !wait.For.Elsewhere() {
			earlier.Live = "" // the waiting run is the run that is requested
			return errNoChange
		}
		e.Next.RequestRun(by)
		if lifecycle.RowOf(e.Next.Reason.Code).Waits || e.Next.After != nil {
			e.Next.Reason = state.Reason{} // AwaitRun must not take an earlier decision for that about this request
		}
		return nil
	})
	return earlier, err
}

// Tick requests a tick.
func (c *Control) Tick(ctx context.Context) error {
	return c.write(ctx, nil, func(*state.Reconcile) ([]state.Change, error) { return nil, nil })
}

// Notified requests a tick of the leader if a run waits for its remote run: another system has sent a
// notification.
func (c *Control) Notified(ctx context.Context) error {
	return c.write(ctx, nil, func(rec *state.Reconcile) ([]state.Change, error) {
		if rec.Remote == 0 {
			return nil, errNoChange
		}
		return nil, nil
	})
}

// AwaitRun waits until the run has ended that was requested when the task had
// the earlier runs: by Force, by Retry, or with a provisional change. Such a change
// is then mostly kept or taken back already. A run that waits for an approval or its
// window is returned as well. The error is ErrWaits if the run does not begin before a
// person or a window lets it, and ErrGivenUp if there will be no such run.
func (c *Control) AwaitRun(ctx context.Context, task string, earlier Earlier) (state.Run, error) {
	for {
		record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
		if err != nil {
			return state.Run{}, fmt.Errorf("read task %s: %w", task, err)
		}
		t := record.Data
		switch waits, err := c.waitsForPeople(ctx, task, t, earlier); {
		case err != nil:
			return state.Run{}, err
		case waits != nil:
			return *waits, nil
		}
		if t.Run == nil && t.Forced.By == "" && t.Ended.Last != nil && !earlier.includes(t.Ended.Last.Run) {
			run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(task, t.Ended.Last.Run))
			if err != nil {
				return state.Run{}, fmt.Errorf("read run %s: %w", t.Ended.Last.Run, err)
			}
			// A run whose record is gone is one of a deleted task of that name.
			if run.Exists() {
				return run.Data, c.awaitSettled(ctx, task)
			}
		}
		if t.Run == nil && t.Forced.By == "" {
			// Nobody asks for it any more, unless the task is only not there for a while.
			override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task))
			if err != nil {
				return state.Run{}, fmt.Errorf("read what was changed about task %s: %w", task, err)
			}
			if override.Data.Provisional == nil {
				return state.Run{}, fmt.Errorf("%w: task %s was disabled or deleted before it began, or the leader does not have it", ErrGivenUp, task)
			}
		}
		if !delay.For(ctx, c.Poll) {
			why := ""
			if t.Reason.Text != "" {
				why = fmt.Sprintf(" (%s: %s)", t.Reason.Code, t.Reason.Text)
			}
			return state.Run{}, fmt.Errorf("wait for the run of task %s%s: %w", task, why, ctx.Err())
		}
	}
}

// waitsForPeople returns the run that was requested if it waits for an approval or its
// window; nil if the request goes on by itself. The error is ErrWaits if the run has
// not begun and does not begin before a person or a window lets it.
func (c *Control) waitsForPeople(ctx context.Context, task string, t state.Task, earlier Earlier) (*state.Run, error) {
	wait := t.Waits()
	switch {
	case wait != nil && (wait.For.Elsewhere() || earlier.includes(t.Run.ID)):
		return nil, nil
	case t.OnHold != nil && (t.Run == nil || wait != nil):
		return nil, fmt.Errorf("%w: task %s is on hold by %s; `terrapulse release %s` lets it run", ErrWaits, task, t.OnHold.By, task)
	case wait != nil && wait.For.ForPeople() && t.Run.Resume == nil:
		run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(task, t.Run.ID))
		if err != nil || run.Data.State != state.RunWaiting {
			return nil, err // it goes on
		}
		return &run.Data, nil
	case lifecycle.AwaitsPeople(t) && (t.Run == nil || wait != nil):
		return nil, fmt.Errorf("%w: %s", ErrWaits, t.Reason.Text)
	}
	return nil, nil
}

// awaitSettled gives the leader the time to keep or revert a provisional change.
func (c *Control) awaitSettled(ctx context.Context, task string) error {
	limited, cancel := context.WithTimeout(ctx, provisionalSettled)
	defer cancel()
	for woken := false; ; woken = true {
		override, err := state.Read[state.Override](ctx, c.Store, state.OverrideKey(task))
		if err != nil {
			return fmt.Errorf("read what was changed about task %s: %w", task, err)
		}
		if override.Data.Provisional == nil {
			return nil
		}
		// A leader that is woken may not know yet that the run has ended: ECS
		// tells of it when its container is gone.
		if c.Wake != nil && !woken {
			c.Wake(ctx)
		}
		if !delay.For(limited, c.Poll) {
			return nil
		}
	}
}

// AwaitPlan waits until a plan run has ended and returns its plan, in
// Terraform's words.
func (c *Control) AwaitPlan(ctx context.Context, planned state.PlannedRun) (state.Run, string, error) {
	for {
		run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(planned.Task, planned.ID))
		if err != nil {
			return state.Run{}, "", fmt.Errorf("read plan run %s: %w", planned.ID, err)
		}
		if run.Data.State.Ended() {
			if run.Data.Plan == (state.Kept{}) {
				return run.Data, "", nil
			}
			plan, err := c.Kept(ctx, run.Data, run.Data.Plan)
			return run.Data, string(plan), err
		}
		if !delay.For(ctx, c.Poll) {
			return run.Data, "", fmt.Errorf("wait for the plan of task %s: %w", planned.Task, ctx.Err())
		}
	}
}

// Kept returns a text that is kept of a run. The error is state.ErrNotFound if it
// is not kept.
func (c *Control) Kept(ctx context.Context, run state.Run, kept state.Kept) ([]byte, error) {
	return kept.Load(ctx, c.Store, run.Task, c.Output)
}

// Printed returns what a run has printed until now, with the output of the remote run that
// it waits for. If that cannot be read now, it is missing: ticks report such failures.
func (c *Control) Printed(ctx context.Context, run state.Run) ([]byte, error) {
	text, err := c.Kept(ctx, run, run.PrintedTo())
	if err != nil && !errors.Is(err, state.ErrNotFound) || c.RemoteOutput == nil || !run.GoesOnRemotely() {
		return text, err
	}
	effective, wrong := c.Config(ctx)
	if wrong != nil {
		return text, err
	}
	more, wrong := c.RemoteOutput(ctx, effective.Config, run)
	if wrong != nil || more == "" {
		return text, err
	}
	return append(slices.Clip(text), more...), nil
}

// Resume requests that the waiting run of a task goes on, if it still waits for
// what the given wait identifies. To repeat the request is harmless. The error
// is ErrNotWaiting.
func (c *Control) Resume(ctx context.Context, task, run, wait, by string) error {
	return c.edit(ctx, task, nil, func(e *Edit) error {
		live := e.Next.Run
		if w := e.Next.Waits(); w == nil || live.ID != run || w.ID != wait || live.Resume == nil && clock.Reached(w.Until, e.Now) {
			return ErrNotWaiting
		}
		if live.Resume == nil {
			resumed := *live
			resumed.Resume = &state.Resume{By: someone(by), At: e.Now}
			e.Next.Run = &resumed
		}
		return nil
	})
}
