package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// runLimit is how many runs are listed unless another number is asked for.
const runLimit = 50

// getTaskRuns answers with the runs of a task.
func (a *api) getTaskRuns(r *http.Request) (any, error) {
	name, after := r.PathValue("name"), r.URL.Query().Get("after")
	if len(state.RunPrefix(name)) > state.MaxKey {
		return nil, control.ErrNoTask
	}
	stored, corrupt, err := state.ReadEach[state.Run](r.Context(), a.Control.Store, state.RunPrefix(name))
	for _, wrong := range corrupt {
		a.Log.Warn("a run cannot be shown", "task", name, "error", wrong)
	}
	if err == nil && len(stored) == 0 { // of a task that was deleted there may be runs
		_, _, err = a.task(r.Context(), name)
	}
	runs := []apispec.Run{}
	for _, run := range slices.Backward(stored) {
		if run.Data.ID > after && len(runs) < limit(r) {
			runs = append(runs, a.shown(run.Data))
		}
	}
	return apispec.RunsResponse{RequestID: middleware.ID(r), Runs: runs}, err
}

// shown returns a run as the API shows it.
func (a *api) shown(run state.Run) apispec.Run {
	shown := apiview.Run(run)
	if a.Links != nil {
		shown.Links = a.Links(run)
	}
	return shown
}

// limit is how many runs are asked for; the request is valid.
func limit(r *http.Request) int {
	if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil {
		return n
	}
	return runLimit
}

// getRuns answers with the latest runs of all tasks.
func (a *api) getRuns(r *http.Request) (any, error) {
	runs, err := a.latest(r, limit(r))
	return apispec.RunsResponse{RequestID: middleware.ID(r), Runs: runs}, err
}

// latest reads the latest n runs that the sender may view. Their ids sort by time, so that no more runs
// than these are read.
func (a *api) latest(r *http.Request, n int) ([]apispec.Run, error) {
	latest, err := a.reader().LatestRuns(r.Context(), n, sees(r), func(task string, wrong error) {
		a.Log.Warn("a run cannot be shown", "task", task, "error", wrong)
	})
	return list.Map(latest, a.shown), err
}

// kept reads a run of a task's history. It returns nil if the run has fallen out
// of the history by now, or if its record cannot be decoded.
func (a *api) kept(ctx context.Context, task, id string) (*state.Run, error) {
	run, err := state.Read[state.Run](ctx, a.Control.Store, state.RunKey(task, id))
	if wrong := (*state.CorruptError)(nil); errors.As(err, &wrong) {
		a.Log.Warn("a run cannot be shown", "task", task, "error", wrong)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read run %s of task %s: %w", id, task, err)
	}
	if !run.Exists() {
		return nil, nil
	}
	return &run.Data, nil
}

// run returns the run that a request names.
func (a *api) run(r *http.Request) (run state.Run, err error) {
	name, id := r.PathValue("name"), r.PathValue("id")
	var stored state.Stored[state.Run]
	if key := state.RunKey(name, id); len(key) <= state.MaxKey {
		stored, err = state.Read[state.Run](r.Context(), a.Control.Store, key)
	}
	if err == nil && !stored.Exists() {
		err = refuse(http.StatusNotFound, "task '%s' has no run %s, or it was so long ago that it is not kept", name, id)
	}
	return stored.Data, err
}

// getRun answers with one run.
func (a *api) getRun(r *http.Request) (any, error) {
	run, err := a.run(r)
	return apispec.RunResponse{RequestID: middleware.ID(r), Run: a.shown(run)}, err
}

// getRunLog answers with what Terraform printed.
func (a *api) getRunLog(r *http.Request) (any, error) {
	run, err := a.run(r)
	if err != nil {
		return nil, err
	}
	log, err := a.log(r, run)
	if errors.Is(err, state.ErrNotFound) {
		return nil, refuse(http.StatusNotFound, "no output of run %s is kept: Terraform has printed nothing", run.ID)
	}
	return log, err
}

// log reads what Terraform printed in a run.
func (a *api) log(r *http.Request, run state.Run) ([]byte, error) {
	log, err := a.Control.Printed(r.Context(), run)
	if errors.Is(err, state.ErrGone) {
		return nil, refuse(http.StatusNotFound, "the output of run %s was removed: the bucket keeps output for a limited time only", run.ID)
	}
	if err != nil {
		err = fmt.Errorf("read the output of run %s: %w", run.ID, err)
	}
	return log, err
}

// maxChunk is how much output one answer holds, in bytes. An answer of a Lambda
// function may have 6 MB.
const maxChunk = 256 << 10

// getRunOutput answers with what Terraform printed from an offset on, also
// while the run is under way.
func (a *api) getRunOutput(r *http.Request) (any, error) {
	run, err := a.run(r) // before its output: once it has ended, that is complete
	if err != nil {
		return nil, err
	}
	log, err := a.log(r, run)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return nil, err
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset")) // the request is valid
	chunk, last := chunkOf(log, offset)
	return apispec.RunOutputResponse{
		RequestID: middleware.ID(r), Output: string(chunk), Offset: offset, NextOffset: offset + len(chunk),
		Ended: last && !run.State.Active() && !run.GoesOnRemotely(), State: apispec.RunState(run.State), Remote: apiview.Optional(run.GoesOnRemotely()),
	}, nil
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
func (a *api) getRunPlan(r *http.Request) (any, error) {
	run, err := a.run(r)
	if err == nil && (!run.State.Ended() || run.Plan == (state.Kept{})) {
		err = refuse(http.StatusNotFound, "run %s has no plan: it is not a plan run, has not ended, or failed", run.ID)
	}
	if err != nil {
		return nil, err
	}
	_, plan, err := a.Control.AwaitPlan(r.Context(), state.PlannedRun{ID: run.ID, Task: run.Task})
	return []byte(plan), err
}

// getRunPlanData answers with the plan of a plan run as data.
func (a *api) getRunPlanData(r *http.Request) (any, error) {
	run, err := a.run(r)
	if err != nil {
		return nil, err
	}
	raw, err := a.Control.Kept(r.Context(), run, run.PlanData)
	if errors.Is(err, state.ErrNotFound) {
		return nil, refuse(http.StatusNotFound, "run %s has no plan as data: it is not a plan run, has not ended, failed, or was planned remotely", run.ID)
	}
	plan := apispec.PlanResponse{RequestID: middleware.ID(r)}
	if err == nil {
		err = json.Unmarshal(raw, &plan.Plan) // a driver.Plan has this form
	}
	if err != nil {
		return nil, fmt.Errorf("read the plan of run %s: %w", run.ID, err)
	}
	return plan, nil
}

// forgetTask removes the records of a task that is in no configuration.
func (a *api) forgetTask(r *http.Request) (any, error) {
	return apispec.RequestID{RequestID: middleware.ID(r)}, a.Control.Forget(r.Context(), r.PathValue("name"), by(r).Name)
}

// cancelTask ends the run of a task that is under way.
func (a *api) cancelTask(r *http.Request) (any, error) {
	name := r.PathValue("name")
	id, err := a.Control.Cancel(r.Context(), name, by(r).Name)
	if errors.Is(err, control.ErrNoRun) {
		if _, _, missing := a.task(r.Context(), name); missing != nil {
			err = missing
		}
	}
	url := apiview.RunURL(name, id)
	return answer{http.StatusAccepted, "Location", url, apispec.RunCancelledResponse{RequestID: middleware.ID(r), RunID: id, RunURL: url}}, err
}

// runTask runs a task, whatever its condition says, and waits for the run if the client asks for that.
func (a *api) runTask(r *http.Request) (any, error) {
	name := r.PathValue("name")
	earlier, err := a.Control.Force(r.Context(), name, by(r).Name)
	if err != nil {
		return nil, err
	}
	if wait, _ := strconv.ParseBool(r.URL.Query().Get("wait")); wait {
		run, err := a.Control.AwaitRun(r.Context(), name, earlier)
		return apispec.RunResponse{RequestID: middleware.ID(r), Run: a.shown(run)}, withRunURL(err, apiview.RunsURL(name, earlier.Newest()))
	}
	runs := apiview.RunsURL(name, earlier.Newest())
	return answer{http.StatusAccepted, "Location", runs, apispec.RunAskedResponse{RequestID: middleware.ID(r), RunsURL: runs}}, nil
}

// reconcile requests a tick of the leader.
func (a *api) reconcile(r *http.Request) (any, error) {
	return answer{status: http.StatusAccepted, body: apispec.RequestID{RequestID: middleware.ID(r)}}, a.Control.Tick(r.Context())
}
