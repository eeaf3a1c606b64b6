package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/apiview"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/request"
	"github.com/terrapulse/terrapulse/internal/state"
)

// runLimit is how many runs are listed unless another number is asked for.
const runLimit = 50

// getTaskRuns answers with the runs of a task.
func (a *api) getTaskRuns(w http.ResponseWriter, r *http.Request) {
	name, after := r.PathValue("name"), r.URL.Query().Get("after")
	if len(state.RunPrefix(name)) > state.MaxKey {
		a.fail(w, r, name, reconcile.ErrNoTask)
		return
	}
	stored, corrupt, err := state.ReadEach[state.Run](r.Context(), a.Control.Store, state.RunPrefix(name))
	for _, wrong := range corrupt {
		a.Log.Warn("a run cannot be shown", "task", name, "error", wrong)
	}
	if err == nil && len(stored) == 0 { // of a task that was deleted there may be runs
		_, err = a.task(r.Context(), name)
	}
	if err != nil {
		a.fail(w, r, name, err)
		return
	}
	runs := []apispec.Run{}
	for _, run := range slices.Backward(stored) {
		if run.Data.ID > after && len(runs) < limit(r) {
			runs = append(runs, apiview.Run(run.Data))
		}
	}
	write(w, http.StatusOK, apispec.RunsResponse{RequestID: request.ID(r), Runs: runs})
}

// limit is how many runs are asked for; the request is valid.
func limit(r *http.Request) int {
	if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil {
		return n
	}
	return runLimit
}

// getRuns answers with the latest runs of all tasks.
func (a *api) getRuns(w http.ResponseWriter, r *http.Request) {
	runs, err := a.latest(r.Context(), limit(r))
	if err != nil {
		a.fail(w, r, "", err)
		return
	}
	write(w, http.StatusOK, apispec.RunsResponse{RequestID: request.ID(r), Runs: runs})
}

// latest reads the latest n runs. Their ids sort by time, so that no more runs
// than these are read.
func (a *api) latest(ctx context.Context, n int) ([]apispec.Run, error) {
	tasks, _, err := state.ReadEach[state.Task](ctx, a.Control.Store, state.TaskPrefix)
	if err != nil {
		return nil, fmt.Errorf("read the tasks' records: %w", err)
	}
	type named struct{ task, id string }
	var all []named
	for _, t := range tasks {
		name := state.TaskName(t.Key)
		for _, id := range t.Data.History {
			all = append(all, named{name, id})
		}
		if t.Data.Run != nil {
			all = append(all, named{name, t.Data.Run.ID})
		}
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Compare(b.id, a.id) })
	all = all[:min(n, len(all))]
	found := make([]*apispec.Run, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, run := range all {
		group.Go(func() error {
			stored, err := state.Read[state.Run](ctx, a.Control.Store, state.RunKey(run.task, run.id))
			if wrong := (*state.CorruptError)(nil); errors.As(err, &wrong) {
				a.Log.Warn("a run cannot be shown", "task", run.task, "error", wrong)
				return nil
			}
			if err != nil {
				return fmt.Errorf("read run %s of task %s: %w", run.id, run.task, err)
			}
			if stored.Exists() {
				found[i] = new(apiview.Run(stored.Data))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	runs := []apispec.Run{}
	for _, run := range found {
		if run != nil {
			runs = append(runs, *run)
		}
	}
	return runs, nil
}

// run returns the run that a request names. If it answers that there is none, or
// that something is wrong, ok is false.
func (a *api) run(w http.ResponseWriter, r *http.Request) (run state.Run, ok bool) {
	name, id := r.PathValue("name"), r.PathValue("id")
	var stored state.Stored[state.Run]
	var err error
	if key := state.RunKey(name, id); len(key) <= state.MaxKey {
		stored, err = state.Read[state.Run](r.Context(), a.Control.Store, key)
	}
	switch {
	case err != nil:
		a.fail(w, r, name, err)
	case !stored.Exists():
		refuse(w, r, http.StatusNotFound, "task '%s' has no run %s, or it was so long ago that it is not kept", name, id)
	default:
		return stored.Data, true
	}
	return state.Run{}, false
}

// getRun answers with one run.
func (a *api) getRun(w http.ResponseWriter, r *http.Request) {
	if run, ok := a.run(w, r); ok {
		write(w, http.StatusOK, apispec.RunResponse{RequestID: request.ID(r), Run: apiview.Run(run)})
	}
}

// getRunLog answers with what Terraform printed.
func (a *api) getRunLog(w http.ResponseWriter, r *http.Request) {
	run, ok := a.run(w, r)
	if !ok {
		return
	}
	log, err := a.Control.Log(r.Context(), run)
	switch {
	case errors.Is(err, state.ErrNotFound):
		refuse(w, r, http.StatusNotFound, "no output of run %s is kept: Terraform has printed nothing", run.ID)
	case err != nil:
		a.fail(w, r, run.Task, fmt.Errorf("read the output of run %s: %w", run.ID, err))
	default:
		text(w, log)
	}
}

// maxChunk is how much output one answer holds, in bytes. An answer of a Lambda
// function may have 6 MB.
const maxChunk = 256 << 10

// getRunOutput answers with what Terraform printed from an offset on, also
// while the run is under way.
func (a *api) getRunOutput(w http.ResponseWriter, r *http.Request) {
	run, ok := a.run(w, r) // before its output: once it has ended, that is complete
	if !ok {
		return
	}
	log, err := a.Control.Log(r.Context(), run)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		a.fail(w, r, run.Task, fmt.Errorf("read the output of run %s: %w", run.ID, err))
		return
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset")) // the request is valid
	chunk, last := chunkOf(log, offset)
	write(w, http.StatusOK, apispec.RunOutputResponse{
		RequestID: request.ID(r), Output: string(chunk), Offset: offset, NextOffset: offset + len(chunk),
		Ended: last && !run.State.Active(), State: apispec.RunState(run.State),
	})
}

// chunkOf returns the part of a text that begins at an offset, and whether it is
// the last one. It splits no character, unless the text is not UTF-8 at all.
func chunkOf(text []byte, offset int) (chunk []byte, last bool) {
	text = text[min(offset, len(text)):]
	if len(text) <= maxChunk {
		return text, true
	}
	end := maxChunk
	for end > maxChunk-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], false
}

// getRunPlan answers with the plan of a plan run.
func (a *api) getRunPlan(w http.ResponseWriter, r *http.Request) {
	run, ok := a.run(w, r)
	if !ok {
		return
	}
	if !run.State.Ended() || run.Plan == (state.Kept{}) {
		refuse(w, r, http.StatusNotFound, "run %s has no plan: it is not a plan run, has not ended, or failed", run.ID)
		return
	}
	_, plan, err := a.Control.AwaitPlan(r.Context(), state.PlannedRun{ID: run.ID, Task: run.Task})
	if err != nil {
		a.fail(w, r, run.Task, err)
		return
	}
	text(w, []byte(plan))
}

// getRunPlanData answers with the plan of a plan run as data.
func (a *api) getRunPlanData(w http.ResponseWriter, r *http.Request) {
	run, ok := a.run(w, r)
	if !ok {
		return
	}
	raw, err := a.Control.PlanData(r.Context(), run)
	if errors.Is(err, state.ErrNotFound) {
		refuse(w, r, http.StatusNotFound, "run %s has no plan as data: it is not a plan run, has not ended, failed, or was planned remotely", run.ID)
		return
	}
	plan := apispec.PlanResponse{RequestID: request.ID(r)}
	if err == nil {
		err = json.Unmarshal(raw, &plan.Plan) // a driver.Plan has this form
	}
	if err != nil {
		a.fail(w, r, run.Task, fmt.Errorf("read the plan of run %s: %w", run.ID, err))
		return
	}
	write(w, http.StatusOK, plan)
}

func text(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body) // an error means that the client has gone
}

// runTask runs a task, whatever its condition says.
func (a *api) runTask(w http.ResponseWriter, r *http.Request) { a.request(w, r, a.Control.Force) }

// forgetTask removes the records of a task that is in no configuration.
func (a *api) forgetTask(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if err := a.Control.Forget(r.Context(), name); err != nil {
		a.fail(w, r, name, err)
		return
	}
	write(w, http.StatusOK, apispec.RequestID{RequestID: request.ID(r)})
}

// retryTask runs a task again whose latest run did not succeed.
func (a *api) retryTask(w http.ResponseWriter, r *http.Request) { a.request(w, r, a.Control.Retry) }

// cancelTask ends the run of a task that is under way.
func (a *api) cancelTask(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	id, err := a.Control.Cancel(r.Context(), name, a.Who(r))
	if errors.Is(err, reconcile.ErrNoRun) {
		if _, missing := a.task(r.Context(), name); missing != nil {
			err = missing
		}
	}
	if err != nil {
		a.fail(w, r, name, err)
		return
	}
	w.Header().Set("Location", apiview.RunURL(name, id))
	write(w, http.StatusAccepted, apispec.RunCancelledResponse{RequestID: request.ID(r), RunID: id, RunURL: apiview.RunURL(name, id)})
}

// request requests a run, and waits for it if the client asks for that.
func (a *api) request(w http.ResponseWriter, r *http.Request, how func(ctx context.Context, task, by string) (reconcile.Earlier, error)) {
	name := r.PathValue("name")
	earlier, err := how(r.Context(), name, a.Who(r))
	if err != nil {
		a.fail(w, r, name, err)
		return
	}
	if wait, _ := strconv.ParseBool(r.URL.Query().Get("wait")); wait {
		run, err := a.Control.AwaitRun(r.Context(), name, earlier)
		if err != nil {
			a.fail(w, r, name, err)
			return
		}
		write(w, http.StatusOK, apispec.RunResponse{RequestID: request.ID(r), Run: apiview.Run(run)})
		return
	}
	runs := "/v1/tasks/" + url.PathEscape(name) + "/runs"
	if newest := earlier.Newest(); newest != "" {
		runs += "?after=" + newest
	}
	w.Header().Set("Location", runs)
	write(w, http.StatusAccepted, apispec.RunAskedResponse{RequestID: request.ID(r), RunsURL: runs})
}

// reconcile requests a tick of the leader.
func (a *api) reconcile(w http.ResponseWriter, r *http.Request) {
	if err := a.Control.Tick(r.Context()); err != nil {
		a.fail(w, r, "", err)
		return
	}
	write(w, http.StatusAccepted, apispec.RequestID{RequestID: request.ID(r)})
}
