package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// MaxRecords and MaxAge bound what is kept for a sink that takes nothing: a
	// list of a thousand records takes well below a second from every store, and
	// what happened a week ago is no news.
	MaxRecords = 1000
	MaxAge     = 7 * 24 * time.Hour
	// MaxBacklog bounds what is kept for sinks that take events, but slower than they
	// happen: an event of each of 10,000 tasks.
	MaxBacklog = 10000

	// removedAtOnce is how many records one write removes: Apply takes
	// state.MaxChanges, of which one may be that of the lease, one is the record of
	// the latest events, some are of the history, and Close may add one.
	removedAtOnce = state.MaxChanges - 3 - 2*sealedAtOnce
	// markedAtOnce is how many records one write marks at most.
	markedAtOnce = state.MaxChanges - 1

	// maxLeft is how many records stay in the store after their delivery.
	maxLeft = 10

	// noteTime is how long a delivery may take after the end of its context to note what
	// the sinks have taken: a slow sink would else get the same events each time.
	noteTime = 5 * time.Second
)

// Delivery delivers the events in the store.
type Delivery struct {
	Store state.Store
	// Apply writes under the lease, so that as a rule one process delivers. If two
	// do, events arrive twice, still in order.
	Apply state.Apply
	// Close, if set, makes the last write of Run instead of Apply, and releases the lease with it. Its
	// answer may lack the records.
	Close state.Apply
	// Delivered are the names of the records that every sink has taken and that were left. Leave, if
	// set, notes such records instead of Close, if they are few: then they are removed later, several at
	// once. So the store has two writes less, that of the record and that of the latest events.
	Delivered []string
	Leave     func(ctx context.Context, delivered []string) error
	// Known is what this process knows of the store from earlier deliveries; may be nil.
	Known *Known
	// Sinks returns the sinks, which another configuration may change.
	Sinks func() []Sink
	Pages Pages  // which the events link to
	Rests *Rests // of the sinks that fail; without it, no sink rests and nothing is dropped for too many records
	Now   func() time.Time
	Log   *slog.Logger
	// Backlog, if set, is called by Follow with what is left, and without anything when it ends.
	Backlog func(Backlog)
	// Last says that this process ends: no sink waits for more events.
	Last bool
}

// Known is what a process knows of the store from earlier deliveries. The zero value knows nothing.
type Known struct {
	latest *latestRecord // nil if it must be read
}

// Report is what a delivery did.
type Report struct {
	Taken  int       // deliveries that succeeded
	Left   int       // events that some sink has not taken
	Again  time.Time // when the first sink with events left takes some again
	Failed error     // why sinks did not take events; it is logged already
}

// Backlog is what some sink has not taken.
type Backlog struct {
	Events int
	Oldest time.Time // when the oldest of them happened; zero without any
}

// stored is a record of the outbox.
type stored struct {
	state.Stored[record]
	more bool // a sink has taken something that is not noted in the store
	gone bool // the record is removed
	left bool // all sinks have taken everything, and it was left
}

// item is an event that waits for delivery.
type item struct {
	Event
	in *stored
	n  int // index in the record
}

// queue is what a delivery has read of the outbox.
type queue struct {
	Delivery
	sinks   []Sink
	records []*stored // oldest first
	byKey   map[string]*stored
	items   []item // that can be delivered, in their order
	failed  map[Sink]error
}

func newQueue(d Delivery) *queue {
	if d.Known == nil {
		d.Known = new(Known)
	}
	return &queue{Delivery: d, failed: map[Sink]error{}}
}

// result is what a sink did with the events that it was given.
type result struct {
	sink   Sink
	taken  []item
	failed error
}

// Run gives every event once to every sink that has not taken it and does not
// rest, and removes what all sinks have taken. Each sink has its own progress.
// The error is one of the store.
func (d Delivery) Run(ctx context.Context) (Report, error) {
	q := newQueue(d)
	if err := q.read(ctx); err != nil || len(q.records) == 0 {
		return Report{}, err
	}
	results := make([]result, len(q.sinks))
	var work sync.WaitGroup
	for i, sink := range q.sinks {
		items := q.outstanding(sink)
		work.Go(func() { results[i] = d.deliver(ctx, sink, items) })
	}
	work.Wait()
	taken := 0
	for _, r := range results {
		q.conclude(r)
		taken += len(r.taken)
	}
	err := q.note(ctx, true)
	report := q.report()
	report.Taken = taken
	return report, err
}

// read reads the records, and keeps what is not noted in the store yet.
//
// A list is no snapshot: it may show an event and not its predecessor, which
// was written to a part that had been read already. The predecessor is in every
// list that begins later. So the list is read twice, and what is newer than the
// first list waits.
func (q *queue) read(ctx context.Context) error {
	q.sinks = q.Sinks()
	first, err := q.list(ctx)
	if err != nil {
		return err
	}
	if len(first) == 0 {
		q.records, q.byKey, q.items = nil, nil, nil
		return nil
	}
	newest := map[string]uint64{} // by stream
	for _, rec := range first {
		for _, e := range rec.Data.Events {
			newest[e.stream()] = max(newest[e.stream()], e.Seq)
		}
	}
	records, err := q.list(ctx)
	if err != nil {
		return err
	}
	byKey := make(map[string]*stored, len(records))
	for _, rec := range records {
		byKey[rec.Key] = rec
	}
	for _, old := range q.records {
		if rec := byKey[old.Key]; rec != nil && old.more {
			rec.Data.Taken, rec.more = old.Data.Taken, true
		}
	}
	q.records, q.byKey, q.items = records, byKey, nil
	for _, rec := range records {
		for n, e := range rec.Data.Events {
			if !rec.left {
				q.items = append(q.items, item{q.Pages.Of(e), rec, n})
			}
		}
	}
	list.Sort(q.items, func(a, b item) int { return cmp.Compare(a.Seq, b.Seq) })
	q.items = inFirst(q.items, newest)
	return nil
}

func (d Delivery) list(ctx context.Context) ([]*stored, error) {
	all, corrupt, err := state.ReadEach[record](ctx, d.Store, Prefix)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	for _, err := range corrupt {
		d.Log.Error("an event cannot be read and is dropped", "error", err)
		if _, err := d.apply(ctx, []state.Change{state.Delete(err.Record)}); err != nil {
			return nil, err
		}
	}
	return list.Map(all, func(rec state.Stored[record]) *stored {
		return &stored{Stored: rec, left: slices.Contains(d.Delivered, name(rec.Record))}
	}), nil
}

// conclude takes the result of a sink in.
func (q *queue) conclude(r result) {
	for _, it := range r.taken {
		if rec := q.byKey[it.in.Key]; rec != nil { // it may have been read again
			rec.take(r.sink.Name(), it.n)
		}
	}
	if r.failed == nil {
		delete(q.failed, r.sink)
		return
	}
	q.failed[r.sink] = r.failed
}

// note removes the records that all sinks have taken and those that are too many
// or too old. It also writes which sinks have taken a part of a record, if marks
// is set. It does so after the end of the context, too.
func (q *queue) note(ctx context.Context, marks bool) (err error) {
	ctx, cancel := delay.Outlive(ctx, noteTime)
	defer cancel()
	var done, kept []*stored
	for _, rec := range q.records {
		if rec.missing(q.sinks) == 0 {
			done = append(done, rec)
		} else {
			kept = append(kept, rec)
		}
	}
	if marks {
		var dropped []*stored
		dropped, kept = q.bounded(kept)
		q.logDropped(dropped)
		done = append(done, dropped...)
	}
	write := q.Apply
	if q.Close != nil && marks && !slices.ContainsFunc(kept, func(rec *stored) bool { return rec.more }) {
		write = q.Close
	}
	if q.leaves(done, kept, marks) {
		return q.leave(ctx, done)
	}
	if err = q.remove(ctx, done, write); err == nil {
		for _, rec := range q.records {
			rec.gone = true
		}
		for _, rec := range kept {
			rec.gone = false
		}
		q.records = kept
		q.items = slices.DeleteFunc(q.items, func(it item) bool { return it.in.gone })
	}
	if !marks {
		return err
	}
	var some []*stored
	size := 0
	for _, rec := range kept {
		if !rec.more {
			continue
		}
		// A mark is a sink's name and a number, far less than half of what an Apply takes.
		if len(some) == markedAtOnce || size+len(rec.Value) > state.MaxBytes/2 {
			err = errors.Join(err, q.mark(ctx, some))
			some, size = nil, 0
		}
		some, size = append(some, rec), size+len(rec.Value)
	}
	return errors.Join(err, q.mark(ctx, some))
}

// leaves reports whether records that all sinks have taken stay in the store for now.
func (q *queue) leaves(done, kept []*stored, marks bool) bool {
	return q.Leave != nil && marks && len(done) <= maxLeft && len(kept) == 0
}

// leave notes the records that all sinks have taken, unless they were noted before.
func (q *queue) leave(ctx context.Context, done []*stored) error {
	q.records, q.items = nil, nil
	if !slices.ContainsFunc(done, func(rec *stored) bool { return !rec.left }) {
		return nil
	}
	if err := q.Leave(ctx, list.Map(done, func(rec *stored) string { return name(rec.Record) })); err != nil {
		return fmt.Errorf("note which events were delivered: %w", err)
	}
	return nil
}

// name is the name of a record in the outbox.
func name(rec state.Record) string { return strings.TrimPrefix(rec.Key, Prefix) }

// mark writes which sinks have taken a part of each record.
func (q *queue) mark(ctx context.Context, records []*stored) error {
	written, err := q.apply(ctx, list.Map(records, func(rec *stored) state.Change { return rec.Write(rec.Data) }))
	if err != nil {
		return err
	}
	for _, rec := range records {
		rec.more = false
		if i := slices.IndexFunc(written, func(w state.Record) bool { return w.Key == rec.Key }); i >= 0 {
			rec.Record = written[i]
		}
	}
	return nil
}

// report says what is left.
func (q *queue) report() Report {
	r := Report{Failed: errors.Join(slices.Collect(maps.Values(q.failed))...)}
	for _, rec := range q.records {
		r.Left += rec.missing(q.sinks)
	}
	now := q.Now()
	for _, sink := range q.sinks {
		if at := q.due(sink, now); !at.IsZero() && (r.Again.IsZero() || at.Before(r.Again)) {
			r.Again = at
		}
	}
	return r
}

// backlog says what is left, and since when.
func (q *queue) backlog() (left Backlog) {
	for _, rec := range q.records {
		for n, e := range rec.Data.Events {
			if !slices.ContainsFunc(q.sinks, func(sink Sink) bool { return rec.lacks(sink, n) }) {
				continue
			}
			left.Events++
			if left.Oldest.IsZero() || e.At.Before(left.Oldest) {
				left.Oldest = e.At
			}
		}
	}
	return left
}

func (s *stored) take(sink string, n int) {
	if s.Data.Taken == nil {
		s.Data.Taken = map[string][]int{}
	}
	s.Data.Taken[sink], s.more = append(s.Data.Taken[sink], n), true
}

// lacks reports whether the sink wants the event and has not taken it.
func (s *stored) lacks(sink Sink, n int) bool {
	if choosy, ok := sink.(Choosy); ok && !choosy.Wants(s.Data.Events[n]) {
		return false
	}
	return !slices.Contains(s.Data.Taken[sink.Name()], n)
}

// missing is how many of the record's events some sink has not taken.
func (s *stored) missing(sinks []Sink) (missing int) {
	if s.left {
		return 0
	}
	for n := range s.Data.Events {
		if slices.ContainsFunc(sinks, func(sink Sink) bool { return s.lacks(sink, n) }) {
			missing++
		}
	}
	return missing
}

// deliver gives the sink the events. After an error the later events of the same
// task wait, and those of other tasks as well if the sink is down.
func (d Delivery) deliver(ctx context.Context, sink Sink, left []item) (r result) {
	r.sink = sink
	blocked := map[string]bool{} // streams
	for len(left) > 0 {
		var some []item
		some, left = first(left, most(sink), blocked)
		if len(some) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			r.failed = cmp.Or(r.failed, fmt.Errorf("deliver events to %s: %w", sink.Name(), err))
			return r
		}
		errs := give(ctx, sink, some)
		for i, it := range some {
			if errs[i] != nil {
				continue
			}
			r.taken = append(r.taken, it)
			if d.Rests.succeeded(sink, it.stream()) {
				d.Log.Info("a sink takes events again", "sink", sink.Name())
			}
		}
		for i, it := range some {
			err := errs[i]
			if err == nil {
				continue
			}
			r.failed = cmp.Or(r.failed, fmt.Errorf("deliver event %s to %s: %w", it.ID, sink.Name(), err))
			if ended := ctx.Err(); ended != nil && (len(r.taken) > 0 || !errors.Is(ended, context.DeadlineExceeded)) {
				return r // this says nothing about the sink
			}
			wait := d.Rests.failed(sink, it.stream(), err, d.Now())
			d.Log.Warn("events were not delivered, trying again", "sink", sink.Name(), "event", it.ID, "task", it.Task, "again_in", wait, "error", err)
			if errors.As(err, new(*DownError)) {
				return r
			}
			blocked[it.stream()] = true
		}
	}
	return r
}

// most is how many events the sink takes at once.
func most(sink Sink) int {
	if batcher, ok := sink.(Batcher); ok {
		return batcher.Most()
	}
	return 1
}

// give delivers the events, at most as many as the sink takes at once. It returns
// the error of each.
func give(ctx context.Context, sink Sink, some []item) []error {
	batcher, ok := sink.(Batcher)
	if !ok {
		return []error{sink.Deliver(ctx, some[0].Event)}
	}
	return batcher.DeliverAll(ctx, list.Map(some, func(it item) Event { return it.Event }))
}

// bounded returns which records are dropped, and which are kept. Of too many records, the
// oldest are dropped that only failing sinks lack: others need time.
func (q *queue) bounded(all []*stored) (dropped, kept []*stored) {
	excess, now := len(all)-MaxRecords, q.Now()
	for i, rec := range all {
		old := now.Sub(rec.Data.Events[0].At) > MaxAge
		if old || len(all)-i > MaxBacklog || len(dropped) < excess && !q.awaited(rec) {
			dropped = append(dropped, rec)
		} else {
			kept = append(kept, rec)
		}
	}
	return dropped, kept
}

// awaited reports whether a sink that does not fail lacks an event of the record.
func (q *queue) awaited(rec *stored) bool {
	for n, e := range rec.Data.Events {
		if slices.ContainsFunc(q.sinks, func(sink Sink) bool { return rec.lacks(sink, n) && !q.Rests.failing(sink, e.stream()) }) {
			return true
		}
	}
	return false
}

// logDropped logs what the sinks do not get.
func (q *queue) logDropped(dropped []*stored) {
	for _, sink := range q.sinks {
		n := 0
		for _, rec := range dropped {
			n += rec.missing([]Sink{sink})
		}
		if n > 0 {
			q.Log.Error("events are dropped that a sink did not take", "sink", sink.Name(), "events", n, "error", q.failed[sink])
		}
	}
}

// apply makes the changes. A record that another process has changed or removed
// meanwhile is left to that one.
func (d Delivery) apply(ctx context.Context, changes []state.Change) ([]state.Record, error) {
	for len(changes) > 0 {
		written, err := d.Apply(ctx, changes...)
		conflict := new(state.ConflictError)
		if errors.As(err, &conflict) {
			others := slices.DeleteFunc(slices.Clone(changes), func(c state.Change) bool { return c.Key == conflict.Change.Key })
			if len(others) < len(changes) {
				changes = others
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("note which events were delivered: %w", err)
		}
		return written, nil
	}
	return nil, nil
}
