package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/apiclient"
	"github.com/terrapulse/terrapulse/internal/apispec"
)

// healthPage is the page of the instances and of what they depend on.
type healthPage struct {
	Overview  apispec.Overview        `json:"-"`
	Healthy   bool                    `json:"healthy"`
	Alerts    []alert                 `json:"alerts"`
	Leader    *apispec.Leader         `json:"leader,omitempty"`
	Store     *apispec.Store          `json:"store,omitempty"`
	Instances []apispec.ClusterMember `json:"instances,omitempty"`
	Gates     []apispec.Gate          `json:"gates,omitempty"`
	Version   apispec.VersionResponse `json:"version"`
	Overrides []apispec.Override      `json:"overrides"`
}

func (p *pages) health(r *http.Request) (view, error) {
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	page := healthPage{Overview: o, Healthy: o.Healthy, Alerts: alerts(o), Leader: o.Leader, Store: o.Store,
		Gates: apispec.Deref(o.Gates), Overrides: o.Overrides}
	if page.Version, err = read(r.Context(), p.source, "version", p.source.Version); err != nil {
		return view{}, err
	}
	cluster, err := read(r.Context(), p.source, "cluster", func(ctx context.Context) (apispec.ClusterStatus, error) { return p.source.Cluster(ctx) })
	page.Instances = cluster.Members
	if refused := (*apiclient.Error)(nil); errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
		err = nil // an instance that is alone
	}
	return view{title: "Health", template: "health", topic: everything, quiet: true, data: page}, err
}
