package api

import (
	"net/http"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/request"
)

// getEvents answers with the latest events.
func (a *api) getEvents(r *http.Request) (any, error) {
	events, err := a.reader().Events(r.Context())
	return apispec.EventsResponse{RequestID: request.ID(r), Events: events}, err
}
