package api

import (
	"context"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/state"
)

// getOverview answers with what everything is at, and why.
func (a *api) getOverview(w http.ResponseWriter, r *http.Request) {
	overview, err := a.overview(r.Context())
	if err != nil {
		a.fail(w, r, "", err)
		return
	}
	overview.RequestID = idOf(r)
	write(w, http.StatusOK, overview)
}

func (a *api) overview(ctx context.Context) (apispec.OverviewResponse, error) {
	var o apispec.OverviewResponse
	counts, err := a.effective(ctx)
	if err != nil {
		return o, err
	}
	rec, err := state.Read[state.Reconcile](ctx, a.Control.Store, state.ReconcileKey)
	if err != nil {
		return o, fmt.Errorf("read the reconcile record: %w", err)
	}
	held, err := lease.Read(ctx, a.Control.Store, state.LeaderLease)
	if err != nil {
		return o, fmt.Errorf("read who leads: %w", err)
	}
	records, err := a.records(ctx)
	if err != nil {
		return o, err
	}
	o = apispec.OverviewResponse{
		Healthy:      a.illness(rec.Data) == "",
		LastGoodTick: moment(rec.Data.Good), Problem: optional(rec.Data.Problem), Since: moment(rec.Data.Since), Bundle: optional(rec.Data.Bundle),
	}
	if o.Problem == nil {
		o.Problem = optional(rec.Data.Stalled)
	}
	if held.Owner != "" && a.Control.Now().Before(held.Expires) {
		o.Leader = &apispec.Leader{Owner: held.Owner, Fence: int64(held.Fence), Until: held.Expires}
	}
	if wrong := rec.Data.Refused; wrong != nil {
		o.Refused = &apispec.Refused{Bundle: optional(wrong.Bundle), Error: wrong.Error, Since: wrong.Since}
	}
	known := map[string]state.Task{}
	for _, t := range records {
		known[state.TaskName(t.Key)] = t.Data
	}
	tasks := shown(counts, records)
	present := map[string]bool{}
	for _, t := range tasks {
		present[t.Name] = true
	}
	for _, rec := range records {
		if name := state.TaskName(rec.Key); !present[name] {
			tasks = append(tasks, &config.Task{Name: name}) // removed: its records are kept for a while
		}
	}
	o.Tasks = make([]apispec.TaskOverview, len(tasks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, t := range tasks {
		group.Go(func() error {
			run, err := a.liveRun(ctx, t.Name, known[t.Name])
			o.Tasks[i] = taskOverview(counts, t, known[t.Name], run)
			return err
		})
	}
	return o, group.Wait()
}

// getTaskOverview answers with what one task is at, and why.
func (a *api) getTaskOverview(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	counts, err := a.effective(r.Context())
	if err != nil {
		a.fail(w, r, name, err)
		return
	}
	t, err := a.task(r.Context(), name)
	if err != nil {
		a.fail(w, r, name, err)
		return
	}
	known, err := state.Read[state.Task](r.Context(), a.Control.Store, state.TaskKey(name))
	if err != nil {
		a.fail(w, r, name, err)
		return
	}
	run, err := a.liveRun(r.Context(), name, known.Data)
	if err != nil {
		a.fail(w, r, name, err)
		return
	}
	write(w, http.StatusOK, apispec.TaskOverviewResponse{RequestID: idOf(r), Task: taskOverview(counts, t, known.Data, run)})
}

// liveRun returns the run of a task that has not ended, if there is one.
func (a *api) liveRun(ctx context.Context, task string, known state.Task) (state.Run, error) {
	if known.Run == nil {
		return state.Run{}, nil
	}
	run, err := state.Read[state.Run](ctx, a.Control.Store, state.RunKey(task, known.Run.ID))
	if err != nil {
		return state.Run{}, fmt.Errorf("read run %s of task %s: %w", known.Run.ID, task, err)
	}
	return run.Data, nil
}

// taskOverview sums up a task; run is its run that has not ended.
func taskOverview(counts *overlay.Effective, t *config.Task, known state.Task, run state.Run) apispec.TaskOverview {
	sum := known.Summary(run)
	o := apispec.TaskOverview{
		Name: t.Name, State: apispec.TaskState(sum.State), Enabled: t.Enabled,
		Origin: apispec.Origin{API: t.FromAPI, File: optional(t.Source.File), Line: optional(t.Source.Line)},
		Reason: ReasonOf(sum.Reason), Due: moment(sum.Due), Applied: moment(known.AppliedAt), Failures: optional(known.Failures),
	}
	if override, ok := counts.Overrides[t.Name]; ok {
		o.Override = &apispec.Override{Change: override.String(), Enabled: override.Enabled, Trial: optional(override.Trial != nil), By: optional(override.By), At: override.At}
	}
	if problem := counts.Problems[t.Name]; problem != nil {
		o.Problem = optional(problem.Error())
	}
	if known.Pending != nil {
		o.Changed = optional(known.Pending.Changed)
	}
	if run.ID != "" {
		o.Run = ref(RunOf(run))
	}
	if known.Last != nil {
		o.LastRun = LastRunOf(t.Name, known.Last)
	}
	return o
}

// LastRunOf returns the latest run of a task that has ended as the API shows it.
func LastRunOf(task string, last *state.Result) *apispec.Run {
	return ref(RunOf(state.Run{ID: last.Run, Task: task, Kind: last.Kind, State: last.State, Reason: last.Reason, Created: last.Started,
		Started: last.Started, Ended: last.Ended, Error: last.Error, Changes: last.Changes}))
}
