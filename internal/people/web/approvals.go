package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// approvalsPage is the page on which people approve the plans of several tasks at once.
type approvalsPage struct {
	Plans    []planRowOfTask `json:"plans"`
	Together string          `json:"together"` // what all do that the viewer can approve
	Destroys bool            `json:"-"`        // they destroy or replace something
	May      int             `json:"-"`        // how many plans the viewer can approve
	Next     string          `json:"-"`        // link to the further ones; "" if there are none
	Filter   filter          `json:"filter"`
	Chosen   bool            `json:"-"` // the viewer has chosen the tasks in the list
}

// planRowOfTask is a plan that waits, with what keeps the viewer from approving it, or the task from running.
type planRowOfTask struct {
	Task  apispec.TaskOverview `json:"task"`
	Plan  *planView            `json:"plan"`
	Lacks string               `json:"lacks,omitempty"` // why the viewer cannot approve it; "" if they can
	Held  string               `json:"held,omitempty"`  // why it does not run at once when it is approved
}

// lostShown is how many resources that a plan destroys or replaces the list shows.
const lostShown = 20

// Lost are the resources that the plan destroys or replaces.
func (r planRowOfTask) Lost() (lost []planResource) {
	for _, g := range r.Plan.Groups {
		if g.Class == "delete" || g.Class == "replace" {
			lost = append(lost, g.Resources...)
		}
	}
	return lost[:min(len(lost), lostShown)]
}

// MoreLost is how many more there are.
func (r planRowOfTask) MoreLost() (n int) {
	for _, g := range r.Plan.Groups {
		if g.Class == "delete" || g.Class == "replace" {
			n += g.Count
		}
	}
	return max(0, n-lostShown)
}

// plansAtOnce is how many plans are read at a time.
const plansAtOnce = 8

func (p *pages) approvals(r *http.Request) (view, error) {
	f := tasksFilter(r.URL.Query())
	f.path, f.Group, f.Phase = pageURL("approvals"), "", ""
	selected := f.selection()
	selected.Phases, selected.Urgent = []apispec.Phase{selection.Approval}, 0
	selected.Tasks = r.URL.Query()["task"]
	selected.Tasks = selected.Tasks[:min(len(selected.Tasks), perPage)]
	o, err := p.source.selected(r.Context(), selected)
	if err != nil {
		return view{}, err
	}
	plans := make([]*planView, len(o.Tasks))
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(plansAtOnce)
	for i, t := range o.Tasks {
		group.Go(func() (err error) {
			plans[i], err = p.plan(ctx, t)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return view{}, err
	}
	page := approvalsOf(o.Tasks, plans, p.Viewer(r))
	page.Chosen = len(selected.Tasks) > 0
	if page.Filter = f; o.Next != nil {
		page.Next = f.link("after", *o.Next)
	}
	return view{title: "Approve several plans", template: "approvals", still: true, data: page}, nil // nothing changes under the eyes of who decides
}

// approvalsOf is what the page shows of these tasks with their plans, some of which are nil.
func approvalsOf(tasks []apispec.TaskOverview, plans []*planView, viewer access.Caller) approvalsPage {
	page := approvalsPage{Plans: []planRowOfTask{}}
	var sum apispec.Changes
	for i, t := range tasks {
		plan := plans[i]
		if plan == nil || apispec.Deref(plan.Drift) {
			continue
		}
		row := planRowOfTask{Task: t, Plan: plan, Lacks: lacksApproval(t, plan, viewer)}
		if h := t.OnHold; h != nil {
			row.Held = fmt.Sprintf("The task is on hold by %s: it applies the plan when somebody releases it.", h.By)
		}
		if page.Plans = append(page.Plans, row); row.Lacks != "" {
			continue
		}
		page.May++
		page.Destroys = page.Destroys || len(row.Lost()) > 0
		if c := plan.Changes; c != nil {
			sum.Add, sum.Change, sum.Destroy = sum.Add+c.Add, sum.Change+c.Change, sum.Destroy+c.Destroy
		}
	}
	page.Together = apiview.ChangesOf(&sum).ToDo()
	return page
}

// lacksApproval says why a viewer cannot approve a plan; "" if they can.
func lacksApproval(t apispec.TaskOverview, plan *planView, viewer access.Caller) string {
	switch {
	case plan.Approved != nil:
		return "It is approved already."
	case plan.ApprovedBy(viewer.Name):
		return "You have approved it."
	case !viewer.Rights.May(roles.Approve, t.Name):
		return "You need the role approve."
	}
	return ""
}

// errNotAll says that some of several plans were not approved.
var errNotAll = errors.New("not every plan is approved")

// approvePlans approves the plans that the viewer has chosen: each as it was shown.
func (p *pages) approvePlans(ctx context.Context, r *http.Request, by string) error {
	asked := apispec.ApprovalsRequest{Comment: apiview.Optional(r.PostFormValue("comment")), By: apiview.Optional(by)}
	for _, chosen := range r.PostForm["plan"] {
		task, plan, ok := strings.Cut(chosen, "/")
		if !ok || plan == "" {
			return errNoPlan
		}
		asked.Plans = append(asked.Plans, apispec.PlanOfTask{Task: task, Plan: plan})
	}
	if len(asked.Plans) == 0 {
		return errNoPlan
	}
	results, err := p.source.ApprovePlans(ctx, asked)
	if err != nil && len(results) == 0 {
		return err
	}
	if err != nil { // a further request has failed
		for _, plan := range asked.Plans[len(results):] {
			results = append(results, apispec.ApprovalResult{Task: plan.Task, Plan: plan.Plan, Error: new("it is not known whether it is approved: " + err.Error())})
		}
	}
	refused := slices.DeleteFunc(slices.Clone(results), func(r apispec.ApprovalResult) bool { return r.Approved })
	if len(refused) == 0 {
		return nil
	}
	var why []string
	for _, r := range refused {
		why = append(why, r.Task+": "+apispec.Deref(r.Error))
	}
	return fmt.Errorf("%w: %d of %d are. The others: %s", errNotAll, len(results)-len(refused), len(results), strings.Join(why, "; "))
}
