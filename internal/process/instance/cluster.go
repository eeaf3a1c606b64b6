package instance

import (
	"context"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/process/cluster"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// timingOf returns how long leases and claims last.
func timingOf(cfg *config.Config) cluster.Timing {
	if h := cfg.HighAvailability; h != nil {
		return cluster.TimingOf(h.Cluster.Storage.Consul.SessionTTL)
	}
	return cluster.Timing{LeaseTTL: leaseTTL, Claim: leaseTTL}
}

// join makes this instance a member of its cluster until the context ends. Without
// high_availability it does nothing and returns nil. The function that it returns
// waits until the other members know that this instance has ended.
func (i *Instance) join(ctx context.Context, cfg *config.Config) (member *cluster.Member, leave func()) {
	h := cfg.HighAvailability
	if h == nil {
		return nil, func() {}
	}
	control := i.Control()
	member = cluster.New(cluster.Options{
		Instance: cluster.Instance{
			Cluster: h.Cluster.Name, ID: cfg.ID, Address: h.Instance.Address, Service: cfg.Consul.ServiceRegistration.ServiceName,
			Owner: i.Reconciler.Owner, Lease: state.LeaderLease, Terraform: i.program, Version: i.Version,
		},
		Store: i.store, SessionTTL: h.Cluster.Storage.Consul.SessionTTL, Now: time.Now, Log: i.Log,
		Base: i.base.Load,
		Effective: func(ctx context.Context) (*config.Config, error) {
			effective, err := control.Config(ctx)
			if err != nil {
				return nil, err
			}
			return effective.Config, nil
		},
	})
	i.Reconciler.Blocked = member.Blocked
	return member, background.Run(ctx, member.Run)
}
