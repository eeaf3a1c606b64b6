package hcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

// maxNames limits the length of the names of workspaces in one request.
const maxNames = 6000

// Poll implements reconcile.Remote. All runs of up to a hundred workspaces take one request.
// A run that is not in the answers has ended.
func (d *Driver) Poll(ctx context.Context, cfg *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	api, err := d.api(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return d.poll(ctx, api, cfg.Cloud.Organization, runs)
}

func (d *Driver) poll(ctx context.Context, api API, organization string, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	found := map[string]state.RemoteStatus{}
	for _, group := range grouped(runs) {
		active, err := api.ActiveRuns(ctx, organization, group)
		if errors.Is(err, ErrNotFound) { // an older Terraform Enterprise
			return d.pollEach(ctx, api, runs)
		}
		if err != nil {
			return nil, fmt.Errorf("poll the runs of %d workspaces: %w", len(group), err)
		}
		for _, r := range active {
			d.logUnknown(r)
			found[r.ID] = state.RemoteStatus{Phase: phaseOf(r), Text: textAmong(r, active)}
			if blocked(r, active, runs) {
				found[r.ID] = state.RemoteStatus{Phase: state.RemoteReady, Text: "a run of an earlier attempt is first"}
			}
		}
	}
	statuses := map[string]state.RemoteStatus{}
	for _, r := range runs {
		status, ok := found[r.ID]
		if !ok {
			status = state.RemoteStatus{Phase: state.RemoteEnded, Text: "ended"}
		}
		statuses[r.ID] = status
	}
	return statuses, nil
}

// pollEach polls runs one by one. A run that cannot be read does not hide the others. That it is not
// found does not say that it has ended: perhaps the token has lost its rights.
func (d *Driver) pollEach(ctx context.Context, api API, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	statuses := map[string]state.RemoteStatus{}
	var failed error
	for _, r := range runs {
		run, err := api.Run(ctx, r.ID)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("poll the run %s: %w", r.ID, err))
			continue
		}
		d.logUnknown(run)
		statuses[r.ID] = state.RemoteStatus{Phase: phaseOf(run), Text: textOf(run)}
	}
	return statuses, failed
}

// grouped returns the names of the workspaces of runs, in groups that fit into a request.
func grouped(runs []state.RemoteRun) [][]string {
	var names []string
	for _, r := range runs {
		names = append(names, r.Workspace)
	}
	slices.Sort(names)
	var groups [][]string
	size := maxNames
	for _, name := range slices.Compact(names) {
		if size += len(name) + 3; size > maxNames {
			groups, size = append(groups, nil), len(name)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], name)
	}
	return groups
}

// textAmong says why a run does not go on, also if another run of its workspace is first.
func textAmong(r Run, all []Run) string {
	if r.Status == statusPending {
		for _, other := range all {
			if other.Workspace == r.Workspace && other.ID != r.ID && other.Status != statusPending && !other.PlanOnly {
				return fmt.Sprintf("pending: the run %s of the same workspace is first: it is %s", other.ID, textOf(other))
			}
		}
	}
	return textOf(r)
}

// blocked reports whether a run waits behind a stray run, which only ends by a decision. A step
// of the task's run, which has its claim, must stop the stray run.
func blocked(r Run, active []Run, known []state.RemoteRun) bool {
	return r.Status == statusPending && slices.ContainsFunc(active, func(other Run) bool {
		return other.Workspace == r.Workspace && other.Status != statusPending && other.Discardable && isStray(other) && !slices.ContainsFunc(known, func(k state.RemoteRun) bool { return k.ID == other.ID })
	})
}

// Stop implements reconcile.Remote.
func (d *Driver) Stop(ctx context.Context, cfg *config.Config, a state.Abandoned) (applied bool, err error) {
	api, err := d.api(ctx, cfg)
	if err != nil {
		return false, err
	}
	run, err := abandoned(ctx, api, cfg.Cloud.Organization, a.Run)
	if errors.Is(err, ErrNotFound) {
		return d.gone(ctx, api, cfg.Cloud.Organization, a)
	}
	if err != nil {
		return false, fmt.Errorf("read the run %s: %w", cmp.Or(a.Run.ID, "of "+a.Run.Version), err)
	}
	run, done, err := d.stop(ctx, api, run, a.Comment)
	if err == nil && !done {
		err = fmt.Errorf("it is %s, and can be neither discarded nor cancelled now", run.Status)
	}
	if err != nil {
		return false, fmt.Errorf("stop the run %s: %w", run.ID, err)
	}
	switch phaseOf(run) {
	case state.RemoteApplying:
		if !a.Cancel {
			return true, nil
		}
		if err := api.Act(ctx, run.ID, Cancel, a.Comment); err != nil && !errors.Is(err, ErrConflict) {
			return false, fmt.Errorf("cancel the run %s: %w", run.ID, err)
		}
		return true, nil
	case state.RemoteEnded:
		return begun(run), nil
	case state.RemotePlanning, state.RemoteReady:
	}
	return false, nil
}

// goneTime is how long a run is looked for that is not found, nor its workspace.
const goneTime = time.Hour

// gone is Stop for a run that is not found. If its workspace is not found, either, it was
// deleted, or the token has no right to read it: HCP Terraform answers the same.
func (d *Driver) gone(ctx context.Context, api API, organization string, a state.Abandoned) (applied bool, err error) {
	_, err = api.Workspace(ctx, organization, a.Run.Workspace)
	switch {
	case err == nil:
		return false, nil
	case !errors.Is(err, ErrNotFound):
		return false, fmt.Errorf("read the workspace %s: %w", a.Run.Workspace, err)
	case d.Now().Sub(a.Since) > goneTime:
		return true, nil // perhaps: the next run of the task reads what there is
	}
	return false, fmt.Errorf("neither the run %s nor the workspace %s is found: the workspace was deleted, or the token may not read it", cmp.Or(a.Run.ID, "of "+a.Run.Version), a.Run.Workspace)
}

// abandoned returns a run that is to be stopped, also if the answer to its creation was
// lost; ErrNotFound if there is none.
func abandoned(ctx context.Context, api API, organization string, r state.RemoteRun) (Run, error) {
	if r.ID != "" {
		return api.Run(ctx, r.ID)
	}
	ws, err := api.Workspace(ctx, organization, r.Workspace)
	if err != nil {
		return Run{}, err
	}
	run, err := withVersion(ctx, api, ws.ID, r.Version)
	if err == nil && run == nil {
		return Run{}, ErrNotFound
	}
	if err != nil {
		return Run{}, err
	}
	return *run, nil
}

// watch polls the plans that this process waits for, all with one request.
type watch struct {
	mu    sync.Mutex
	runs  map[string]state.RemoteRun
	fresh map[string]bool // runs whose status in found was not returned yet
	found map[string]state.RemoteStatus
}

// add begins the polls of a run.
func (w *watch) add(run state.RemoteRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs == nil {
		w.runs, w.fresh = map[string]state.RemoteRun{}, map[string]bool{}
	}
	w.runs[run.ID] = run
}

// read returns the status of a run. It polls all runs if it has already returned the latest
// status of this one.
func (w *watch) read(ctx context.Context, d *Driver, api API, organization string, run state.RemoteRun) (state.RemoteStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fresh[run.ID] {
		var all []state.RemoteRun
		for _, r := range w.runs {
			all = append(all, r)
		}
		found, err := d.poll(ctx, api, organization, all)
		if err != nil {
			return state.RemoteStatus{}, err
		}
		w.found = found
		for id := range w.runs {
			w.fresh[id] = true
		}
	}
	status := w.found[run.ID]
	w.fresh[run.ID] = false
	return status, nil
}

// forget ends the polls of a run.
func (w *watch) forget(run state.RemoteRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.runs, run.ID)
	delete(w.fresh, run.ID)
}
