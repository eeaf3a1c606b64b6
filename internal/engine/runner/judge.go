package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// judgement says whether a run may apply what it has read and planned. The run is
// judged by exactly that, whatever requested it.
type judgement struct {
	*claim
	task    *config.Task
	out     io.Writer
	done    *result
	sources []guard.Source // what it has read, and what was applied last
	record  *state.Task    // of the task; nil as long as it is not needed
	input   []state.Cause  // why this may not be applied without an approval
	until   []time.Time    // when a guard permits it, each: zero for never
	judged  bool           // a plan was made
	dir     string         // in which checks are run
	// accepted says that a person has approved what a replaced Consul lacks.
	accepted bool
}

// judge returns the judgement of a run of a task. record is that of the task, or nil if it was not
// read. unknown says that it is not known what the task was applied with last.
func (c *claim) judge(ctx context.Context, task *config.Task, record *state.Task, done *result, unknown bool, out io.Writer) (*judgement, error) {
	j := &judgement{claim: c, task: task, done: done, out: out, record: record, sources: Sources(done.differences, state.Task{})}
	if c.claimed.Kind != state.KindApply && c.claimed.Kind != state.KindPlan {
		return j, nil
	}
	if err := j.addPeaks(ctx); err != nil {
		return nil, err
	}
	j.input, j.until = task.InputCauses(j.sources, unknown, c.judgedAt())
	return j, nil
}

// Sources are what the guards judge: what a task with this record would have other than what it was applied
// with.
func Sources(differences []consul.Difference, known state.Task) (all []guard.Source) {
	for _, d := range differences {
		all = append(all, guard.Source{Count: d.Count().WithPeaks(known.Applied.Counts), Changes: d.Changes()})
	}
	return all
}

// run applies or destroys by the driver what the judgement permits. Its error is a
// *driver.WaitError if the run has to wait.
func (j *judgement) run(ctx context.Context, job driver.Job, change call) (driver.Outcome, error) {
	if j.claimed.AppliedElsewhere() {
		if j.claimed.Wait.For.ForPeople() {
			j.beginsElsewhere()
		}
		done, err := change(ctx, job) // it was judged before it began
		if j.claimed.Wait.For == state.WaitRemotePlan && j.unplanned(ctx, err) {
			err = j.waitUnplanned(err)
		}
		return done, err
	}
	j.begins(driver.Plan{Changes: &state.Changes{}}, false)
	judged := j.plansFirst() || len(j.input) > 0
	if !judged {
		if times := j.times(); !times.Open {
			return driver.Outcome{}, j.waitFor(times)
		}
		judged = job.Config.Driver().Kind().PlansAlways
	}
	j.dir = job.Config.Dir()
	if judged || job.Config.Driver().AppliesPlans() {
		job.Judge, job.OnlyIfOlder = j.plan, !judged
	}
	done, err := change(ctx, job)
	if j.unplanned(ctx, err) {
		err = j.waitUnplanned(err)
	}
	if wait := new(driver.WaitError); errors.As(err, &wait) {
		done.Changes = j.done.plan.Changes // what would be done
		if wait.Confirmed != nil {
			j.beginsElsewhere()
		}
	}
	return done, err
}

// unplanned reports whether no plan could be made of data that a guard holds: data that
// is incomplete often makes no valid plan.
func (j *judgement) unplanned(ctx context.Context, err error) bool {
	return err != nil && !j.judged && len(j.input) > 0 && ctx.Err() == nil && !errors.As(err, new(*driver.WaitError)) && !errors.As(err, new(*driver.EndedError))
}

// waitUnplanned returns the error of a run that waits for an approval of its input alone.
func (j *judgement) waitUnplanned(err error) error {
	content := j.content(driver.Plan{})
	causes := append(slices.Clone(j.input), state.Cause{Rule: state.RuleInputGuard, Text: "there is no plan to show: " + state.Cut(err.Error())})
	return j.wait(append(causes, j.unapproved(content)...), content)
}

// plan judges a plan.
func (j *judgement) plan(ctx context.Context, plan driver.Plan) (err error) {
	j.judged, j.done.plan = true, plan
	at, known := j.Now(), false
	defer func() {
		if !known { // else the time of the plan that was approved stays
			j.planned.Store(&at)
		}
	}()
	switch {
	case plan.Changes.Any(), len(plan.Causes) > 0:
	case plan.Commits:
		return j.inWindow(ctx) // what is committed was judged when it was applied
	default:
		return nil
	}
	causes, err := j.causes(ctx)
	if err != nil {
		return err
	}
	based := false
	if len(causes) > 0 {
		if err := j.details(ctx); err != nil {
			return err
		}
		content := j.content(j.done.plan)
		a, err := j.approval(ctx)
		if err != nil {
			return err
		}
		if known = a != nil && j.task.Approval.Enough(*a, j.Now()) && a.Content == content && content.Plan != ""; !known {
			if err := j.show(ctx); err != nil {
				return err
			}
			return j.wait(append(causes, j.unapproved(content)...), content)
		}
		based = state.Wait{Causes: causes}.Guards()
	}
	if err := j.inWindow(ctx); err != nil || !j.begins(j.done.plan, based) {
		return err
	}
	return j.confirm(ctx) // from now on it counts, however the run ends
}

// inWindow returns an error if the plan waits for the windows of the task.
func (j *judgement) inWindow(ctx context.Context) error {
	times := j.times()
	if times.Open {
		return nil
	}
	if err := j.show(ctx); err != nil {
		return err
	}
	return j.waitFor(times)
}

// plansFirst reports whether a plan is judged.
func (j *judgement) plansFirst() bool {
	if j.claimed.Kind == state.KindDestroy {
		return j.task.PlansDestroyFirst()
	}
	return j.task.PlansFirst()
}

// causes returns why a plan needs an approval. Who approves a destroy approves
// that nothing is left: no limit applies to that.
func (j *judgement) causes(ctx context.Context) ([]state.Cause, error) {
	if p := j.done.plan; p.Changes.Destroy > 0 && j.task.Guard.PlanLimited() { // its details say how many resources are left
		if err := j.details(ctx); err != nil {
			return nil, err
		}
	}
	plan := j.done.plan
	refused, err := j.check(ctx)
	if err != nil {
		return nil, err
	}
	refused = append(refused, plan.Causes...)
	if j.claimed.Kind == state.KindDestroy {
		if why := j.task.Removal.Destroy(); why != "" {
			refused = append([]state.Cause{{Rule: state.RuleDestroy, Text: why}}, refused...)
		}
		return refused, nil
	}
	sizes, err := j.sizes(ctx, *plan.Changes)
	if err != nil {
		return nil, err
	}
	causes, until := j.task.PlanCauses(j.input, refused, plan.Counted(), sizes, j.judgedAt())
	j.until = append(j.until, until...)
	return causes, nil
}

// details reads what a driver leaves out of a plan that may not need it.
func (j *judgement) details(ctx context.Context) error {
	detail := j.done.plan.Detail
	if detail == nil {
		return nil
	}
	plan, err := detail(ctx)
	if err != nil {
		return fmt.Errorf("read the details of the plan, by which it is judged: %w", err)
	}
	plan.Causes = j.done.plan.Causes
	j.done.plan = plan
	return nil
}

// show reads all of a plan that waits, for people.
func (j *judgement) show(ctx context.Context) error {
	if err := j.details(ctx); err != nil {
		return err
	}
	text := j.done.plan.Print
	if text == nil {
		return nil
	}
	var err error
	if j.done.plan.Text, err = text(ctx); err != nil {
		return fmt.Errorf("read the plan that waits: %w", err)
	}
	return nil
}

// approval returns the approval of the run as it is now; nil if it has none.
func (j *judgement) approval(ctx context.Context) (*state.Approval, error) {
	if j.claimed.Approval == nil {
		return nil, nil
	}
	a, err := credentials.ProveApproval(ctx, j.Store, j.claimed.Task, *j.claimed.Approval)
	if err != nil {
		return nil, err
	}
	j.claimed.Approval = &a
	return &a, nil
}

// unapproved says what is different from what the approval of the run was for, if that
// had a plan and there is one now, or else from its input.
func (j *judgement) unapproved(now state.Content) []state.Cause {
	a := j.claimed.Approval
	if a == nil {
		return nil
	}
	was, what := a.Content, "another plan"
	if was.Plan == "" || now.Plan == "" {
		was, now, what = was.OfInput(), now.OfInput(), "other data"
	}
	text, differences := fmt.Sprintf("the approval by %s has expired", a.Names()), was.Differences(now)
	switch {
	case a.IsRevoked():
		text = fmt.Sprintf("%s approved it, and since then a token was revoked with which this was done, or the record of the approval is gone", a.Names())
	case !a.Valid(j.Now()):
	case len(differences) > 0:
		text = fmt.Sprintf("%s approved %s: since then, %s changed", a.Names(), what, strings.Join(differences, " and "))
	case !j.task.Approval.Enough(*a, j.Now()):
		text = fmt.Sprintf("%s approved it, and since then the rule or the people in api.access changed: %s", a.Names(), j.task.Approval.Approvers())
	default:
		return nil
	}
	return []state.Cause{{Rule: state.RuleChanged, Text: text}}
}

// content is what would be applied.
func (j *judgement) content(plan driver.Plan) state.Content {
	content := state.Content{Definition: j.done.definition, Plan: plan.Digest, State: plan.State}
	if j.claimed.Kind != state.KindDestroy { // which does not depend on the input
		content.Input = j.done.snap.Digest()
	}
	return content
}

// wait returns the error of a run that waits for an approval.
func (j *judgement) wait(causes []state.Cause, content state.Content) error {
	texts := make([]string, len(causes))
	for i, c := range causes {
		texts[i] = c.Text
	}
	wait := state.Wait{For: state.WaitApproval, Text: strings.Join(texts, "; "), Causes: causes, Content: &content, Rules: j.task.RulesDigest(), Again: j.again(causes),
		Needs: j.task.Approval.Require, From: j.task.Approval.From}
	if !wait.Again.IsZero() {
		wait.Text += "; it is judged again at " + clock.Stamp(wait.Again, wait.Again.UTC())
	}
	fmt.Fprintf(j.out, "\nNothing was applied: the plan waits for an approval: %s.\n", wait.Text)
	return &driver.WaitError{Wait: wait}
}

// times says whether the windows of the task are open.
func (j *judgement) times() window.Verdict {
	change := window.Change{Action: window.Apply, Removals: j.removals()}
	if j.claimed.Kind == state.KindDestroy {
		change = window.Change{Action: window.Destroy}
	}
	return window.Judge(j.task.Windows, change, j.Now())
}

// waitFor returns the error of a run that waits for its window.
func (j *judgement) waitFor(times window.Verdict) error {
	fmt.Fprintf(j.out, "\nNothing was applied: the task is %s.\n", times.Text)
	return &driver.WaitError{Wait: state.Wait{For: state.WaitWindow, Text: times.Text, Rules: j.task.RulesDigest()}}
}

// removals reports whether the run is for a change that only removes entries.
func (j *judgement) removals() bool {
	if code := j.claimed.Reason.Code; code != state.ReasonChanged && code != state.ReasonSchedule {
		return false
	}
	return j.done.entries.OnlyRemovals()
}
