package api

import (
	"context"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/overview"
	"github.com/terrapulse/terrapulse/internal/request"
	"github.com/terrapulse/terrapulse/internal/state"
)

// getOverview answers with the phase of every task, and with who leads.
func (a *api) getOverview(w http.ResponseWriter, r *http.Request) {
	o, err := a.overview(r.Context())
	if err != nil {
		a.fail(w, r, "", err)
		return
	}
	write(w, http.StatusOK, struct {
		apispec.RequestID
		apispec.Overview
	}{apispec.RequestID{RequestID: request.ID(r)}, OverviewOf(o)})
}

func (a *api) overview(ctx context.Context) (overview.Overview, error) {
	effective, err := a.Control.Config(ctx)
	if err != nil {
		return overview.Overview{}, err
	}
	return a.reader().Read(ctx, effective)
}

func (a *api) reader() overview.Reader {
	return overview.Reader{Store: a.Control.Store, Began: a.Began, Now: a.Control.Now}
}

// getTaskOverview answers with the phase of one task, and why it is in it.
func (a *api) getTaskOverview(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	task, err := a.taskOverview(r.Context(), name)
	if err != nil {
		a.fail(w, r, name, err)
		return
	}
	write(w, http.StatusOK, apispec.TaskOverviewResponse{RequestID: request.ID(r), Task: taskOf(task)})
}

func (a *api) taskOverview(ctx context.Context, name string) (overview.Task, error) {
	definition, err := a.task(ctx, name)
	if err != nil {
		return overview.Task{}, err
	}
	effective, err := a.Control.Config(ctx)
	if err != nil {
		return overview.Task{}, err
	}
	return a.reader().ReadTask(ctx, effective, definition)
}

// OverviewOf returns an overview as the API shows it.
func OverviewOf(o overview.Overview) apispec.Overview {
	shown := apispec.Overview{
		Healthy: o.Unhealthy == "", Unhealthy: optional(o.Unhealthy), LastGoodTick: moment(o.LastGoodTick),
		Problem: optional(o.Problem), Since: moment(o.Since), Bundle: optional(o.Bundle),
		Tasks: make([]apispec.TaskOverview, len(o.Tasks)), Overrides: make([]apispec.Override, len(o.Overrides)),
	}
	if l := o.Leader; l != nil {
		shown.Leader = &apispec.Leader{Owner: l.Owner, Fence: int64(l.Fence), Until: l.Expires}
	}
	if r := o.Refused; r != nil {
		shown.Refused = &apispec.Refused{Bundle: optional(r.Bundle), Error: r.Error, Since: r.Since}
	}
	for i, t := range o.Tasks {
		shown.Tasks[i] = taskOf(t)
	}
	for i, override := range o.Overrides {
		shown.Overrides[i] = *overrideOf(&override)
	}
	return shown
}

func taskOf(t overview.Task) apispec.TaskOverview {
	shown := apispec.TaskOverview{
		Name: t.Name, Phase: apispec.Phase(t.Phase), Enabled: t.Enabled, Override: overrideOf(t.Override),
		Reason: ReasonOf(t.Reason), Due: moment(t.Due), Applied: moment(t.Applied), Failures: optional(t.Failures),
	}
	if d := t.Definition; d != nil {
		shown.Origin = apispec.Origin{API: d.FromAPI, File: optional(d.Source.File), Line: optional(d.Source.Line)}
	} else if o := t.Override; o != nil {
		shown.Origin.API = len(o.Definition) > 0
	}
	if t.Pending != nil {
		shown.Changed, shown.ChangedSince = optional(t.Pending.Changed), moment(t.Pending.First)
	}
	if t.Run != nil {
		shown.Run = ref(RunOf(*t.Run))
	}
	if t.Last != nil {
		shown.LastRun = lastRunOf(t.Name, t.Last)
	}
	return shown
}

func overrideOf(o *overview.Override) *apispec.Override {
	if o == nil {
		return nil
	}
	shown := apispec.Override{Task: o.Task, Change: o.String(), Enabled: o.Enabled, Trial: optional(o.Trial != nil), By: optional(o.By), At: o.At}
	if o.Problem != nil {
		shown.Problem = optional(o.Problem.Error())
	}
	return &shown
}

// lastRunOf returns the latest run of a task that has ended.
func lastRunOf(task string, last *state.Result) *apispec.Run {
	return ref(RunOf(state.Run{ID: last.Run, Task: task, Kind: last.Kind, State: last.State, Reason: last.Reason, Created: last.Created,
		Started: last.Started, Ended: last.Ended, Error: last.Error, Changes: last.Changes}))
}
