package api

import (
	"net/http"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/overview"
	"github.com/terrapulse/terrapulse/internal/request"
)

// getOverview answers with the phase of every task, and with who leads.
func (a *api) getOverview(r *http.Request) (any, error) {
	effective, err := a.Control.Config(r.Context())
	if err != nil {
		return nil, err
	}
	o, err := a.reader().Read(r.Context(), effective)
	return struct {
		apispec.RequestID
		apispec.Overview
	}{apispec.RequestID{RequestID: request.ID(r)}, o}, err
}

func (a *api) reader() overview.Reader {
	return overview.Reader{Store: a.Control.Store, Began: a.Began, Now: a.Control.Now, Where: a.Store, Version: a.Version, Gates: a.Gates}
}

// getTaskOverview answers with the phase of one task, and why it is in it.
func (a *api) getTaskOverview(r *http.Request) (any, error) {
	effective, definition, err := a.task(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	task, err := a.reader().ReadTask(r.Context(), effective, definition)
	return apispec.TaskOverviewResponse{RequestID: request.ID(r), Task: task}, err
}
