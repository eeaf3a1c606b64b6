package api

import (
	"net/http"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// pause keeps every task from running until somebody resumes.
func (a *api) pause(r *http.Request, asked apispec.PauseRequest) (any, error) {
	who := by(r).Or(apispec.Deref(asked.By))
	paused, err := a.Control.PauseAll(r.Context(), who.Name, state.Cut(apispec.Deref(asked.Reason)))
	return apispec.PauseResponse{RequestID: middleware.ID(r), Paused: apiview.Paused(&paused)}, err
}

// resume lets tasks run again.
func (a *api) resume(r *http.Request, asked apispec.PauseRequest) (any, error) {
	who := by(r).Or(apispec.Deref(asked.By))
	ended, err := a.Control.ResumeAll(r.Context(), who.Name, state.Cut(apispec.Deref(asked.Reason)))
	return apispec.PauseResponse{RequestID: middleware.ID(r), Paused: apiview.Paused(ended)}, err
}
