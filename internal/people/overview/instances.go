package overview

import (
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// instances returns how much room the instances of a cluster have; nil elsewhere. Those that are
// silent are left out.
func (r Reader) instances(ctx context.Context) (*[]apispec.InstanceRoom, error) {
	if r.Where.Kind != "consul" { // only clusters have such a store
		return nil, nil
	}
	alive := map[string]bool{}
	members, err := state.ReadPeers[state.Instance](ctx, r.Store, state.InstancePrefix)
	if err != nil {
		return nil, fmt.Errorf("list the instances of the cluster: %w", err)
	}
	for _, m := range members {
		alive[m.Data.ID] = m.Data.Lives(r.Now())
	}
	runners, err := state.ReadPeers[state.Runner](ctx, r.Store, state.RunnerPrefix)
	if err != nil {
		return nil, fmt.Errorf("read how much room the instances of the cluster have: %w", err)
	}
	var all []apispec.InstanceRoom
	for _, has := range runners {
		if has.Data.Parallel > 0 && alive[has.Data.ID] {
			all = append(all, apispec.InstanceRoom{ID: has.Data.ID, Parallel: has.Data.Parallel, Room: has.Data.Room})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return &all, nil
}
