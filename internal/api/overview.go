package api

import (
	"context"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/overview"
	"github.com/terrapulse/terrapulse/internal/request"
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
	}{apispec.RequestID{RequestID: request.ID(r)}, o})
}

func (a *api) overview(ctx context.Context) (apispec.Overview, error) {
	effective, err := a.Control.Config(ctx)
	if err != nil {
		return apispec.Overview{}, err
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
	write(w, http.StatusOK, apispec.TaskOverviewResponse{RequestID: request.ID(r), Task: task})
}

func (a *api) taskOverview(ctx context.Context, name string) (apispec.TaskOverview, error) {
	definition, err := a.task(ctx, name)
	if err != nil {
		return apispec.TaskOverview{}, err
	}
	effective, err := a.Control.Config(ctx)
	if err != nil {
		return apispec.TaskOverview{}, err
	}
	return a.reader().ReadTask(ctx, effective, definition)
}
