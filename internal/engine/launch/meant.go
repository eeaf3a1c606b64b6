package launch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// A launch may be meant for one instance: the folder of the task there may have its latest Terraform
// state. It waits until that instance has room, and is offered to no other. If the instance is not
// there, the leader begins the launch: the run itself refuses to begin without that state.

const (
	// preferFor is how long a launch waits for room on the instance whose run of the task was lost, and
	// which perhaps has a state that is nowhere else.
	preferFor = 20 * time.Second

	// meantEvery is how often launches that wait for an instance are looked at if nothing happens.
	meantEvery = 5 * time.Second
)

// elsewhere reports whether a launch is meant for another instance, which has not had an offer yet.
func (s *Shared) elsewhere(launch state.Launch) bool {
	return launch.For != "" && launch.For != s.ID && launch.Offer == "" && launch.Taker == ""
}

// mean has a launch wait for the instance that it is meant for.
func (s *Shared) mean(launch state.Launch) {
	s.mu.Lock()
	if s.offers != nil && !s.placing[launch.ID] {
		s.meant[launch.ID] = launch
	}
	s.mu.Unlock()
	s.poke()
}

// back takes back a launch that was to be offered.
func (s *Shared) back(launch state.Launch) {
	if s.elsewhere(launch) {
		s.mean(launch)
	} else {
		s.takeBack(launch)
	}
}

// offerMeant offers the launches that are meant for instances which have room now. It returns false if
// it has to try again.
func (s *Shared) offerMeant(ctx context.Context, offers *linger.Offers, others *others) bool {
	if others.there == nil {
		return true
	}
	s.mu.Lock()
	meant := maps.Clone(s.meant)
	s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(meant)) {
		launch := meant[id]
		at := slices.IndexFunc(others.free, func(r state.Stored[state.Runner]) bool { return r.Data.ID == launch.For })
		switch {
		case at >= 0:
			to := others.free[at]
			others.free = slices.Concat(others.free[:at], others.free[at+1:]) // one offer at a time
			if !s.takeMeant(id, true) {
				continue
			}
			if !s.offerOne(ctx, offers, launch, to) {
				others.stale = true
				return false
			}
		case !launch.Only && clock.Passed(launch.Created, preferFor, s.Now(), s.Skew):
			s.beginAnyway(launch)
		default:
			why, err := s.Unreached(ctx, launch.For)
			if err != nil || why == "" && !others.there[launch.For] { // it has come since the instances were read
				others.stale = true
				return false
			}
			if why != "" {
				s.beginAnyway(launch)
			}
		}
	}
	return true
}

// beginAnyway has any instance begin a launch.
func (s *Shared) beginAnyway(launch state.Launch) {
	if s.takeMeant(launch.ID, false) {
		launch.For, launch.Only = "", false
		s.takeBack(launch)
	}
}

// waitsForOthers reports whether launches wait for the instances that they are meant for.
func (s *Shared) waitsForOthers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.meant) > 0
}

// takeMeant removes a launch from those that wait for their instances; placing says that it is offered
// now. It returns false if the launch is not there any more.
func (s *Shared) takeMeant(id string, placing bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.meant[id]
	if delete(s.meant, id); there && placing {
		s.placing[id] = true
	}
	return there
}

// Unreached implements reconcile.Sharer.
func (s *Shared) Unreached(ctx context.Context, instance string) (string, error) {
	if instance == s.ID {
		return "", nil
	}
	runner, corrupt, err := state.ReadAnyway[state.Runner](ctx, s.Store, state.RunnerKey(instance))
	if newer := new(state.NewerError); errors.As(err, &newer) || corrupt != nil {
		return "that instance works with another version of Terrapulse", nil
	}
	if err != nil {
		return "", err
	}
	if why := (&linger.Offers{Now: s.Now, Skew: s.Skew, Definition: s.Works()}).Unreached(runner); why != "" {
		return why, nil
	}
	member, _, err := state.ReadAnyway[state.Instance](ctx, s.Store, state.InstanceKey(instance))
	if err != nil && !errors.As(err, new(*state.NewerError)) {
		return "", err
	}
	if s.sightings.silent(instance, member, s.Now()) {
		return "that instance is not there", nil
	}
	return "", nil
}
