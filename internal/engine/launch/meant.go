package launch

import (
	"context"
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// A launch may be for one instance (Launch.For): the folder of the task there may have its latest Terraform
// state. It is opened for that instance alone, and waits until it has room. If the instance is not there, or
// does not take the launch although it has room, any instance may have it: the run itself refuses to begin without a
// state that is known to be there.

// meantEvery is how often the leader finds out whether the instances are there that launches wait for, and
// how long an instance with room may need to take its launch.
const meantEvery = 5 * time.Second

// meant reports whether a launch waits for another instance.
func (l *leading) meant(ctx context.Context, q *queued) (bool, error) {
	launch := &q.launch
	if launch.For == "" || launch.For == l.ID {
		return false, nil
	}
	instance, why, err := l.reach(ctx, launch.For)
	if err != nil {
		return false, err
	}
	now := l.Now()
	switch {
	case instance.Room == 0:
		q.room = time.Time{}
	case q.room.IsZero():
		q.room = now
	}
	over := !launch.ForUntil.IsZero() && clock.Reached(launch.ForUntil, now)
	if why == "" && !over && (instance.Room == 0 || now.Sub(q.room) < meantEvery) {
		return true, nil
	}
	has, err := l.takeBack(ctx, q)
	if has {
		launch.For, launch.ForUntil = "", time.Time{}
	}
	return !has, err
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
