package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/overview"
	"github.com/terrapulse/terrapulse/internal/state"
)

// What Approve, Reject, Hold and Release refuse.
var (
	ErrNoPlan     = overview.ErrNoPlan
	ErrOtherPlan  = errors.New("another plan waits for an approval now")
	ErrSamePerson = errors.New("who changed, deleted or destroys the task through the API must not approve its plan")
	ErrNotOnHold  = errors.New("the task is not on hold")
)

// Approve permits to apply the plan that a task waits with: only what the plan
// shows, and only until the approval expires. plan is the id of the plan, or how it
// begins; "" for the one that waits now. Of a, By, Authenticated and Comment are used.
// To repeat an approval is harmless. The error is ErrNoPlan, ErrOtherPlan,
// ErrSamePerson, ErrNoTask or ErrDisabled.
func (c *Control) Approve(ctx context.Context, task, plan string, a state.Approval) error {
	return c.change(ctx, task, func(e *edit) error {
		wait, err := e.waitingPlan(plan)
		if err != nil {
			return err
		}
		if r := e.next.Run.Resume; r != nil && r.Approval != nil && r.Approval.Valid(e.now) {
			return errNoChange
		}
		t, err := c.taskOf(ctx, e, task)
		if err != nil {
			return err
		}
		a.By, a.At, a.Comment, a.Content = someone(a.By), e.now, oneLine(a.Comment), *wait.Content
		if !mayApprove(t, e.changedBy(task), a.By, a.Authenticated) {
			return ErrSamePerson
		}
		if t.Approval.Expires > 0 {
			a.Expires = e.now.Add(t.Approval.Expires)
		}
		if wait.Content.Plan == "" { // it also permits later runs to apply this input
			e.next.Accepted = &state.Accepted{Approval: a, Observed: e.next.Run.Input}
		}
		live := *e.next.Run
		live.Resume = &state.Resume{By: a.By, At: e.now, Approval: &a}
		e.next.Run = &live
		e.events = append(e.events, outbox.Event{Kind: outbox.PlanApproved, At: e.now, Task: task, Run: live.ID, By: a.By, Detail: a.Comment, Until: a.Expires})
		return nil
	})
}

// changedBy names everybody because of whom there may be something to approve.
func (e *edit) changedBy(task string) []string {
	by := e.Overrides[task].ChangedBy()
	if e.next.DeletedBy != "" {
		by = append(by, e.next.DeletedBy)
	}
	if e.next.Destroy != nil {
		by = append(by, e.next.Destroy.By)
	}
	return by
}

// mayApprove reports whether somebody may approve what others have changed. Only a
// name that was proven shows that it is somebody else.
func mayApprove(t *config.Task, changedBy []string, by string, authenticated bool) bool {
	return !t.Approval.DistinctApprover || len(changedBy) == 0 || authenticated && !slices.Contains(changedBy, by)
}

// Reject ends the run of a task that waits with a plan. The task is not planned again
// until its input or definition changes, or somebody requests a run. The error is
// ErrNoPlan or ErrOtherPlan.
func (c *Control) Reject(ctx context.Context, task, plan, by, comment string) error {
	return c.edit(ctx, task, func(e *edit) error {
		if _, err := e.waitingPlan(plan); err != nil {
			return err
		}
		run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(task, e.next.Run.ID))
		if err != nil {
			return fmt.Errorf("read run %s: %w", e.next.Run.ID, err)
		}
		if !run.Exists() || run.Data.State != state.RunWaiting {
			return ErrNoPlan // the next tick updates its task
		}
		ended := run.Data
		ended.State, ended.Ended, ended.Cancel, ended.Rejected = state.RunCancelled, e.now, someone(by), true
		ended.Error = "rejected by " + ended.Cancel
		if comment = oneLine(comment); comment != "" {
			ended.Error = state.Cut(ended.Error + ": " + comment)
		}
		e.events = append(e.events, outbox.Event{Kind: outbox.PlanRejected, At: e.now, Task: task, Run: ended.ID, By: ended.Cancel, Detail: comment})
		return c.conclude(ctx, e, run, ended)
	})
}

// Destroy requests that everything that a task has made is destroyed: a task of the
// configuration, or one that is removed and was to be destroyed. To repeat the request
// is harmless. The error is ErrNoTask.
func (c *Control) Destroy(ctx context.Context, task, by string) error {
	return c.change(ctx, task, func(e *edit) error {
		if _, err := c.taskOf(ctx, e, task); err != nil {
			return err
		}
		if e.next.Destroy != nil || e.next.Run != nil && e.next.Run.Destroys() {
			return errNoChange
		}
		e.next.Destroy = &state.Request{By: someone(by), At: e.now}
		return nil
	})
}

// taskOf returns a task of the configuration, or one that is removed and to be
// destroyed. The error is ErrNoTask if there is none.
func (c *Control) taskOf(ctx context.Context, e *edit, name string) (*config.Task, error) {
	if t, ok := e.Config.Task(name); ok {
		return t, nil
	}
	if e.next.OnRemoval == "" || e.Problems[name] != nil {
		return nil, ErrNoTask
	}
	d, err := state.LoadDefinition(ctx, c.Store, name)
	if err != nil {
		return nil, err
	}
	_, t, err := overlay.Restore(e.Config, name, d)
	return t, err
}

// waitingPlan returns the wait of the task's run for an approval of this plan.
func (e *edit) waitingPlan(plan string) (*state.Wait, error) {
	wait := e.next.Waits()
	if wait == nil || wait.For != state.WaitApproval || wait.Content == nil {
		return nil, ErrNoPlan
	}
	if !strings.HasPrefix(wait.ID, plan) {
		return nil, ErrOtherPlan
	}
	return wait, nil
}

// Hold keeps a task from running until somebody releases it, whatever requests a
// run. A run that has begun goes on; one that has not is superseded. The error is
// ErrNoTask.
func (c *Control) Hold(ctx context.Context, task, by, comment string) error {
	return c.change(ctx, task, func(e *edit) error {
		if _, err := c.taskOf(ctx, e, task); err != nil {
			return err
		}
		if e.next.OnHold != nil {
			return errNoChange
		}
		hold := &state.OnHold{By: someone(by), At: e.now, Comment: oneLine(comment)}
		if err := c.supersedeIntended(ctx, e, "the task was put on hold by "+hold.By+" before the run began"); err != nil {
			return err
		}
		e.next.OnHold = hold
		e.events = append(e.events, outbox.Event{Kind: outbox.HoldBegun, At: e.now, Task: task, By: e.next.OnHold.By, Detail: e.next.OnHold.Comment})
		return nil
	})
}

// supersedeIntended ends the run of the task that no runner has claimed: it waits for
// its slot or its container.
func (c *Control) supersedeIntended(ctx context.Context, e *edit, why string) error {
	live := e.next.Run
	if live == nil || live.Wait != nil {
		return nil
	}
	task := state.TaskName(e.record.Key)
	run, _, err := readAnyway[state.Run](ctx, c.Store, state.RunKey(task, live.ID))
	if err != nil {
		return fmt.Errorf("read run %s: %w", live.ID, err)
	}
	if run.Data.State != state.RunIntended || run.Data.AppliedElsewhere() {
		return nil
	}
	ended := run.Data
	ended.State, ended.Ended, ended.Error = state.RunSuperseded, e.now, state.Cut(why)
	return c.conclude(ctx, e, run, ended)
}

// Release ends a Hold. The error is ErrNotOnHold.
func (c *Control) Release(ctx context.Context, task, by string) error {
	return c.edit(ctx, task, func(e *edit) error {
		if e.next.OnHold == nil {
			return ErrNotOnHold
		}
		e.events = append(e.events, outbox.Event{Kind: outbox.HoldEnded, At: e.now, Task: task, By: someone(by), Since: e.next.OnHold.At})
		e.next.OnHold = nil
		return nil
	})
}
