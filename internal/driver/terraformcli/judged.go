package terraformcli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/terrapulse/terrapulse/internal/record/state"
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
	if d.opts.Backend.PlansRemotely() {
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
	makePlan := d.planEvents
	if d.bin.Version.LessThan(printsEvents) {
		makePlan = d.plan
	}
	plan, err := makePlan(ctx, file, more...)
	if err != nil {
		return nil, err
	}
	plan.New = mark.Lineage == ""
	if err := judge(ctx, plan, mark); err != nil {
		return nil, err
	}
	if !plan.Changes {
		d.notePlanned(ctx, plan)
		d.made = d.planned
		return &state.Changes{}, nil
	}
	// Terraform refuses to apply the plan if the state is not that of the plan any more.
	done, err := d.change(ctx, "apply", &mark, func(ctx context.Context, lock, _ string) error {
		return d.tf.Apply(ctx, tfexec.DirOrPlan(file), tfexec.Lock(true), tfexec.LockTimeout(lock), tfexec.Reattach(d.attached))
	})
	if done != nil {
		done.Resources = plan.Summary.Resources // the apply of a plan does not print it
	}
	return done, err
}

// planEvents is plan, which reads Terraform's events. They say how many resources the
// plan creates, changes and destroys; so most plans need no other start of Terraform
// to be judged. The JSON is read at once if the events are not clear.
func (d *Dir) planEvents(ctx context.Context, file string, more ...tfexec.PlanOption) (Plan, error) {
	var plan Plan
	var events *eventReader
	err := d.attempt(ctx, "plan", func(lock, varFile string) error {
		// PlanJSON would start Terraform once more, to read its version.
		opts := append(options[tfexec.PlanOption](true, lock, varFile), tfexec.Out(file), tfexec.Dir("-json"))
		d.planned = newInventory()
		events = &eventReader{clean: d.scrub.Clean, found: d.planned}
		return d.runTo(ctx, "plan", &output{decode: events.line}, func(ctx context.Context) (err error) {
			plan.Changes, err = d.tf.Plan(ctx, append(append(opts, tfexec.Reattach(d.attached)), more...)...)
			return err
		})
	})
	if err != nil {
		return plan, err
	}
	plan.Clean, plan.Summary = d.scrub.Clean, events.changes()
	d.warned = events.warned
	plan.Print = func(ctx context.Context) (string, error) { return d.print(ctx, file) }
	plan.Show = func(ctx context.Context) (*tfjson.Plan, error) { return d.show(ctx, file) }
	if !events.complete() {
		plan.JSON, err = d.show(ctx, file)
	}
	return plan, err
}
