package web

import (
	"context"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// healthPage is the page of the instances and of what they depend on.
type healthPage struct {
	Overview  apispec.Overview        `json:"-"`
	Healthy   bool                    `json:"healthy"`
	Alerts    []alert                 `json:"alerts"`
	Leader    *apispec.Leader         `json:"leader,omitempty"`
	Instances []apispec.ClusterMember `json:"instances,omitempty"`
	Version   apispec.VersionResponse `json:"version"`
	Overrides []apispec.Override      `json:"overrides"`
}

func (p *pages) health(r *http.Request) (view, error) {
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	page := healthPage{Overview: o, Healthy: o.Healthy, Alerts: alerts(o), Leader: o.Leader, Overrides: o.Overrides}
	if page.Version, err = read(r.Context(), p.source, "version", p.source.Version); err != nil {
		return view{}, err
	}
	cluster, err := read(r.Context(), p.source, "cluster", func(ctx context.Context) (apispec.ClusterStatus, error) { return p.source.Cluster(ctx) })
	if err == nil { // an instance that is alone refuses it
		page.Instances = cluster.Members
	}
	return view{title: "Health", template: "health", data: page}, nil
}

// runsPage are the latest runs of all tasks.
type runsPage struct {
	Runs []apispec.Run `json:"runs"`
}

func (p *pages) runs(r *http.Request) (view, error) {
	runs, err := read(r.Context(), p.source, "runs", p.source.LatestRuns)
	return view{title: "Runs", template: "runs", data: runsPage{runs}}, err
}
