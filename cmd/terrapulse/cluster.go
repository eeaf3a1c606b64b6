package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/cluster"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

// timingOf is how long leases and claims last.
func timingOf(cfg *config.Config) cluster.Timing {
	if h := cfg.HighAvailability; h != nil {
		return cluster.TimingOf(h.Cluster.Storage.SessionTTL)
	}
	return cluster.Timing{LeaseTTL: leaseTTL, Claim: leaseTTL}
}

// join makes this instance one of its cluster until the context ends, and has
// the engine keep to that. Where no high availability is configured it does
// nothing and returns nil. What it returns beside waits until the others know
// that the instance has ended.
func (e *engine) join(ctx context.Context, cfg *config.Config, log *slog.Logger) (member *cluster.Member, wait func()) {
	h := cfg.HighAvailability
	if h == nil {
		return nil, func() {}
	}
	control := e.control()
	member = cluster.New(cluster.Options{
		Instance: cluster.Instance{
			Cluster: h.Cluster.Name, ID: cfg.ID, Address: h.Instance.Address, Service: cfg.Consul.ServiceRegistration.ServiceName,
			Owner: e.reconciler.Owner, Lease: state.LeaderLease, Terraform: e.terraform,
		},
		Store: e.store, SessionTTL: h.Cluster.Storage.SessionTTL, Now: time.Now, Log: log,
		Base: e.base.Load,
		Effective: func(ctx context.Context) (*config.Config, error) {
			effective, err := control.Config(ctx)
			if err != nil {
				return nil, err
			}
			return effective.Config, nil
		},
	})
	e.reconciler.Blocked = member.Blocked
	var work sync.WaitGroup
	work.Go(func() { member.Run(ctx) })
	return member, work.Wait
}

// instances answers GET /v1/status/cluster.
type instances struct{ *cluster.Member }

// Status implements api.Cluster.
func (i instances) Status(ctx context.Context) (apispec.ClusterStatus, error) {
	status, err := i.Member.Status(ctx)
	out := apispec.ClusterStatus{ClusterName: status.ClusterName, Members: []apispec.ClusterMember{}}
	for _, m := range status.Members {
		member := apispec.ClusterMember{ID: m.ID, Healthy: m.Healthy, Leader: m.Leader, ServiceName: m.ServiceName}
		if m.Address != "" {
			member.Address = &m.Address
		}
		out.Members = append(out.Members, member)
	}
	return out, err
}
