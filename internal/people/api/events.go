package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// seesAbout returns which events and entries the sender may view: those of the tasks that they may view. Others
// may name several tasks: they are for those who may view all of them.
func seesAbout(r *http.Request) func(task string) bool {
	rights := by(r).Rights
	return func(task string) bool { return task != "" && rights.May(roles.View, task) || rights.MayAll(roles.View) }
}

// seesLabelled is seesAbout for what is about tasks with labels.
func (a *api) seesLabelled(r *http.Request, labels []string) (func(task string) bool, error) {
	effective, err := a.Control.Config(r.Context())
	if err != nil {
		return nil, err
	}
	sees, labelled := seesAbout(r), overview.WithLabels(effective, labels)
	return func(task string) bool { return labelled(task) && sees(task) }, nil
}

// getEvents answers with the events that the query selects.
func (a *api) getEvents(r *http.Request) (any, error) {
	sees, err := seesAbout(r), error(nil)
	if labels := r.URL.Query()["label"]; len(labels) > 0 {
		if sees, err = a.seesLabelled(r, labels); err != nil {
			return nil, err
		}
	}
	all, err := a.reader().Events(r.Context(), apiview.EventFilterOf(r.URL.Query()), func(e apispec.LatestEvent) bool { return sees(apispec.Deref(e.Task)) })
	if errors.Is(err, outbox.ErrCursor) {
		return nil, refuse(http.StatusBadRequest, "%s: use the value of next", err)
	}
	if !by(r).Rights.MayAll(roles.View) {
		all.Oldest = time.Time{} // it may be of a task that the sender may not view
	}
	return apispec.EventsResponse{RequestID: middleware.ID(r), Events: all.Found, Next: apiview.Optional(all.Next), Oldest: apiview.Moment(all.Oldest)}, err
}
