package api

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// getTaskPlan answers with the plan of a task that waits for an approval.
func (a *api) getTaskPlan(r *http.Request) (any, error) {
	plan, err := a.reader().WaitingPlan(r.Context(), r.PathValue("name"), a.Control.Output)
	return apispec.WaitingPlanResponse{RequestID: middleware.ID(r), Waiting: plan}, a.orNoTask(r, err)
}

// decidePlan approves or rejects the plan that a task waits with.
func (a *api) decidePlan(r *http.Request, asked apispec.ApprovalRequest) (any, error) {
	who, task := by(r).Or(apispec.Deref(asked.By)), r.PathValue("name")
	plan, comment := asked.Plan, state.Cut(apispec.Deref(asked.Comment))
	var err error
	if asked.Decision == apispec.ApprovalDecisionReject {
		err = a.Control.Reject(r.Context(), task, plan, who.Name, comment)
	} else {
		err = a.Control.Approve(r.Context(), task, plan, who, comment)
	}
	return answer{status: http.StatusAccepted, body: apispec.RequestID{RequestID: middleware.ID(r)}}, a.orNoTask(r, err)
}

// approvePlans approves the plans of several tasks, each for itself.
func (a *api) approvePlans(r *http.Request, asked apispec.ApprovalsRequest) (any, error) {
	answer := apispec.ApprovalsResponse{RequestID: middleware.ID(r)}
	for i, plan := range asked.Plans {
		result, failed := a.approvePlan(r, asked, plan)
		switch {
		case failed != nil && i == 0:
			return nil, failed // the others would fail, too: the sender repeats the request
		case failed != nil:
			answer.Results = append(answer.Results, unfinishedApprovals(asked.Plans[i:], failed)...)
			return answer, nil
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

// approvePlan approves one of several plans. It has failed if that is nothing that the sender did wrong.
func (a *api) approvePlan(r *http.Request, asked apispec.ApprovalsRequest, plan apispec.PlanOfTask) (result apispec.ApprovalResult, failed *refusal) {
	sender := by(r)
	of := r.Clone(r.Context())
	of.SetPathValue("name", plan.Task) // what is said names the task
	err := sender.Need(roles.Approve, plan.Task)
	if err == nil {
		err = a.orNoTask(of, a.Control.Approve(r.Context(), plan.Task, plan.Plan, sender.Or(apispec.Deref(asked.By)), state.Cut(apispec.Deref(asked.Comment))))
	}
	result = apispec.ApprovalResult{Task: plan.Task, Plan: plan.Plan, Approved: err == nil}
	if err != nil {
		refused := a.refusalOf(of, err)
		if refused.status >= http.StatusInternalServerError {
			return result, refused
		}
		a.noteRefused(of, err)
		result.Error = &refused.text
	}
	return result, nil
}

// unfinishedApprovals are the results of the plans from the one on that failed.
func unfinishedApprovals(plans []apispec.PlanOfTask, failed *refusal) []apispec.ApprovalResult {
	results := make([]apispec.ApprovalResult, len(plans))
	for i, plan := range plans {
		why := "not tried, because the approval of task '" + plans[0].Task + "' failed: repeat the request"
		if i == 0 {
			why = "it is not known whether this approval is recorded: repeat the request: " + failed.text
		}
		results[i] = apispec.ApprovalResult{Task: plan.Task, Plan: plan.Plan, Error: &why}
	}
	return results
}

// approveConsul approves what all tasks lose by a replaced Consul.
func (a *api) approveConsul(r *http.Request, asked apispec.HoldRequest) (any, error) {
	who := by(r).Or(apispec.Deref(asked.By))
	err := a.Control.ApproveAll(r.Context(), who, apispec.Deref(asked.Comment))
	return answer{status: http.StatusAccepted, body: apispec.RequestID{RequestID: middleware.ID(r)}}, err
}

// holdTask keeps a task from running.
func (a *api) holdTask(r *http.Request, asked apispec.HoldRequest) (any, error) {
	who := by(r).Or(apispec.Deref(asked.By))
	err := a.Control.Hold(r.Context(), r.PathValue("name"), who.Name, apispec.Deref(asked.Comment))
	return apispec.RequestID{RequestID: middleware.ID(r)}, err
}

// destroyTask requests that everything that a task has made is destroyed.
func (a *api) destroyTask(r *http.Request) (any, error) {
	who := by(r).Or(r.URL.Query().Get("by"))
	err := a.Control.Destroy(r.Context(), r.PathValue("name"), who.Name)
	return answer{status: http.StatusAccepted, body: apispec.RequestID{RequestID: middleware.ID(r)}}, err
}

// releaseTask releases a task that is on hold.
func (a *api) releaseTask(r *http.Request) (any, error) {
	who := by(r).Or(r.URL.Query().Get("by"))
	err := a.Control.Release(r.Context(), r.PathValue("name"), who.Name)
	return apispec.RequestID{RequestID: middleware.ID(r)}, a.orNoTask(r, err)
}

// orNoTask is the error of a request about a plan or a hold: that there is no such task, or what it
// does instead of waiting for an approval. A removed task may wait, too.
func (a *api) orNoTask(r *http.Request, err error) error {
	if !errors.Is(err, state.ErrNoPlan) && !errors.Is(err, control.ErrNotOnHold) {
		return err
	}
	name := r.PathValue("name")
	if len(state.TaskKey(name)) > state.MaxKey {
		return control.ErrNoTask
	}
	known, failed := state.Read[state.Task](r.Context(), a.Control.Store, state.TaskKey(name))
	if failed == nil && !known.Exists() {
		_, _, failed = a.task(r.Context(), name)
	}
	if view := (lifecycle.Facts{Name: name, Task: known.Data, Resumed: true}).Assess(); failed == nil && errors.Is(err, state.ErrNoPlan) && view.Reason.Text != "" {
		return refuse(http.StatusNotFound, "no plan of task '%s' waits for an approval; it is %s: %s", name, view.Phase, view.Reason.Text)
	}
	return cmp.Or(failed, err)
}
