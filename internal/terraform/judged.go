package terraform

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/terrapulse/terrapulse/internal/state"
)

// Judge says whether a plan that was made for this state may be applied. Its error
// is why not.
type Judge func(ctx context.Context, plan Plan, mark StateMark) error

// ApplyJudged plans, and applies that very plan if judge returns no error. A plan
// without changes is not applied. The plan, which holds secrets, is in a file that
// only this user can read, and only until ApplyJudged returns. Else it works as Apply
// does.
func (d *Dir) ApplyJudged(ctx context.Context, judge Judge) (*state.Changes, error) {
	return d.changeJudged(ctx, judge)
}

// DestroyJudged is ApplyJudged for a plan that destroys everything in the state.
func (d *Dir) DestroyJudged(ctx context.Context, judge Judge) (*state.Changes, error) {
	return d.changeJudged(ctx, judge, tfexec.Destroy(true))
}

func (d *Dir) changeJudged(ctx context.Context, judge Judge, more ...tfexec.PlanOption) (*state.Changes, error) {
	if plansRemotely(d.opts.Backend) {
		return nil, fmt.Errorf("task %s: the backend %s runs plans elsewhere, so that they cannot be judged: use another backend, or remove the task's approval, plan limits and checks",
			d.opts.Task, d.opts.Backend.Type)
	}
	if _, err := d.saveUnsaved(ctx); err != nil {
		return nil, err
	}
	dir, remove, err := scratch("plan-")
	if err != nil {
		return nil, fmt.Errorf("create a directory for the plan of task %s: %w", d.opts.Task, err)
	}
	defer remove()
	file := filepath.Join(dir, "plan")
	raw, err := d.current(ctx)
	if err != nil {
		return nil, err
	}
	mark, err := markOf(raw)
	if err != nil {
		return nil, fmt.Errorf("read the state of task %s, which an approval applies to: %w", d.opts.Task, err)
	}
	plan, err := d.plan(ctx, file, more...)
	if err != nil {
		return nil, err
	}
	plan.New = mark.Lineage == ""
	if err := judge(ctx, plan, mark); err != nil {
		return nil, err
	}
	if !plan.Changes {
		return &state.Changes{}, nil
	}
	return d.change(ctx, "apply", func(ctx context.Context, lock, _ string) error {
		return d.tf.Apply(ctx, tfexec.DirOrPlan(file), tfexec.Lock(true), tfexec.LockTimeout(lock))
	})
}
