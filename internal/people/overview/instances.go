package overview

import (
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Differences names in what an instance of a cluster differs from the leader, which gives it no runs.
func Differences(r, leader state.Instance) []string {
	all := config.DifferingParts(r.Parts, leader.Parts)
	if r.Terraform != leader.Terraform {
		all = append(all, "Terraform")
	}
	if len(all) == 0 { // what one of them has read since it wrote its record, or a module that it lacks
		all = []string{"its files, its modules or its version of Terrapulse"}
	}
	return all
}

// instances returns how much room the instances of a cluster have, and in what they differ from the leader,
// whose owner is given; nil elsewhere. Those that are silent are left out.
func (r Reader) instances(ctx context.Context, leader string) (*[]apispec.InstanceRoom, error) {
	if r.Where.Kind != "consul" { // only clusters have such a store
		return nil, nil
	}
	alive, leads := map[string]state.Instance{}, state.Instance{}
	members, err := state.ReadPeers[state.Instance](ctx, r.Store, state.InstancePrefix)
	if err != nil {
		return nil, fmt.Errorf("list the instances of the cluster: %w", err)
	}
	for _, m := range members {
		if m.Data.Lives(r.Now()) {
			alive[m.Data.ID] = m.Data
		}
		if m.Data.Owner == leader {
			leads = m.Data
		}
	}
	runners, err := state.ReadPeers[state.Runner](ctx, r.Store, state.RunnerPrefix)
	if err != nil {
		return nil, fmt.Errorf("read how much room the instances of the cluster have: %w", err)
	}
	led := ""
	for _, has := range runners {
		if has.Data.ID == leads.ID {
			led = has.Data.Definition
		}
	}
	var all []apispec.InstanceRoom
	for _, has := range runners {
		member, lives := alive[has.Data.ID]
		if has.Data.Parallel == 0 || !lives {
			continue
		}
		room := apispec.InstanceRoom{ID: has.Data.ID, Parallel: has.Data.Parallel, Room: has.Data.Room}
		if led != "" && has.Data.Definition != led {
			room.Differs = new(Differences(member, leads))
		}
		all = append(all, room)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return &all, nil
}
