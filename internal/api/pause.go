package api

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/apiview"
	"github.com/terrapulse/terrapulse/internal/request"
	"github.com/terrapulse/terrapulse/internal/state"
)

// pause keeps every task from running until somebody resumes.
func (a *api) pause(r *http.Request) (any, error) {
	by, reason, err := a.pauses(r)
	if err != nil {
		return nil, err
	}
	paused, err := a.Control.PauseAll(r.Context(), by, reason)
	return apispec.PauseResponse{RequestID: request.ID(r), Paused: apiview.Paused(&paused)}, err
}

// resume lets tasks run again.
func (a *api) resume(r *http.Request) (any, error) {
	by, reason, err := a.pauses(r)
	if err != nil {
		return nil, err
	}
	ended, err := a.Control.ResumeAll(r.Context(), by, reason)
	return apispec.PauseResponse{RequestID: request.ID(r), Paused: apiview.Paused(ended)}, err
}

// pauses returns who sends a request to pause or resume, and why.
func (a *api) pauses(r *http.Request) (by, reason string, err error) {
	var asked apispec.PauseRequest
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil { // the request fits its description: this does not happen
		return "", "", fmt.Errorf("read the request: %w", err)
	}
	return a.Who(r).Or(apispec.Deref(asked.By)).Name, state.Cut(apispec.Deref(asked.Reason)), nil
}
