package launch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Share lets other instances take launches until the function that it returns is called. It writes with apply.
func (s *Shared) Share(ctx context.Context, apply state.Apply) (stop func()) {
	s.mu.Lock()
	s.apply = apply
	s.mu.Unlock()
	end := background.Run(ctx, s.share)
	return func() {
		end()
		s.mu.Lock()
		s.apply = nil
		clear(s.open)
		clear(s.meant) // the next leader starts them
		s.mu.Unlock()
		s.poke()
	}
}

// share opens launches that wait, and learns what becomes of them.
func (s *Shared) share(ctx context.Context) {
	changes := s.changesBelow(ctx, state.RunnerPrefix)
	l := leading{Shared: s, stale: true}
	for ctx.Err() == nil {
		var retry <-chan time.Time
		if err := l.step(ctx); err != nil {
			s.Log.Debug("cannot give launches to other instances", "error", err)
			retry = time.After(again)
		} else if s.anyMeant() {
			retry = time.After(meantEvery)
		}
		select {
		case <-ctx.Done():
		case <-changes:
			l.stale = true
		case <-s.changed:
			l.taken = true
		case <-s.waits:
		case <-retry:
		}
	}
}

// leading is what the leader knows of other instances, as they were read last.
type leading struct {
	*Shared
	began    bool // what former leaders have opened was deleted
	taken    bool // others may have taken open launches since
	stale    bool // the instances may have changed since
	parallel int  // how many runs they can carry out at a time
	there    map[string]bool
	ended    map[string]uint64 // by instance: the runs that have ended there
}

func (l *leading) step(ctx context.Context) error {
	apply := l.leads()
	if !l.began {
		if err := l.begin(ctx, apply); err != nil {
			return err
		}
		l.began = true
	}
	if l.taken {
		if err := l.forgetTaken(ctx); err != nil {
			return err
		}
		l.taken = false
	}
	if l.stale {
		if err := l.read(ctx); err != nil {
			return err
		}
		l.stale = false
	}
	if err := l.beginMeant(ctx); err != nil {
		return err
	}
	return l.openSome(ctx, apply)
}

// begin deletes the launches that former leaders have opened: this one starts them itself.
func (l *leading) begin(ctx context.Context, apply state.Apply) error {
	records, err := l.Store.List(ctx, state.OpenPrefix)
	if err != nil {
		return err
	}
	for _, record := range records {
		if _, err := apply(ctx, state.Delete(record)); err != nil && !errors.As(err, new(*state.ConflictError)) {
			return err
		}
	}
	return nil
}

// forgetTaken removes the launches from the queue that other instances have taken. One that is not in the queue
// any more begins here just now, and take finds out that it was taken.
func (l *leading) forgetTaken(ctx context.Context) error {
	records, err := l.Store.List(ctx, state.OpenPrefix)
	if err != nil {
		return err
	}
	open := map[string]bool{}
	for _, record := range records {
		open[record.Key] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.open {
		_, meant := l.meant[id]
		if !open[state.OpenKey(id)] && (meant || l.drop(id)) {
			delete(l.open, id)
			delete(l.meant, id)
		}
	}
	return nil
}

// read reads the instances. If a run has ended on one of them, or an instance is gone or has come, a tick follows.
func (l *leading) read(ctx context.Context) error {
	records, err := l.Store.List(ctx, state.RunnerPrefix)
	if err != nil {
		return err
	}
	parallel, there, ended := 0, map[string]bool{}, map[string]uint64{}
	for _, record := range records {
		r, err := state.Decode[state.Runner](record)
		if err != nil { // a newer version has written it: it takes no launches
			l.Log.Debug("an instance gets no launches", "record", strings.TrimPrefix(record.Key, state.RunnerPrefix), "error", err)
			continue
		}
		id := r.Data.ID
		if id == l.ID {
			continue
		}
		if ended[id] = r.Data.Ended; l.refuses(r) == "" {
			there[id], parallel = true, parallel+r.Data.Parallel
		}
	}
	l.sightings.forget(ended)
	// An instance may keep a state that a task waits for.
	if l.ended != nil && (!maps.Equal(l.ended, ended) || !maps.Equal(l.there, there)) {
		l.tellEnded()
	}
	l.parallel, l.there, l.ended = parallel, there, ended
	return nil
}

// openSome opens launches that wait: those for other instances, and as many as these can carry out.
func (l *leading) openSome(ctx context.Context, apply state.Apply) error {
	works := l.Works()
	select { // what begins here from now on is not opened, or waits to see that it is
	case l.opening <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.opening }()
	for _, launch := range l.toOpen() {
		open := state.Open{Launch: launch, Works: works}
		written, err := apply(ctx, state.Create(state.OpenKey(launch.ID), state.Encode(open)).Until(launch.KeptUntil()))
		if conflict := new(state.ConflictError); errors.As(err, &conflict) && conflict.Current != nil { // an answer was lost
			written = []state.Record{*conflict.Current}
		} else if err != nil {
			return err
		}
		l.mu.Lock()
		l.open[launch.ID] = written[0]
		l.mu.Unlock()
	}
	return nil
}

// toOpen returns the launches that are to be opened.
func (l *leading) toOpen() []state.Launch {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []state.Launch
	for _, id := range slices.Sorted(maps.Keys(l.meant)) {
		if _, is := l.open[id]; !is {
			all = append(all, l.meant[id].launch)
		}
	}
	return append(all, l.queued(l.parallel, l.open)...)
}
