package overview

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Output loads what is kept elsewhere than in the store, by its URL; nil if nothing is.
type Output func(ctx context.Context, url string) ([]byte, error)

// WaitingPlan reads the plan of a task that waits for an approval. If none waits, it
// reads that of the check that has found drift. The error is
// state.ErrNoPlan if there is none.
func (r Reader) WaitingPlan(ctx context.Context, task string, output Output) (apispec.WaitingPlan, error) {
	if len(state.TaskKey(task)) > state.MaxKey {
		return apispec.WaitingPlan{}, state.ErrNoPlan
	}
	rec, err := state.Read[state.Task](ctx, r.Store, state.TaskKey(task))
	if err != nil {
		return apispec.WaitingPlan{}, fmt.Errorf("read task %s: %w", task, err)
	}
	wait := rec.Data.Waits()
	if found := rec.Data.Drifted(); found != nil && rec.Data.Run == nil {
		return r.driftPlan(ctx, task, rec.Data, output)
	}
	if wait == nil || wait.For != state.WaitApproval || wait.Content == nil {
		return apispec.WaitingPlan{}, state.ErrNoPlan
	}
	stored, err := state.Read[state.Run](ctx, r.Store, state.RunKey(task, rec.Data.Run.ID))
	if err != nil {
		return apispec.WaitingPlan{}, fmt.Errorf("read run %s: %w", rec.Data.Run.ID, err)
	}
	run := stored.Data
	shown := apispec.WaitingPlan{ID: wait.ID, Task: task, Run: rec.Data.Run.ID, Since: wait.Since, Until: apiview.Moment(wait.Until), Again: apiview.Moment(wait.Again), Causes: apiview.Causes(*wait),
		Content: apispec.Content{Definition: wait.Content.Definition, Input: wait.Content.Input, Plan: apiview.Optional(wait.Content.Plan), State: apiview.Optional(wait.Content.State)},
		Changes: apiview.Run(run).Changes, Entries: apiview.Entries(run.Entries)}
	if resume := rec.Data.Run.Resume; resume != nil && resume.Approval != nil {
		shown.Approved = new(apiview.Approval(resume.Approval.Given))
	}
	if rec.Data, err = credentials.ProveTask(ctx, r.Store, task, rec.Data); err != nil {
		return apispec.WaitingPlan{}, err
	}
	r.approvers(&shown, *rec.Data.Run)
	if wait.Content.Plan == "" && run.Plan == (state.Kept{}) {
		return shown, nil
	}
	return shown, r.loadPlan(ctx, run, &shown, output)
}

// approvers says who must approve the plan of a waiting run, and who has.
func (r Reader) approvers(shown *apispec.WaitingPlan, live state.LiveRun) {
	given := slices.DeleteFunc(slices.Clone(live.Approvals), func(g state.Given) bool { return !g.Valid(r.Now()) })
	if live.Resume != nil && live.Resume.Approval != nil {
		given = slices.DeleteFunc(live.Resume.Approval.All(), func(g state.Given) bool { return g.Revoked })
	}
	if live.Wait.Needs > 1 {
		shown.Needs, shown.Approvals = &live.Wait.Needs, new(apiview.Approvals(given))
	}
	if len(live.Wait.From) > 0 {
		shown.From = &live.Wait.From
	}
}

// driftPlan reads the plan of the check that has found drift. Once the check is not
// kept any more, what it has found is left.
func (r Reader) driftPlan(ctx context.Context, task string, t state.Task, output Output) (apispec.WaitingPlan, error) {
	found := t.Drifted()
	shown := apispec.WaitingPlan{ID: found.Run, Task: task, Run: found.Run, Since: found.Since, Drift: new(true),
		Causes:  []apispec.Cause{{Rule: string(state.ReasonDrift), Text: found.String()}},
		Content: apispec.Content{Definition: t.Applied.Definition, Input: t.Applied.Digest},
		Changes: apiview.Changes(found.Changes.Counts())}
	stored, err := state.Read[state.Run](ctx, r.Store, state.RunKey(task, found.Run))
	if err != nil {
		return shown, fmt.Errorf("read check %s: %w", found.Run, err)
	}
	if !stored.Exists() {
		return shown, nil
	}
	return shown, r.loadPlan(ctx, stored.Data, &shown, output)
}

// loadPlan loads the plan of a run. What is not kept is left out.
func (r Reader) loadPlan(ctx context.Context, run state.Run, shown *apispec.WaitingPlan, output Output) error {
	text, err := run.Plan.Load(ctx, r.Store, run.Task, output)
	if err == nil {
		shown.Text = new(string(text))
	}
	data, wrong := run.PlanData.Load(ctx, r.Store, run.Task, output)
	if wrong == nil {
		shown.Plan = new(apispec.Plan)
		wrong = json.Unmarshal(data, shown.Plan) // a driver.Plan has this form
	}
	if err = cmp.Or(unless(err, state.ErrNotFound), unless(wrong, state.ErrNotFound)); err != nil {
		return fmt.Errorf("read the plan of run %s: %w", run.ID, err)
	}
	return nil
}

// unless is err, or nil if it is the other one.
func unless(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}
