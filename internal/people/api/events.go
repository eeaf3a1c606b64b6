package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// seesAbout returns which events and entries the sender may view: those of the tasks that they may view. Others
// may name several tasks: they are for those who may view all of them.
func seesAbout(r *http.Request) func(task string) bool {
	rights := by(r).Rights
	return func(task string) bool { return task != "" && rights.May(roles.View, task) || rights.MayAll(roles.View) }
}

// getEvents answers with the events that the query selects.
func (a *api) getEvents(r *http.Request) (any, error) {
	sees := seesAbout(r)
	all, err := a.reader().Events(r.Context(), apiview.EventFilterOf(r.URL.Query()), func(e apispec.LatestEvent) bool { return sees(apispec.Deref(e.Task)) })
	if errors.Is(err, outbox.ErrCursor) {
		return nil, refuse(http.StatusBadRequest, "%s: use the value of next", err)
	}
	if !by(r).Rights.MayAll(roles.View) {
		all.Oldest = time.Time{} // it may be of a task that the sender may not view
	}
	return apispec.EventsResponse{RequestID: middleware.ID(r), Events: all.Found, Next: apiview.Optional(all.Next), Oldest: apiview.Moment(all.Oldest)}, err
}
