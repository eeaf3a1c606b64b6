package consul

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Identify reads what tells this Consul from another one at the same address. It
// needs no rights, except of a peer, whose place is condition.Scope.Place. place is "" for the
// datacenter of the agent.
//
// The id of the cluster is in its trust domain. It survives restarts, new servers
// and new certificates, and a snapshot brings it along. Where Connect is off, it is
// "". The index is that of the catalog: it is read from a service that does not exist.
func (c *Client) Identify(ctx context.Context, place string) (state.Identity, error) {
	scope := condition.ScopeAt(place)
	if scope.Peer != "" {
		return c.identifyPeer(ctx, scope.Peer)
	}
	a, err := c.get(ctx, request{Request: condition.Request{Act: "read the catalog's index", Path: "/v1/health/service/" + anyName, Scope: scope}}, nil)
	if err != nil {
		return state.Identity{}, err
	}
	var roots struct{ TrustDomain string }
	_, err = c.get(ctx, request{Request: condition.Request{Act: "read the cluster's id", Path: "/v1/connect/ca/roots", Scope: scope}},
		func(d *json.Decoder) error { return d.Decode(&roots) })
	if err != nil && ctx.Err() != nil {
		return state.Identity{}, err
	}
	return state.Identity{Cluster: roots.TrustDomain, Index: a.index}, nil // without Connect, only the index
}

// Places returns the datacenters and peers of what a task selects, sorted, as condition.Scope.Place. The
// requests for that do not show them: what a peer exports is read from this cluster.
func Places(t *config.Task) []string {
	var parts []condition.Selection
	if t.Condition.Spec != nil {
		parts = append(parts, t.Condition.Spec.Selections()...)
	}
	for _, input := range t.ModuleInputs {
		parts = append(parts, input.Selections()...)
	}
	all := list.Map(parts, func(p condition.Selection) string { return p.Scope().Place() })
	slices.Sort(all)
	return slices.Compact(all)
}
