package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// healthPage is the page of the instances and of what they depend on.
type healthPage struct {
	Overview  apispec.Overview        `json:"-"`
	Healthy   bool                    `json:"healthy"`
	Degraded  bool                    `json:"degraded,omitempty"` // healthy, with a problem that has lasted for a short time
	Leads     bool                    `json:"leads,omitempty"`    // the instance that answers
	Alerts    []alert                 `json:"alerts"`
	Paused    *apispec.Paused         `json:"paused,omitempty"`
	ForAll    action                  `json:"for_all"` // what a viewer who may act can do about all tasks
	Leader    *apispec.Leader         `json:"leader,omitempty"`
	Store     *apispec.Store          `json:"store,omitempty"`
	Instances []apispec.ClusterMember `json:"instances,omitempty"`
	Gates     []apispec.Gate          `json:"gates,omitempty"`
	Version   apispec.VersionResponse `json:"version"`
	Overrides []apispec.Override      `json:"overrides"`
	Events    []apispec.LatestEvent   `json:"events"`
}

func (p *pages) health(r *http.Request) (view, error) {
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	page := healthPage{Overview: o.Overview, Healthy: o.Healthy, Alerts: alerts(o.Overview), Leader: o.Leader, Store: o.Store,
		Paused: o.Paused, ForAll: forAll(o.Overview),
		Gates: apispec.Deref(o.Gates), Overrides: o.Overrides}
	page.Degraded = o.Healthy && o.Problem != nil
	page.Leads = o.Leader != nil && o.Instance != nil && o.Leader.Owner == o.Instance.Owner
	if page.Version, err = read(r.Context(), p.source, "version", p.source.Version); err != nil {
		return view{}, err
	}
	if page.Events, err = p.latestEvents(r.Context()); err != nil && !refuses(err) { // of an older version
		return view{}, err
	}
	cluster, err := read(r.Context(), p.source, "cluster", func(ctx context.Context) (apispec.ClusterStatus, error) { return p.source.Cluster(ctx) })
	page.Instances = cluster.Members
	if refuses(err) {
		err = nil // an instance that is alone
	}
	return view{title: "Health", template: "health", topic: everything, shown: o.topics, quiet: true, data: page}, err
}

// latestEvents reads what happened last.
func (p *pages) latestEvents(ctx context.Context) ([]apispec.LatestEvent, error) {
	answer, err := read(ctx, p.source, "events", func(ctx context.Context) (apispec.EventsResponse, error) { return p.source.Events(ctx, nil) })
	return answer.Events, err
}

// refuses reports whether the API says that it has no answer to a request, rather than
// that it has failed.
func refuses(err error) bool {
	var refused *apiclient.Error
	return errors.As(err, &refused) && refused.Status < http.StatusInternalServerError
}

// levels are what the levels of events mean to the reader.
var levels = map[apispec.EventLevel]tone{apispec.EventLevelInfo: calm, apispec.EventLevelWarning: ask, apispec.EventLevelError: bad}

// eventLink is the address of what an event of a task is about.
func eventLink(e apispec.LatestEvent) string {
	name := apispec.Deref(e.Task)
	if e.Run == nil {
		return taskURL(name)
	}
	return runURL(name, *e.Run)
}
