package web

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// taskPage is the page of one task.
type taskPage struct {
	Task       apispec.TaskOverview `json:"task"`
	Definition *apispec.Task        `json:"definition,omitempty"` // none of a removed task
	Plan       *planView            `json:"plan,omitempty"`       // that waits for an approval, or shows the drift
	Runs       []apispec.Run        `json:"runs"`                 // the latest first
	Actions    []action             `json:"actions"`              // what the viewer can do now

	MayAct bool   `json:"-"` // the viewer may do something with the task
	Lacks  string `json:"-"` // which roles the other actions need; "" if there are none

	Entries  *apispec.EntryChanges `json:"-"` // what differs in Consul from what was applied last
	Decide   []action              `json:"-"` // those of Actions that are about the plan
	Others   []action              `json:"-"` // the other ones
	Charts   []chart               `json:"-"`
	Source   string                `json:"-"` // the definition as in a task file
	Bundle   string                `json:"-"` // that the definition comes from; "" if it comes from no bundle
	PlanText planText              `json:"-"`
}

// shownRuns is how many runs the page shows; the others are folded away.
const shownRuns = 8

// Latest and Earlier are the runs that the page shows, and those that it folds away.
func (p taskPage) Latest() []apispec.Run  { return p.Runs[:min(len(p.Runs), shownRuns)] }
func (p taskPage) Earlier() []apispec.Run { return p.Runs[min(len(p.Runs), shownRuns):] }

// Failed is the latest run if it is why the task fails.
func (p taskPage) Failed() *apispec.Run {
	if last := p.Task.LastRun; p.Task.Run == nil && last != nil && apispec.Deref(last.Error) != "" &&
		(last.State == apispec.RunStateFailed || last.State == apispec.RunStateLost) {
		return last
	}
	return nil
}

// SinceVerified are the runs, the latest first, that may have applied something since the latest verified one: also
// those that failed. Before that one, there may be others that are not kept any more.
func (p taskPage) SinceVerified() *runsSince {
	u := p.Task.Unverified
	if u == nil {
		return nil
	}
	var runs []apispec.Run
	for _, r := range p.Runs {
		changes := r.State == apispec.RunStateSucceeded || r.State == apispec.RunStateFailed || r.State == apispec.RunStateLost || r.State == apispec.RunStateInterrupted
		if r.Kind == apispec.RunKindApply && changes && r.Ended != nil && (u.Verified == nil || r.Ended.After(*u.Verified)) {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	shown := min(len(runs), shownRuns)
	return &runsSince{Shown: runs[:shown], More: len(runs) - shown}
}

// runsSince are the latest runs since a time, and how many others there are.
type runsSince struct {
	Shown []apispec.Run
	More  int
}

func (p *pages) task(r *http.Request) (view, error) {
	name := r.PathValue("name")
	o, task, err := p.source.task(r.Context(), name)
	if err != nil {
		return view{}, err
	}
	page := taskPage{Task: *task}
	if page.Task.Origin.File != nil && !page.Task.Origin.API {
		page.Bundle = apispec.Deref(o.Bundle)
	}
	if page.Runs, err = read(r.Context(), p.source, "runs/"+name, func(ctx context.Context) ([]apispec.Run, error) { return p.source.Runs(ctx, name) }); err != nil {
		return view{}, err
	}
	if i := slices.IndexFunc(page.Runs, func(r apispec.Run) bool { return page.Task.LastRun != nil && r.ID == page.Task.LastRun.ID }); i >= 0 {
		page.Task.LastRun = &page.Runs[i] // which says more
	}
	definition, err := read(r.Context(), p.source, "task/"+name, func(ctx context.Context) (apispec.Task, error) { return p.source.Task(ctx, name) })
	switch {
	case err == nil:
		page.Definition, page.Source = &definition, sourceOf(definition, apispec.Deref(page.Task.Origin.File))
	case !apiclient.Missing(err):
		return view{}, err
	}
	if page.Plan, err = p.plan(r.Context(), page.Task); err != nil {
		return view{}, err
	}
	if page.Plan != nil {
		page.PlanText = planTextOf(apispec.Deref(page.Plan.Text))
	}
	page.Entries = entriesOf(page)
	page.Charts = chartsOf(page.Runs)
	viewer := p.Viewer(r)
	page.Actions, page.Lacks = permitted(actionsOf(page), viewer, name)
	page.MayAct = len(viewer.Rights.On(name)) > 1 // all roles include view
	for _, a := range page.Actions {
		if a.Plan != "" {
			page.Decide = append(page.Decide, a)
		} else {
			page.Others = append(page.Others, a)
		}
	}
	return view{title: name, template: "task", topic: name, shown: o.topics, data: page}, nil
}

// plan reads the plan that a task waits with, or that shows its drift; nil if there is
// none.
func (p *pages) plan(ctx context.Context, t apispec.TaskOverview) (*planView, error) {
	waits := t.Run != nil && t.Run.Wait != nil && t.Run.Wait.For == apispec.WaitForApproval
	drifted := t.Run == nil && t.Drift != nil && t.Drift.Found != nil
	if !waits && !drifted {
		return nil, nil
	}
	waiting, err := read(ctx, p.source, "plan/"+t.Name, func(ctx context.Context) (apispec.WaitingPlan, error) { return p.source.WaitingPlan(ctx, t.Name) })
	switch {
	case apiclient.Missing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case drifted && waiting.Plan == nil && waiting.Text == nil:
		return nil, nil // the check is not kept any more
	}
	return planOf(waiting), nil
}

// planAsText sends the plan of a task in Terraform's words.
func (p *pages) planAsText(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	waiting, err := read(r.Context(), p.source, "plan/"+name, func(ctx context.Context) (apispec.WaitingPlan, error) { return p.source.WaitingPlan(ctx, name) })
	if err == nil && apispec.Deref(waiting.Text) == "" {
		err = errNoPage
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, plain(*waiting.Text)) // an error means that the client has gone
}

// entriesOf are the entries in Consul that differ from what was applied last, as far as
// they are known: those that no run has taken up, or else those of the run under way.
func entriesOf(p taskPage) *apispec.EntryChanges {
	switch t := p.Task; {
	case t.Entries != nil:
		return t.Entries
	case p.Plan != nil && p.Plan.Entries != nil:
		return p.Plan.Entries
	case t.Run != nil:
		return t.Run.Entries
	}
	return nil
}
