package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/state"
)

const (
	// MaxRecords and MaxAge bound what is kept for a sink that takes nothing: a
	// list of a thousand records takes well below a second from every store, and
	// what happened a week ago is no news.
	MaxRecords = 1000
	MaxAge     = 7 * 24 * time.Hour

	// removedAtOnce is how many records one write removes: Apply takes
	// state.MaxChanges, one of which may be the check of the lease.
	removedAtOnce = state.MaxChanges - 1

	// noteTime is how long Run may take after the end of its context to note what
	// the sinks have taken: a slow sink would else get the same events each time.
	noteTime = 5 * time.Second
)

// Delivery delivers the events in the store.
type Delivery struct {
	Store state.Store
	// Apply writes under the lease, so that as a rule one process delivers. If two
	// do, events arrive twice, still in order.
	Apply func(ctx context.Context, changes ...state.Change) ([]state.Record, error)
	Sinks []Sink
	Now   func() time.Time
	Log   *slog.Logger
}

// stored is a record of the outbox.
type stored struct {
	state.Stored[record]
	more bool // a sink has taken something in this delivery
}

// item is an event that waits for delivery.
type item struct {
	Event
	in *stored
	n  int // index in the record
}

// Run delivers every event to every sink that has not taken it, and removes what
// all sinks have taken. Each sink has its own progress: one that fails delays no
// other. It returns how many events are left for the next delivery, and why.
func (d Delivery) Run(ctx context.Context) (left int, err error) {
	records, items, err := d.read(ctx)
	if err != nil || len(records) == 0 {
		return 0, err
	}
	failed := make([]error, len(d.Sinks))
	taken := make([][]item, len(d.Sinks))
	var work sync.WaitGroup
	for i, sink := range d.Sinks {
		work.Go(func() { taken[i], failed[i] = deliver(ctx, sink, items) })
	}
	work.Wait()
	for i, sink := range d.Sinks {
		for _, it := range taken[i] {
			it.in.take(sink.Name(), it.n)
		}
	}
	err = errors.Join(failed...)
	var done []state.Change
	var kept []*stored
	for _, rec := range records {
		if rec.missing(d.Sinks) == 0 {
			done = append(done, state.Delete(rec.Record))
		} else {
			kept = append(kept, rec)
		}
	}
	if n := d.tooMany(kept); n > 0 {
		d.logDropped(kept[:n], err)
		for _, rec := range kept[:n] {
			done = append(done, state.Delete(rec.Record))
		}
		kept = kept[n:]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	for chunk := range slices.Chunk(done, removedAtOnce) {
		err = errors.Join(err, d.apply(ctx, chunk))
	}
	for _, rec := range kept {
		left += rec.missing(d.Sinks)
		if rec.more {
			err = errors.Join(err, d.apply(ctx, []state.Change{rec.Write(rec.Data)}))
		}
	}
	return left, err
}

// read returns the records, oldest first, and the events that can be delivered
// now, in their order.
//
// A list is no snapshot: it may show an event and not the one before it, which
// was written to a part that had been read already. The one before is in every
// list that begins later. So the list is read twice, and what is newer than the
// first list waits.
func (d Delivery) read(ctx context.Context) ([]*stored, []item, error) {
	first, err := d.list(ctx)
	if err != nil || len(first) == 0 {
		return nil, nil, err
	}
	newest := map[string]uint64{} // by stream
	for _, rec := range first {
		for _, e := range rec.Data.Events {
			newest[e.stream()] = max(newest[e.stream()], e.Seq)
		}
	}
	records, err := d.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	var items []item
	for _, rec := range records {
		for n, e := range rec.Data.Events {
			if e.Seq <= newest[e.stream()] {
				items = append(items, item{e, rec, n})
			}
		}
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.Seq, b.Seq) })
	return records, items, nil
}

func (d Delivery) list(ctx context.Context) ([]*stored, error) {
	all, corrupt, err := state.ReadEach[record](ctx, d.Store, Prefix)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	for _, err := range corrupt {
		d.Log.Error("an event cannot be read and is dropped", "error", err)
		if err := d.apply(ctx, []state.Change{state.Delete(err.Record)}); err != nil {
			return nil, err
		}
	}
	records := make([]*stored, len(all))
	for i, rec := range all {
		records[i] = &stored{Stored: rec}
	}
	return records, nil
}

func (s *stored) take(sink string, n int) {
	if s.Data.Taken == nil {
		s.Data.Taken = map[string][]int{}
	}
	s.Data.Taken[sink], s.more = append(s.Data.Taken[sink], n), true
}

func (s *stored) hasTaken(sink Sink, n int) bool {
	return slices.Contains(s.Data.Taken[sink.Name()], n)
}

// missing is how many of the record's events some sink has not taken.
func (s *stored) missing(sinks []Sink) (missing int) {
	for n := range s.Data.Events {
		if slices.ContainsFunc(sinks, func(sink Sink) bool { return !s.hasTaken(sink, n) }) {
			missing++
		}
	}
	return missing
}

// deliver gives the sink the events that it has not taken. After an error the
// later events of the same task wait; those of other tasks do not.
func deliver(ctx context.Context, sink Sink, items []item) (taken []item, failed error) {
	blocked := map[string]bool{} // streams
	for _, it := range items {
		if blocked[it.stream()] || it.in.hasTaken(sink, it.n) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return taken, cmp.Or(failed, fmt.Errorf("deliver events to %s: %w", sink.Name(), err))
		}
		if err := sink.Deliver(ctx, it.Event); err != nil {
			blocked[it.stream()] = true
			failed = cmp.Or(failed, fmt.Errorf("deliver event %s to %s: %w", it.ID, sink.Name(), err))
			continue
		}
		taken = append(taken, it)
	}
	return taken, failed
}

// tooMany is how many of the records, the oldest, are not kept any longer.
func (d Delivery) tooMany(kept []*stored) int {
	n := max(0, len(kept)-MaxRecords)
	for n < len(kept) && d.Now().Sub(kept[n].Data.Events[0].At) > MaxAge {
		n++
	}
	return n
}

// logDropped logs what the sinks do not get.
func (d Delivery) logDropped(dropped []*stored, cause error) {
	count := map[string]int{} // by sink
	for _, rec := range dropped {
		for _, sink := range d.Sinks {
			count[sink.Name()] += len(rec.Data.Events) - len(rec.Data.Taken[sink.Name()])
		}
	}
	for _, sink := range d.Sinks {
		if n := count[sink.Name()]; n > 0 {
			d.Log.Error("events are dropped that a sink did not take", "sink", sink.Name(), "events", n, "error", cause)
		}
	}
}

// apply makes the changes. A record that another process has changed or removed
// meanwhile is left to that one.
func (d Delivery) apply(ctx context.Context, changes []state.Change) error {
	for len(changes) > 0 {
		_, err := d.Apply(ctx, changes...)
		conflict := new(state.ConflictError)
		if errors.As(err, &conflict) {
			others := slices.DeleteFunc(slices.Clone(changes), func(c state.Change) bool { return c.Key == conflict.Change.Key })
			if len(others) < len(changes) {
				changes = others
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("note which events were delivered: %w", err)
		}
		return nil
	}
	return nil
}
