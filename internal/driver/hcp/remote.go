package hcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Stop implements reconcile.Remote.
func (d *Driver) Stop(ctx context.Context, cfg *config.Config, r *state.RemoteRun) (applied bool, err error) {
	api, err := d.api(ctx, cfg)
	if err != nil {
		return false, err
	}
	run, err := givenUp(ctx, api, cfg.Cloud().Organization, r)
	if errors.Is(err, ErrNotFound) {
		return d.gone(ctx, api, cfg.Cloud().Organization, r)
	}
	if err != nil {
		return false, fmt.Errorf("read the run %s: %w", cmp.Or(r.ID, "of "+r.Version), err)
	}
	run, done, err := d.stop(ctx, api, run, r.GivenUp.Comment)
	if err == nil && !done {
		err = fmt.Errorf("it is %s, and can be neither discarded nor cancelled now", run.Status)
	}
	if err != nil {
		return false, fmt.Errorf("stop the run %s: %w", run.ID, err)
	}
	switch phaseOf(run) {
	case state.RemoteApplying:
		if !r.GivenUp.Cancel {
			return true, nil
		}
		if err := api.Act(ctx, run.ID, Cancel, r.GivenUp.Comment); err != nil && !errors.Is(err, ErrConflict) {
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
func (d *Driver) gone(ctx context.Context, api API, organization string, r *state.RemoteRun) (applied bool, err error) {
	_, err = api.Workspace(ctx, organization, r.Workspace)
	switch {
	case err == nil:
		return false, nil
	case !errors.Is(err, ErrNotFound):
		return false, fmt.Errorf("read the workspace %s: %w", r.Workspace, err)
	case d.Now().Sub(r.GivenUp.Since) > goneTime:
		return true, nil // perhaps: the next run of the task reads what there is
	}
	return false, fmt.Errorf("neither the run %s nor the workspace %s is found: the workspace was deleted, or the token may not read it", cmp.Or(r.ID, "of "+r.Version), r.Workspace)
}

// givenUp returns a run that is to be stopped, also if the answer to its creation was
// lost; ErrNotFound if there is none.
func givenUp(ctx context.Context, api API, organization string, r *state.RemoteRun) (Run, error) {
	if r.ID != "" {
		return api.Run(ctx, r.ID)
	}
	ws, err := api.Workspace(ctx, organization, r.Workspace)
	if err != nil {
		return Run{}, err
	}
	run, err := withVersion(ctx, api, ws.ID, r.Version, false)
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
