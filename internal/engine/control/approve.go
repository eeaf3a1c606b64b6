package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// What Approve, Reject, Hold and Release refuse.
var (
	ErrOtherPlan = errors.New("another plan waits for an approval now")
	ErrNotOnHold = errors.New("the task is not on hold")
	// ErrNotReplaced is what ApproveAll returns if no task waits because Consul was
	// replaced.
	ErrNotReplaced = errors.New("no task waits because Consul was replaced")
)

// Approve permits to apply the plan that a task waits with: only what the plan
// shows, and only until the approval expires. plan is the id of the plan, or how it
// begins; "" for the one that waits now. If several people must approve, the run goes on
// when the last of them has. To repeat an approval is harmless. The error is state.ErrNoPlan,
// ErrOtherPlan, approval.ErrSamePerson, ErrNoTask, ErrDisabled or an *approval.RefusedError.
func (c *Control) Approve(ctx context.Context, task, plan string, who identity.Identity, comment string) error {
	return c.change(ctx, task, acts(audit.Approve, task, who.Name), func(e *Edit) error {
		wait, err := e.waitingPlan(plan)
		if err != nil {
			return err
		}
		t, err := c.taskOf(ctx, e, task)
		if err != nil {
			return err
		}
		if e.Next, err = credentials.ProveTask(ctx, c.Store, task, e.Next); err != nil {
			return err
		}
		before := e.Next.Run.Approvals
		if r := e.Next.Run.Resume; r != nil && r.Approval != nil && r.Approval.Content == *wait.Content {
			if r.Approval.Valid(e.Now) && t.Approval.Enough(*r.Approval, e.Now) {
				return errNoChange
			}
			before = r.Approval.All()
		}
		who.Name = someone(who.Name)
		g, err := t.Approval.Given(who, e.changedBy(task), wait.Since, e.Now, state.Line(comment))
		if err != nil {
			return err
		}
		given := t.Approval.Counting(before, e.Now)
		if repeated, err := t.Approval.Repeated(given, g); err != nil {
			return err
		} else if repeated {
			return errNoChange
		}
		g.ID = uuid.NewString()
		e.Others = append(e.Others, g.Record(task, *wait.Content))
		e.decides(comment, *wait)
		e.approved(append(given, g), t.Approval.Needed(), *wait.Content)
		return nil
	})
}

// decides completes the entry of a decision on the plan that waits.
func (e *Edit) decides(comment string, wait state.Wait) {
	e.does.Run, e.does.Plan, e.does.Content, e.does.Comment = e.Next.Run.ID, wait.ID, wait.Content, comment
}

// approved notes the approvals of the waiting run, of which the last is new. The run goes on if they
// are enough.
func (e *Edit) approved(given []state.Given, needed int, content state.Content) {
	live, last := *e.Next.Run, given[len(given)-1]
	event := outbox.Event{Kind: outbox.PlanApproved, At: e.Now, Task: state.TaskName(e.Record.Key), Run: live.ID, By: last.By, Detail: last.Comment, Until: last.Expires}
	if needed > 1 {
		event.Approvals, event.Needs = len(given), needed
	}
	if live.Resume != nil && live.Resume.Approval != nil {
		live.Resume = nil // by approvals that are not enough any more
	}
	if live.Approvals = given; len(given) >= needed {
		a := state.ApprovalOf(content, given)
		if content.Plan == "" { // it also permits later runs to apply this input
			e.Next.Accept(&state.Accepted{Approval: a, Observed: live.Input})
		}
		live.Approvals, live.Resume = nil, &state.Resume{By: a.Names(), At: e.Now, Approval: &a}
	}
	e.Next.Run = &live
	e.events = append(e.events, event)
}

// changedBy names everybody because of whom there may be something to approve.
func (e *Edit) changedBy(task string) []string {
	by := e.Overrides[task].ChangedBy()
	if e.Next.Gone.Deleted != nil {
		by = append(by, e.Next.Gone.Deleted.By, e.Next.Gone.Deleted.Account)
	}
	if e.Next.Destroy != nil {
		by = append(by, e.Next.Destroy.By, e.Next.Destroy.Account)
	}
	return slices.DeleteFunc(by, func(name string) bool { return name == "" })
}

// Reject ends the run of a task that waits with a plan. The task is not planned again
// until its input or definition changes, or somebody requests a run. The error is
// state.ErrNoPlan or ErrOtherPlan.
func (c *Control) Reject(ctx context.Context, task, plan, by, comment string) error {
	return c.edit(ctx, task, acts(audit.Reject, task, by), func(e *Edit) error {
		wait, err := e.waitingPlan(plan)
		if err != nil {
			return err
		}
		e.decides(comment, *wait)
		run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(task, e.Next.Run.ID))
		if err != nil {
			return fmt.Errorf("read run %s: %w", e.Next.Run.ID, err)
		}
		if !run.Exists() || run.Data.State != state.RunWaiting {
			return state.ErrNoPlan // the next tick updates its task
		}
		ended := run.Data
		ended.State, ended.Ended, ended.Cancel, ended.Rejected = state.RunCancelled, e.Now, someone(by), true
		ended.Error = "rejected by " + ended.Cancel
		if comment = state.Line(comment); comment != "" {
			ended.Error = state.Cut(ended.Error + ": " + comment)
		}
		e.events = append(e.events, outbox.Event{Kind: outbox.PlanRejected, At: e.Now, Task: task, Run: ended.ID, By: ended.Cancel, Detail: comment, Trace: ended.Trace().String()})
		return c.conclude(ctx, e, run, ended)
	})
}

// Destroy requests that everything that a task has made is destroyed: a task of the
// configuration, or one that is removed and was to be destroyed. To repeat the request
// is harmless. The error is ErrNoTask.
func (c *Control) Destroy(ctx context.Context, task, by string) error {
	return c.change(ctx, task, acts(audit.Destroy, task, by), func(e *Edit) error {
		if _, err := c.taskOf(ctx, e, task); err != nil {
			return err
		}
		if e.Next.Destroy != nil || e.Next.Run != nil && e.Next.Run.Destroys() {
			return errNoChange
		}
		e.Next.RequestDestroy(someone(by), accountOf(ctx, by), e.Now)
		return nil
	})
}

// taskOf returns a task of the configuration, or one that is removed and to be
// destroyed. The error is ErrNoTask if there is none.
func (c *Control) taskOf(ctx context.Context, e *Edit, name string) (*config.Task, error) {
	if t, ok := e.Config.Task(name); ok {
		return t, nil
	}
	if e.Next.OnRemoval == "" || e.Problems[name] != nil {
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
func (e *Edit) waitingPlan(plan string) (*state.Wait, error) {
	wait := e.Next.Waits()
	if wait == nil || wait.For != state.WaitApproval || wait.Content == nil {
		return nil, state.ErrNoPlan
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
	return c.change(ctx, task, acts(audit.Hold, task, by), func(e *Edit) error {
		e.does.Comment = comment
		if _, err := c.taskOf(ctx, e, task); err != nil {
			return err
		}
		if e.Next.OnHold != nil {
			return errNoChange
		}
		hold := state.OnHold{By: someone(by), At: e.Now, Comment: state.Line(comment)}
		if err := c.supersedeIntended(ctx, e, "the task was put on hold by "+hold.By+" before the run began"); err != nil {
			return err
		}
		e.Next.PutOnHold(hold)
		e.events = append(e.events, outbox.Event{Kind: outbox.HoldBegun, At: e.Now, Task: task, By: hold.By, Detail: hold.Comment})
		return nil
	})
}

// supersedeIntended ends the run of the task that no runner has claimed: it waits for
// its slot or its container.
func (c *Control) supersedeIntended(ctx context.Context, e *Edit, why string) error {
	live := e.Next.Run
	if live == nil || live.Wait != nil {
		return nil
	}
	task := state.TaskName(e.Record.Key)
	run, _, err := state.ReadAnyway[state.Run](ctx, c.Store, state.RunKey(task, live.ID))
	if err != nil {
		return fmt.Errorf("read run %s: %w", live.ID, err)
	}
	if run.Data.State != state.RunIntended || run.Data.AppliedElsewhere() {
		return nil
	}
	ended := run.Data
	ended.State, ended.Ended, ended.Error = state.RunSuperseded, e.Now, state.Cut(why)
	return c.conclude(ctx, e, run, ended)
}

// Release ends a Hold. The error is ErrNotOnHold.
func (c *Control) Release(ctx context.Context, task, by string) error {
	return c.edit(ctx, task, acts(audit.Release, task, by), func(e *Edit) error {
		if e.Next.OnHold == nil {
			return ErrNotOnHold
		}
		e.events = append(e.events, outbox.Event{Kind: outbox.HoldEnded, At: e.Now, Task: task, By: someone(by), Since: e.Next.OnHold.At})
		e.Next.Release()
		return nil
	})
}

// ApproveAll permits all tasks to lose the entries that a replaced Consul does not
// have. It applies to what the latest tick was shown: if the next tick is shown
// something else, it is void. A task that requires another approver, or more of them, stays held
// until they approve. To repeat it is harmless. The error is ErrNotReplaced.
func (c *Control) ApproveAll(ctx context.Context, who identity.Identity, comment string) error {
	does := acts(audit.ApproveAll, "", who.Name)
	does.Comment = comment
	return c.write(ctx, does, func(rec *state.Reconcile) ([]state.Change, error) {
		if rec.Replaced == nil || rec.Replaced.Tasks == 0 {
			return nil, ErrNotReplaced
		}
		replaced := *rec.Replaced
		does.Detail = replaced.Detail()
		if was := replaced.Approved; was != nil && was.Shown == replaced.Shown { // no tick has acted on it yet
			if was.By == someone(who.Name) {
				return nil, errNoChange
			}
			replaced.Earlier = append(slices.Clone(replaced.Earlier), *was)
		}
		replaced.Approved = &state.ReplacedApproval{By: someone(who.Name), Also: who.Also, Groups: who.Groups, Authenticated: who.Proven(), Proof: who.Proof, Account: who.Account, Made: who.Made,
			At: c.Now(), Comment: state.Line(comment), Shown: replaced.Shown}
		rec.Replaced = &replaced
		return nil, nil
	})
}
