package api

import (
	"net/http"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

// getEvents answers with the latest events.
func (a *api) getEvents(r *http.Request) (any, error) {
	events, err := a.reader().Events(r.Context())
	return apispec.EventsResponse{RequestID: middleware.ID(r), Events: events}, err
}
