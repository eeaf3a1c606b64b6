package launch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// again is how long to wait after the store has failed.
const again = time.Second

// Shared executes runs in this process and in the other instances of a cluster.
//
// The leader starts launches in its own process, where they wait in a queue. It opens those that wait:
// open/ID has the launch, and what an instance must work with. It opens as many as the other instances can
// carry out at a time. The instance that deletes open/ID has the launch: one with room, or the leader, when the
// launch is next in its queue. So the leader chooses no instance and waits for none. Each run is claimed by itself:
//
//   - An instance dies, or its answer is lost, between the delete and the claim: the run is not claimed, and
//     no queue has it. The leader's next tick starts the launch again, under the same id.
//   - The leader dies: its queue is lost, and the next leader starts the launches again. It first deletes
//     every open/ID, so that only its own launches are open. Its writes are fenced.
//   - A former leader goes on with its queue, or an instance has taken a launch that was started again: the
//     claim decides.
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

	announced   announced
	sightings   sightings       // of other instances
	waits, room <-chan struct{} // receive when runs have come, begun or ended
	changed     chan struct{}   // receives when other open launches are there

	// opening has something in it while launches are opened: whether one of them is open is not known meanwhile.
	opening chan struct{}

	mu    sync.Mutex
	apply state.Apply             // writes as the leader; nil while another instance leads
	open  map[string]state.Record // of the launches that this process has opened, by id
	meant map[string]meant        // launches for other instances that are not taken yet, by id
}

var _ reconcile.Sharer = (*Shared)(nil)

// NewShared returns a launcher that shares the launches of local.
func NewShared(local *Local, store state.Store, id string) *Shared {
	s := &Shared{Local: local, Store: store, ID: id, open: map[string]state.Record{}, meant: map[string]meant{},
		waits: local.changes(), room: local.changes(), changed: make(chan struct{}, 1), opening: make(chan struct{}, 1)}
	local.take = s.take
	return s
}

// leads returns what writes as the leader; nil while another instance leads.
func (s *Shared) leads() state.Apply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply
}

// Serve announces how much room the instance has, and takes open launches, until ctx ends.
func (s *Shared) Serve(ctx context.Context) {
	changes := s.changesBelow(ctx, state.OpenPrefix)
	launches := openLaunches{stale: true}
	for ctx.Err() == nil {
		wait := time.NewTimer(s.serve(ctx, &launches))
		select {
		case <-ctx.Done():
		case <-changes:
			launches.stale = true
			notify(s.changed)
		case <-s.room:
		case <-wait.C:
		}
		wait.Stop()
	}
	s.leave(ctx)
}

// serve does what there is to do. It returns when to do so again, even if nothing happens.
func (s *Shared) serve(ctx context.Context, launches *openLaunches) time.Duration {
	if s.leads() == nil && s.Room() > 0 {
		if err := s.takeSome(ctx, launches); err != nil {
			s.Log.Debug("cannot take a launch", "instance", s.ID, "error", err)
			return again
		}
	}
	return s.announce(ctx)
}

// openLaunches are the launches that instances may take, as they were read last.
type openLaunches struct {
	stale bool
	all   []state.Stored[state.Open]
}

// read reads them. Those that another version of Terrapulse has written are left to others.
func (o *openLaunches) read(ctx context.Context, store state.Store) error {
	records, err := store.List(ctx, state.OpenPrefix)
	if err != nil {
		return err
	}
	o.stale, o.all = false, nil
	for _, record := range records {
		if launch, err := state.Decode[state.Open](record); err == nil {
			o.all = append(o.all, launch)
		}
	}
	return nil
}

// takeSome takes open launches while there is room.
func (s *Shared) takeSome(ctx context.Context, launches *openLaunches) error {
	if launches.stale {
		if err := launches.read(ctx, s.Store); err != nil {
			return err
		}
	}
	works := s.Works()
	for _, open := range launches.all {
		launch := open.Data.Launch
		if open.Data.Works != works || launch.For != "" && launch.For != s.ID {
			continue
		}
		if !s.Reserve() {
			return nil
		}
		launches.stale = true
		if _, err := s.Store.Apply(ctx, state.Delete(open.Record)); err != nil {
			s.Release()
			if errors.As(err, new(*state.ConflictError)) { // somebody else has it
				continue
			}
			return err
		}
		s.Log.Info("launch taken", "launch", launch.ID, "instance", s.ID)
		s.Begin(launch)
	}
	return nil
}

// take reports whether this process may begin a launch: another instance may have taken one that was opened.
func (s *Shared) take(ctx context.Context, launch string) bool {
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-s.opening }()
	s.mu.Lock()
	record, opened := s.open[launch]
	delete(s.open, launch)
	s.mu.Unlock()
	if !opened {
		return true
	}
	_, err := s.Store.Apply(ctx, state.Delete(record))
	if err != nil {
		s.Log.Debug("cannot take a launch", "launch", launch, "instance", s.ID, "error", err)
	}
	return err == nil
}

// Start begins to execute the launch's runs, or has it wait for the instance that it is for, and returns.
func (s *Shared) Start(ctx context.Context, launch state.Launch) error {
	if s.leads() != nil && launch.For != "" && launch.For != s.ID {
		s.mean(launch)
		return nil
	}
	return s.Local.Start(ctx, launch)
}

// Status implements reconcile.Launcher: a launch that waits for an instance may still begin.
func (s *Shared) Status(ctx context.Context, launches []string) (map[string]reconcile.LaunchStatus, error) {
	status, err := s.Local.Status(ctx, launches)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range launches {
		if _, meant := s.meant[id]; meant {
			status[id] = reconcile.LaunchStatus{Running: true}
		}
	}
	return status, err
}

// changesBelow returns what receives when a record below a prefix may have changed, until ctx ends.
func (s *Shared) changesBelow(ctx context.Context, prefix string) <-chan struct{} {
	changes := make(chan struct{}, 1)
	go func() {
		mark := ""
		for failures := 0; ctx.Err() == nil; {
			next, err := state.Await(ctx, s.Store, prefix, mark)
			if mark = next; err != nil {
				if failures++; ctx.Err() == nil {
					s.Log.Debug("cannot wait for changes of the store", "below", prefix, "error", err)
				}
				delay.For(ctx, delay.Doubled(again, 30*again, failures))
			} else {
				failures = 0
			}
			notify(changes)
		}
	}()
	return changes
}

// notify signals, unless an earlier signal was not read yet.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
