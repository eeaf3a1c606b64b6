package launch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// again is how long to wait after the store has failed.
const again = time.Second

// Shared executes runs in this process and in the other instances of a cluster.
//
// Launches that the leader starts wait in its queue. It opens as many as the other instances can carry out at a
// time: open/ID has the launch, and what an instance must work with. The instance that deletes open/ID has the
// launch: one with room, or the leader, when it has room and the launch is next. So the leader chooses no instance
// and waits for none. One goroutine of each instance, Serve, opens launches, takes them and has them begin: what it
// does about a launch is over before it does something else about it. Each run is still claimed by itself:
//
//   - An instance dies, or its answer is lost, between the delete and the claim: the run is not claimed, and
//     no queue has it. The leader's next tick starts the launch again, under the same id.
//   - The answer to a write of the leader is lost: it reads what is open before it does anything else. What is not
//     open is not in its queue any more, and a tick starts it again if nobody claims it.
//   - The leader loses the lease or dies: its queue is lost, and the next leader starts the launches again. It first
//     deletes every open/ID, so that only its own launches are open. Its writes are fenced.
//   - An instance has taken a launch that was started again: the claim decides.
//   - A run ends before it is claimed, as when somebody cancels it: it cannot be claimed any more.
//
// A launch may be for one instance alone (Launch.For): see meant.go.
type Shared struct {
	*Local
	Store state.Store
	ID    string // of this instance
	// Works returns what this instance works with now: its configuration and programs. It takes only
	// launches of leaders that work with the same.
	Works func() string
	Skew  time.Duration // maximum difference between the clocks
	Now   func() time.Time
	Log   *slog.Logger

	announced announced
	sightings sightings // of other instances
	opened    folder    // launches that instances may take

	mu      sync.Mutex
	leading *leading // nil while another instance leads
}

var _ reconcile.Sharer = (*Shared)(nil)

// NewShared returns a launcher that shares the launches of local.
func NewShared(local *Local, store state.Store, id string) *Shared {
	context.AfterFunc(local.ctx, func() { notify(local.changed) })
	return &Shared{Local: local, Store: store, ID: id, opened: folder{prefix: state.OpenPrefix}}
}

// leads returns what this instance does as the leader; nil while another instance leads.
func (s *Shared) leads() *leading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leading
}

// lead makes this instance the leader, or has it lead no more.
func (s *Shared) lead(l *leading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading = l
	s.opened.stale.Store(true)
	notify(s.changed)
}

// Serve announces how much room the instance has, and opens launches as the leader or takes them, until ctx ends.
func (s *Shared) Serve(ctx context.Context) {
	go s.follow(ctx, &s.opened)
	for ctx.Err() == nil {
		wait := time.NewTimer(s.serve(ctx))
		select {
		case <-ctx.Done():
		case <-s.changed:
		case <-wait.C:
		}
		wait.Stop()
	}
	s.leave(ctx)
}

// serve does what there is to do. It returns when to do so again, even if nothing happens.
func (s *Shared) serve(ctx context.Context) time.Duration {
	act := s.takeSome
	if l := s.leads(); l != nil {
		act = l.place
	}
	wait, err := act(ctx)
	if err != nil {
		s.Log.Debug("cannot share launches", "instance", s.ID, "error", err)
		return again
	}
	return min(wait, s.announce(ctx))
}

// takeSome takes open launches while there is room. Those that another version of Terrapulse has written are left
// to others.
func (s *Shared) takeSome(ctx context.Context) (wait time.Duration, err error) {
	if s.Room() == 0 {
		return announcedFor, nil
	}
	if _, err := s.opened.read(ctx, s.Store); err != nil {
		return 0, err
	}
	works := s.Works()
	for _, record := range s.opened.records {
		open, err := state.Decode[state.Open](record)
		launch := open.Data.Launch
		if err != nil || open.Data.Works != works || launch.For != "" && launch.For != s.ID {
			continue
		}
		if !s.Reserve() {
			break
		}
		has, err := s.take(ctx, s.Store.Apply, record)
		if !has {
			s.Release()
			if err != nil {
				return 0, err
			}
			continue
		}
		s.Log.Info("launch taken", "launch", launch.ID, "instance", s.ID)
		s.Begin(launch)
	}
	return announcedFor, nil
}

// take deletes the record of an open launch, and reports whether this process has the launch now. If not, another
// one has it, or an answer was lost.
func (s *Shared) take(ctx context.Context, apply state.Apply, open state.Record) (has bool, err error) {
	s.opened.stale.Store(true)
	if _, err = apply(ctx, state.Delete(open)); errors.As(err, new(*state.ConflictError)) {
		return false, nil
	}
	return err == nil, err
}

// Start begins to execute the launch's runs and returns. A launch of one run that the leader starts waits in its
// queue.
func (s *Shared) Start(ctx context.Context, launch state.Launch) error {
	if s.enqueue(launch) {
		return nil
	}
	return s.Local.Start(ctx, launch)
}

// enqueue has a launch wait in the queue of the leader, unless it is not to be shared.
func (s *Shared) enqueue(launch state.Launch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leading == nil || !launch.Kind.Applies() || len(launch.Runs) != 1 {
		return false
	}
	if s.expect(launch.ID) {
		launch.Begun = time.Now()
		s.leading.queue = append(s.leading.queue, &queued{launch: launch})
		notify(s.changed)
	}
	return true
}
