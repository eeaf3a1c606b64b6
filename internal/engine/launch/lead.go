package launch

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// leading is an instance that leads: its queue, and what it has read of other instances.
type leading struct {
	*Shared
	apply     state.Apply
	instances folder
	parallel  int // how many runs the others can carry out at a time
	there     map[string]bool
	ended     map[string]uint64 // by instance: the runs that have ended there
	queue     []*queued         // in the order in which they came; under mu
}

// queued is a launch of one run that waits at the leader. Only Serve changes it.
type queued struct {
	launch state.Launch
	// open is the record by which others take the launch. It has no key if there is none, and no version while it
	// is not certain that there is one.
	open state.Record
	room time.Time // since when the instance that it is for is seen with room; zero if it has none
}

// Share lets other instances take launches until the function that it returns is called. It writes with apply.
func (s *Shared) Share(ctx context.Context, apply state.Apply) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	l := &leading{Shared: s, apply: apply, instances: folder{prefix: state.RunnerPrefix}}
	l.instances.stale.Store(true)
	go s.follow(ctx, &l.instances)
	s.lead(l)
	return func() {
		end()
		s.lead(nil)
		for _, q := range l.queued() { // the next leader starts them
			l.drop(q)
		}
	}
}

// queued returns the launches that wait.
func (l *leading) queued() []*queued {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.queue)
}

// drop removes a launch that waits, if it still does.
func (l *leading) drop(q *queued) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, q); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		l.forget(q.launch.ID)
	}
}

// place has launches begin here while there is room. Of the others it opens those for other instances, and as many
// as these can carry out.
func (l *leading) place(ctx context.Context) (wait time.Duration, err error) {
	if err := l.readOpen(ctx); err != nil {
		return 0, err
	}
	if err := l.readInstances(ctx); err != nil {
		return 0, err
	}
	wait = announcedFor
	here, others := true, l.parallel
	for _, q := range l.queued() {
		meant, err := l.meant(ctx, q)
		if err != nil {
			return 0, err
		}
		if meant {
			wait, err = meantEvery, l.open(ctx, q)
		} else if here = here && l.Reserve(); here {
			err = l.begin(ctx, q)
		} else if q.launch.For == "" && others > 0 {
			others--
			err = l.open(ctx, q)
		}
		if err != nil {
			return 0, err
		}
	}
	return wait, nil
}

// readOpen removes the launches from the queue that others have taken, and deletes those that former leaders have
// opened: this one starts them itself.
func (l *leading) readOpen(ctx context.Context) error {
	if read, err := l.opened.read(ctx, l.Store); !read {
		return err
	}
	opened := map[string]*queued{}
	for _, q := range l.queued() {
		if q.open.Key != "" {
			opened[q.open.Key] = q
		}
	}
	for _, record := range l.opened.records {
		if q, is := opened[record.Key]; is {
			q.open = record
			delete(opened, record.Key)
		} else if _, err := l.take(ctx, l.apply, record); err != nil {
			return err
		}
	}
	for _, q := range opened {
		l.drop(q)
		if q.open.Version == "" { // nobody has taken it, or an answer was lost: a tick finds out
			notify(l.Local.ended)
		}
	}
	return nil
}

// readInstances reads the instances. If a run has ended on one of them, or an instance is gone or has come, a tick
// follows.
func (l *leading) readInstances(ctx context.Context) error {
	if read, err := l.instances.read(ctx, l.Store); !read {
		return err
	}
	parallel, there, ended := 0, map[string]bool{}, map[string]uint64{}
	for _, record := range l.instances.records {
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
		notify(l.Local.ended)
	}
	l.parallel, l.there, l.ended = parallel, there, ended
	return nil
}

// open lets others take a launch.
func (l *leading) open(ctx context.Context, q *queued) error {
	if q.open.Key != "" {
		return nil
	}
	q.open.Key = state.OpenKey(q.launch.ID)
	open := state.Open{Launch: q.launch, Works: l.Works()}
	written, err := l.apply(ctx, state.Create(q.open.Key, state.Encode(open)).Until(q.launch.KeptUntil()))
	if err != nil {
		l.opened.stale.Store(true)
		return err
	}
	q.open = written[0]
	return nil
}

// begin begins a launch for which room is reserved, unless another instance has it.
func (l *leading) begin(ctx context.Context, q *queued) error {
	has, err := l.takeBack(ctx, q)
	if !has {
		l.Release()
		return err
	}
	l.Begin(q.launch)
	l.drop(q)
	return nil
}

// takeBack has others take a launch no more, and reports whether none of them has it. If one has, the launch is
// removed from the queue when the open ones are read again.
func (l *leading) takeBack(ctx context.Context, q *queued) (has bool, err error) {
	if q.open.Key == "" {
		return true, nil
	}
	if has, err = l.take(ctx, l.apply, q.open); has {
		q.open = state.Record{}
	} else if err != nil {
		q.open.Version = ""
	}
	return has, err
}
