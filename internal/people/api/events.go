package api

import (
	"net/http"
	"slices"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// getEvents answers with the latest events. Events that are about no task may name some: they are for
// those who may view all tasks.
func (a *api) getEvents(r *http.Request) (any, error) {
	events, err := a.reader().Events(r.Context())
	if !by(r).Rights.MayAll(roles.View) {
		sees := sees(r)
		events = slices.DeleteFunc(events, func(e apispec.LatestEvent) bool { return e.Task == nil || !sees(*e.Task) })
	}
	return apispec.EventsResponse{RequestID: middleware.ID(r), Events: events}, err
}
