package launch

import (
	"context"
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// announcedFor is how long the record of an instance is valid. It is written again when half of
	// that has passed: an instance that does nothing writes once in 5 minutes at most. That an instance
	// has died is seen earlier, by its record in the cluster (lives.go), which is kept for longer.
	announcedFor = 12 * time.Minute

	// leaderPace is how often the leader writes how much room it has: only people read it.
	leaderPace = 5 * time.Second

	// leavePatience limits the removal of the record of an instance that ends.
	leavePatience = 3 * time.Second
)

// announced is what an instance has written about itself.
type announced struct {
	record state.Stored[state.Runner]
	at     time.Time // when it was last written
	since  time.Time // when this process began
}

// announce writes the record of this instance, if it is not as it should be. It returns when to do so
// again, even if nothing happens.
func (s *Shared) announce(ctx context.Context) time.Duration {
	now, a := s.Now(), &s.announced
	if a.since.IsZero() {
		a.since, a.record.Key = now, state.RunnerKey(s.ID)
	}
	was := a.record.Data
	next := state.Runner{ID: s.ID, Definition: s.Works(), Since: a.since, Until: now.Add(announcedFor), Ended: s.ends(), Parallel: s.Parallel(), Room: s.Room()}
	if was.Until.After(now.Add(announcedFor / 2)) {
		next.Until = was.Until
	}
	if was == next {
		return announcedFor / 4
	}
	if rest := leaderPace - now.Sub(a.at); s.leads() != nil && was.Definition == next.Definition && rest > 0 && rest <= leaderPace {
		return rest
	}
	written, err := s.Store.Apply(ctx, a.record.Write(next).Until(next.KeptUntil()))
	if conflict := new(state.ConflictError); errors.As(err, &conflict) { // of an earlier process, or an answer was lost
		a.record.Version, a.record.Data = versionOf(conflict.Current), state.Runner{}
		return 0
	}
	if err != nil {
		s.Log.Debug("cannot announce how much room there is", "instance", s.ID, "error", err)
		return again
	}
	a.record, a.at = state.Stored[state.Runner]{Record: written[0], Data: next}, now
	return announcedFor / 4
}

// leave removes the record.
func (s *Shared) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavePatience)
	defer cancel()
	for record := s.announced.record.Record; ctx.Err() == nil && record.Version != ""; {
		_, err := s.Store.Apply(ctx, state.Delete(record))
		conflict := new(state.ConflictError)
		if !errors.As(err, &conflict) {
			return
		}
		record.Version = versionOf(conflict.Current)
	}
}

// versionOf returns the version of a record; "" if there is none.
func versionOf(record *state.Record) string {
	if record == nil {
		return ""
	}
	return record.Version
}
