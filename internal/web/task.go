package web

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/terrapulse/terrapulse/internal/apiclient"
	"github.com/terrapulse/terrapulse/internal/apispec"
)

// taskPage is the page of one task.
type taskPage struct {
	Task       apispec.TaskOverview `json:"task"`
	Definition *apispec.Task        `json:"definition,omitempty"` // none of a removed task
	Plan       *planView            `json:"plan,omitempty"`       // that waits for an approval
	Runs       []apispec.Run        `json:"runs"`
	Chart      chart                `json:"-"`
	Can        can                  `json:"-"`
}

// can says which buttons make sense.
type can struct{ Decide, Hold, Release, Run, Retry, Enable, Disable, Cancel bool }

func (p *pages) task(r *http.Request) (view, error) {
	name := r.PathValue("name")
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	i := slices.IndexFunc(o.Tasks, func(t apispec.TaskOverview) bool { return t.Name == name })
	if i < 0 {
		return view{}, errNoPage
	}
	page := taskPage{Task: o.Tasks[i]}
	if page.Runs, err = read(r.Context(), p.source, "runs/"+name, func(ctx context.Context) ([]apispec.Run, error) { return p.source.Runs(ctx, name) }); err != nil {
		return view{}, err
	}
	definition, err := read(r.Context(), p.source, "task/"+name, func(ctx context.Context) (apispec.Task, error) { return p.source.Task(ctx, name) })
	switch {
	case err == nil:
		page.Definition = &definition
	case !missing(err):
		return view{}, err
	}
	if run := page.Task.Run; run != nil && run.Wait != nil && run.Wait.For == apispec.WaitForApproval {
		waiting, err := read(r.Context(), p.source, "plan/"+name, func(ctx context.Context) (apispec.WaitingPlan, error) { return p.source.WaitingPlan(ctx, name) })
		switch {
		case err == nil:
			page.Plan = planOf(waiting)
		case !missing(err):
			return view{}, err
		}
	}
	page.Chart, page.Can = chartOf(page.Runs), canDo(page)
	return view{title: name, template: "task", topic: name, data: page}, nil
}

// missing reports whether the API says that what was asked for does not exist.
func missing(err error) bool {
	var refused *apiclient.Error
	return errors.As(err, &refused) && refused.Status == http.StatusNotFound
}

func canDo(p taskPage) can {
	t, live := p.Task, p.Task.Run
	exists := t.Phase != apispec.PhaseRemoved && t.Phase != apispec.PhaseCorrupt
	held := t.Reason.Code == "on_hold"
	return can{
		Decide: p.Plan != nil, Hold: exists && t.Enabled && !held, Release: held,
		Run: exists && t.Enabled && live == nil, Enable: exists && !t.Enabled, Disable: exists && t.Enabled,
		Cancel: live != nil,
	}
}

// planView is a plan that waits, its resources by what happens to them, the most
// dangerous first.
type planView struct {
	apispec.WaitingPlan
	Groups []planGroup `json:"-"`
}

type planGroup struct {
	Action    string
	Resources []apispec.ResourceChange
}

// planActions are in the order in which people should see them.
var planActions = []string{"delete", "replace", "update", "create", "forget", "import", "move", "read"}

func planOf(w apispec.WaitingPlan) *planView {
	v := &planView{WaitingPlan: w}
	if w.Plan == nil {
		return v
	}
	by := map[string][]apispec.ResourceChange{}
	for _, r := range w.Plan.Resources {
		by[r.Action] = append(by[r.Action], r)
	}
	actions := slices.Clone(planActions)
	for _, r := range w.Plan.Resources {
		if !slices.Contains(actions, r.Action) {
			actions = append(actions, r.Action) // of a later Terraform
		}
	}
	for _, action := range actions {
		if len(by[action]) > 0 {
			v.Groups = append(v.Groups, planGroup{action, by[action]})
		}
	}
	return v
}
