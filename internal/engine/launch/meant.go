package launch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// A launch may be for one instance (Launch.For): the folder of the task there may have its latest Terraform
// state. It is opened for that instance alone, and waits until it has room. If the instance is not there, or
// does not take the launch although it has room, the launch is first in the leader's queue, for any instance: the
// run itself refuses to begin without a state that is known to be there.

// meantEvery is how often the leader finds out whether the instances are there that launches wait for, and
// how long an instance with room may need to take its launch.
const meantEvery = 5 * time.Second

// meant is a launch for another instance.
type meant struct {
	launch state.Launch
	room   time.Time // since when that instance is seen to have room; zero if it has none
}

// mean has a launch wait for the instance that it is for.
func (s *Shared) mean(launch state.Launch) {
	s.mu.Lock()
	if _, known := s.meant[launch.ID]; !known && s.apply != nil {
		s.meant[launch.ID] = meant{launch: launch}
	}
	s.mu.Unlock()
	s.poke()
}

// anyMeant reports whether launches wait for other instances.
func (s *Shared) anyMeant() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.meant) > 0
}

// beginMeant has the launches whose instances are not there begin anywhere.
func (s *Shared) beginMeant(ctx context.Context) error {
	s.mu.Lock()
	all := maps.Clone(s.meant)
	s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		launch := all[id].launch
		instance, why, err := s.reach(ctx, launch.For)
		if err != nil {
			return err
		}
		over := !launch.ForUntil.IsZero() && clock.Reached(launch.ForUntil, s.Now())
		if why == "" && !over && s.waitsOn(id, instance.Room > 0) {
			continue
		}
		if s.take(ctx, id) { // else it was taken at the last moment
			launch.For, launch.ForUntil = "", time.Time{}
			s.beginFirst(launch)
		}
		s.mu.Lock()
		delete(s.meant, id)
		s.mu.Unlock()
	}
	return nil
}

// waitsOn reports whether a launch still waits for its instance, which has room or not at present.
func (s *Shared) waitsOn(launch string, room bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, there := s.meant[launch]
	switch {
	case !there: // this process does not lead any more
		return true
	case !room:
		m.room = time.Time{}
	case m.room.IsZero():
		m.room = s.Now()
	}
	s.meant[launch] = m
	return !room || s.Now().Sub(m.room) < meantEvery
}

// Unreached implements reconcile.Sharer.
func (s *Shared) Unreached(ctx context.Context, instance string) (why string, err error) {
	if instance != s.ID {
		_, why, err = s.reach(ctx, instance)
	}
	return why, err
}

// reach returns the record of another instance, and why it takes no launches; "" if it does.
func (s *Shared) reach(ctx context.Context, instance string) (runner state.Runner, why string, err error) {
	stored, corrupt, err := state.ReadAnyway[state.Runner](ctx, s.Store, state.RunnerKey(instance))
	if newer := new(state.NewerError); errors.As(err, &newer) || corrupt != nil {
		return runner, "that instance works with another version of Terrapulse", nil
	}
	if err != nil {
		return runner, "", err
	}
	if why := s.refuses(stored); why != "" {
		return runner, why, nil
	}
	member, _, err := state.ReadAnyway[state.Instance](ctx, s.Store, state.InstanceKey(instance))
	if err != nil && !errors.As(err, new(*state.NewerError)) {
		return runner, "", err
	}
	if s.sightings.silent(instance, member, s.Now()) {
		return runner, "that instance is not there", nil
	}
	return stored.Data, "", nil
}

// refuses returns why an instance takes no launches of this one, also if it has room; "" if it does. An
// instance that is dead and had a wrong clock has written a time that may be hours ahead.
func (s *Shared) refuses(r state.Stored[state.Runner]) string {
	switch now := s.Now(); {
	case !r.Exists(), !now.Before(r.Data.Until.Add(s.Skew)):
		return "that instance is not there"
	case r.Data.Definition != s.Works():
		return "that instance works with other files or another Terraform than the leader"
	case r.Data.Until.After(now.Add(announcedFor + s.Skew)):
		return "that instance is not there, or its clock is wrong"
	}
	return ""
}
