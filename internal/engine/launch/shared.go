package launch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// again is how long to wait after the store has failed.
const again = time.Second

// Shared executes runs in this process and, while it leads, gives launches that wait to other
// instances of the cluster. Package linger has the protocol.
type Shared struct {
	*Local
	Store state.Store
	ID    string // of this instance
	// Works returns what this instance works with: see linger.Instance.
	Works func() string
	Skew  time.Duration // maximum difference between the clocks
	Now   func() time.Time
	Log   *slog.Logger

	sightings   sightings       // of other instances
	waits, room <-chan struct{} // receive when runs have come, begun or ended

	mu      sync.Mutex
	offers  *linger.Offers          // while this process leads; otherwise nil
	leading context.Context         // the same
	placing map[string]bool         // launches that are offered
	meant   map[string]state.Launch // for other instances, and not offered yet, by id
}

var (
	_ reconcile.Sharer = (*Shared)(nil)
	_ linger.Host      = (*Shared)(nil)
)

// NewShared returns a launcher that shares the launches of local.
func NewShared(local *Local, store state.Store, id string) *Shared {
	return &Shared{Local: local, Store: store, ID: id, placing: map[string]bool{}, meant: map[string]state.Launch{}, waits: local.changes(), room: local.changes()}
}

// Ended implements linger.Host.
func (s *Shared) Ended() uint64 { return s.ends() }

// Changed implements linger.Host.
func (s *Shared) Changed() <-chan struct{} { return s.room }

// Leads implements linger.Host.
func (s *Shared) Leads() bool {
	offers, _ := s.leads()
	return offers != nil
}

func (s *Shared) leads() (*linger.Offers, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offers, s.leading
}

// Serve takes launches of other instances until ctx ends.
func (s *Shared) Serve(ctx context.Context) {
	i := linger.Instance{Runner: linger.Runner{Store: s.Store, ID: s.ID, Now: s.Now, Log: s.Log}, Host: s, Works: s.Works}
	i.Serve(ctx)
}

// Share gives launches to others until the function that it returns is called. It writes with apply.
func (s *Shared) Share(ctx context.Context, apply state.Apply) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.offers, s.leading = &linger.Offers{Store: s.Store, Apply: apply, Now: s.Now, Skew: s.Skew, Log: s.Log}, ctx
	s.mu.Unlock()
	ended := background.Run(ctx, s.share)
	return func() {
		cancel()
		s.mu.Lock()
		s.offers, s.leading = nil, nil
		clear(s.meant) // the next leader starts them
		s.mu.Unlock()
		ended()
	}
}

// share makes offers when a launch waits and another instance has room.
func (s *Shared) share(ctx context.Context) {
	changes := linger.Changes(ctx, s.Store, state.RunnerPrefix, s.Log)
	var others others
	for ctx.Err() == nil {
		var retry <-chan time.Time
		if !s.offer(ctx, &others) {
			retry = time.After(again)
		} else if s.waitsForOthers() {
			retry = time.After(meantEvery)
		}
		select {
		case <-ctx.Done():
		case <-changes:
			others.stale = true
		case <-s.waits:
		case <-retry:
			others.stale = true
		}
		if others.stale && others.read(ctx, s) {
			s.tellEnded()
		}
	}
}

// others are the other instances, as they were read last.
type others struct {
	stale bool
	free  []state.Stored[state.Runner]
	there map[string]bool   // those that can be given launches, also if they have no room; nil before they are read
	ended map[string]uint64 // by instance: the runs that have ended there
}

// read reads the instances. It reports whether a run has ended on one of them, or an instance is gone
// or has come.
func (o *others) read(ctx context.Context, s *Shared) (ended bool) {
	records, err := s.Store.List(ctx, state.RunnerPrefix)
	if err != nil {
		s.Log.Debug("cannot read how much room the instances have", "error", err)
		return false
	}
	var runners []state.Stored[state.Runner]
	now := map[string]uint64{}
	for _, record := range records {
		r, err := state.Decode[state.Runner](record)
		if err != nil { // a newer version has written it: it gets no launches
			s.Log.Debug("an instance gets no launches", "record", strings.TrimPrefix(record.Key, state.RunnerPrefix), "error", err)
			continue
		}
		if r.Data.ID != s.ID {
			runners, now[r.Data.ID] = append(runners, r), r.Data.Ended
		}
	}
	s.sightings.forget(now)
	for id, before := range o.ended {
		ended = ended || now[id] != before
	}
	offers, _ := s.leads()
	if o.stale, o.ended = false, maps.Clone(now); offers == nil {
		return false
	}
	current := *offers
	current.Definition = s.Works()
	o.free = current.Roomiest(runners, s.ID)
	there := map[string]bool{}
	for _, r := range runners {
		if id := r.Data.ID; current.Unreached(r) == "" {
			there[id] = true
			ended = ended || o.there != nil && !o.there[id] // it may keep a state that a task waits for
		}
	}
	o.there = there
	return ended
}

// offer offers launches that wait to the instances that have room. It returns false if it has to try
// again.
func (s *Shared) offer(ctx context.Context, others *others) bool {
	offers, _ := s.leads()
	if offers == nil {
		return true
	}
	current := *offers
	current.Definition = s.Works()
	if !s.offerMeant(ctx, &current, others) {
		return false
	}
	for len(others.free) > 0 {
		to := others.free[0]
		launch, ok := s.hand(to.Data.Room, func(id string) { s.places(id, true) })
		if !ok {
			return true
		}
		others.free = others.free[1:] // one offer at a time
		if !s.offerOne(ctx, &current, launch, to) {
			others.stale = true
			return false
		}
	}
	return true
}

// offerOne offers a launch to an instance. It returns false if that did not succeed.
func (s *Shared) offerOne(ctx context.Context, offers *linger.Offers, launch state.Launch, to state.Stored[state.Runner]) bool {
	stored, err := state.Read[state.Launch](ctx, s.Store, state.LaunchKey(launch.ID))
	if err != nil || !stored.Exists() || stored.Data.Offer != "" {
		if err == nil && stored.Data.Offered() { // the answer to an earlier offer was lost
			s.place(ctx, offers, stored.Data)
			return true
		}
		if err == nil && (!stored.Exists() || stored.Data.TakenByRunner()) { // an expired one is lost: a tick finds that
			s.places(launch.ID, false)
			return true
		}
		launch.Offer = stored.Data.Offer // if it was withdrawn, nobody else gets it
		s.places(launch.ID, false)
		s.back(launch)
		return err == nil
	}
	offered, err := offers.Make(ctx, stored, to)
	switch {
	case err == nil:
		s.place(ctx, offers, offered)
		return true
	case errors.As(err, new(*state.ConflictError)): // the instance has written its record meanwhile
		s.places(launch.ID, false)
		s.back(launch)
	default: // perhaps it is written
		s.Log.Debug("cannot offer a launch", "launch", launch.ID, "instance", to.Data.ID, "error", err)
		go s.findOut(ctx, offers, launch)
	}
	return false
}

// findOut reads whether a launch was offered, after the answer was lost.
func (s *Shared) findOut(ctx context.Context, offers *linger.Offers, launch state.Launch) {
	for delay.For(ctx, again) {
		stored, err := state.Read[state.Launch](ctx, s.Store, state.LaunchKey(launch.ID))
		switch {
		case err != nil:
			continue
		case stored.Data.Offered():
			s.place(ctx, offers, stored.Data)
			return
		}
		s.places(launch.ID, false)
		if stored.Exists() && !stored.Data.TakenByRunner() {
			s.back(launch)
		}
		return
	}
	s.places(launch.ID, false) // the next leader finds out
}

// place waits in the background until an offered launch is taken. If it is not taken in time, it is
// executed here.
func (s *Shared) place(ctx context.Context, offers *linger.Offers, launch state.Launch) {
	s.places(launch.ID, true)
	go func() {
		defer s.places(launch.ID, false)
		for {
			taker, err := offers.Place(ctx, launch)
			switch {
			case err == nil && taker == state.TakenByContainer:
				s.takeBack(launch)
				return
			case err == nil:
				s.Log.Debug("an instance has taken a launch", "launch", launch.ID, "instance", taker)
				return
			case errors.Is(err, linger.ErrGone): // it was offered for so long that it has expired: a tick finds its runs lost
				return
			}
			if s.Log.Debug("cannot read whether a launch was taken", "launch", launch.ID, "error", err); !delay.For(ctx, again) {
				return // the next leader finds out
			}
		}
	}()
}

func (s *Shared) places(launch string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.placing, launch); yes {
		s.placing[launch] = true
	}
}

// Start begins to execute the launch's runs, or continues with its offer, and returns.
func (s *Shared) Start(ctx context.Context, launch state.Launch) error {
	if offers, leading := s.leads(); offers != nil && launch.Offered() {
		s.mu.Lock()
		known := s.placing[launch.ID]
		s.mu.Unlock()
		if !known {
			s.place(leading, offers, launch)
		}
		return nil
	} else if offers != nil && s.elsewhere(launch) {
		s.mean(launch)
		return nil
	}
	return s.Local.Start(ctx, launch)
}

// Places implements reconcile.Sharer.
func (s *Shared) Places() bool { return s.Leads() }

// Status implements reconcile.Launcher: a launch that is offered may still begin.
func (s *Shared) Status(ctx context.Context, launches []string) (map[string]reconcile.LaunchStatus, error) {
	status, err := s.Local.Status(ctx, launches)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range launches {
		if _, meant := s.meant[id]; meant || s.placing[id] {
			status[id] = reconcile.LaunchStatus{Running: true}
		}
	}
	return status, err
}
