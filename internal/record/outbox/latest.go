package outbox

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// latestKey is the record of the latest events that left the outbox.
	latestKey = "events/latest"
	// MaxLatest is how many events that record has at most. Earlier ones are in the history.
	MaxLatest = 50
	// latestText is how many bytes of each text are kept of such an event.
	latestText = 300
	// latestTasks is how many names of tasks are kept of such an event.
	latestTasks = 10
)

// latest is the stored form of the latest events. It is compressed: the record is written
// with each removal of delivered events, and some stores bill a write by its size.
type latest struct {
	Events []byte    `json:"events"`         // JSON, compressed
	Next   uint64    `json:"next,omitempty"` // number of the next record of the history
	To     time.Time `json:"to,omitzero"`    // no event of the newest epoch of the history is later
	Past   time.Time `json:"past,omitzero"`  // no event of the epoch before that is later
}

// brief is the event without what only programs need.
func (e Event) brief() Event {
	b := Event{ID: e.ID, Kind: e.Kind, Seq: e.Seq, At: e.At, Task: e.Task, Run: e.Run, Runner: e.Runner, Reason: e.Reason, By: e.By,
		Started: e.Started, Took: e.Took, Since: e.Since, Until: e.Until, Failures: e.Failures, Count: e.Count, Tasks: e.Tasks[:min(len(e.Tasks), latestTasks)], Quiet: e.Quiet, WaitFor: e.WaitFor, Plan: e.Plan, RunKind: e.RunKind,
		Detail: state.CutTo(e.Detail, latestText), Error: state.CutTo(e.Error, latestText), Cause: state.CutTo(e.Cause, latestText)}
	b.Changes = e.Changes.Counts()
	return b
}

// sorted returns the events, the oldest first, each once.
func sorted(events []Event) []Event {
	list.Sort(events, func(a, b Event) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Seq, b.Seq)) })
	seen := map[string]bool{}
	return slices.DeleteFunc(events, func(e Event) bool {
		again := seen[e.ID]
		seen[e.ID] = true
		return again
	})
}

// compressors are reused: each one takes almost 1 MB.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// encode returns the stored form of events.
func encode(events []Event) ([]byte, error) {
	raw, err := json.Marshal(events)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&out)
	_, _ = w.Write(raw) // a buffer takes everything
	err = w.Close()
	return out.Bytes(), err
}

// decode returns the events, the oldest first.
func (l latest) decode() ([]Event, error) {
	if len(l.Events) == 0 {
		return nil, nil
	}
	var events []Event
	r, err := gzip.NewReader(bytes.NewReader(l.Events))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(raw, &events)
	}
	return events, err
}

// latestRecord is the record of the latest events with its content, the oldest first.
type latestRecord struct {
	record state.Stored[latest]
	events []Event
	lost   bool // somebody has edited it, or it was removed
}

// readLatest reads the record. One that cannot be decoded, because somebody has edited it,
// has no events and is overwritten.
func readLatest(ctx context.Context, s state.Store) (latestRecord, error) {
	rec, err := state.Read[latest](ctx, s, latestKey)
	if corrupt := (*state.CorruptError)(nil); errors.As(err, &corrupt) {
		return latestRecord{record: state.Stored[latest]{Record: corrupt.Record}, lost: true}, nil
	}
	if err != nil {
		return latestRecord{}, fmt.Errorf("read the latest events: %w", err)
	}
	events, err := rec.Data.decode()
	if err != nil {
		events = nil
	}
	return latestRecord{rec, events, !rec.Exists()}, nil
}

// Latest returns the latest events, the newest first: MaxLatest at most, also those that
// no sink has taken yet. They lack what only programs need.
func Latest(ctx context.Context, s state.Store) ([]Event, error) {
	events, _, err := List(ctx, s, Query{Limit: MaxLatest}, func(Event) bool { return true })
	return events, err
}

// remove removes records from the outbox, and keeps their events as the latest ones in
// the same write. A record that another process has changed or removed is left to it. The last write
// is made with last.
func (q *queue) remove(ctx context.Context, done []*stored, last state.Apply) error {
	for len(done) > 0 {
		chunk, write := atOnce(done), q.Apply
		if done = done[len(chunk):]; len(done) == 0 {
			write = last
		}
		for len(chunk) > 0 {
			gone, err := q.removeSome(ctx, chunk, write)
			if err != nil {
				return fmt.Errorf("note which events were delivered: %w", err)
			}
			chunk = slices.DeleteFunc(slices.Clone(chunk), func(rec *stored) bool { return slices.Contains(gone, rec) })
		}
	}
	return nil
}

// atOnce returns the first records that one write removes.
func atOnce(done []*stored) []*stored {
	events := 0
	for i, rec := range done {
		if events += len(rec.Data.Events); i > 0 && (i == removedAtOnce || events > removedEvents) {
			return done[:i]
		}
	}
	return done
}

// removeSome makes one write of remove, and returns which records are gone. If another process was
// faster, it may be none.
func (q *queue) removeSome(ctx context.Context, chunk []*stored, write state.Apply) (gone []*stored, err error) {
	changes := make([]state.Change, len(chunk))
	var events []Event
	for i, rec := range chunk {
		changes[i] = state.Delete(rec.Record)
		for _, e := range rec.Data.Events {
			events = append(events, e.brief())
		}
	}
	if q.Known.latest == nil {
		read, err := readLatest(ctx, q.Store)
		if err != nil {
			return nil, err
		}
		q.Known.latest = &read
	}
	known := q.Known.latest
	events = sorted(slices.Concat(known.events, events))
	stay, next, history, err := q.seal(ctx, known.record.Data, events)
	if err != nil {
		return nil, err
	}
	if next.Events, err = pack(stay); err != nil {
		return nil, err
	}
	changes = append(append(changes, history...), known.record.Write(next))
	written, err := write(ctx, changes...)
	conflict := new(state.ConflictError)
	switch {
	case err == nil:
		q.Known.latest = nil
		if len(written) >= len(changes) {
			q.Known.latest = &latestRecord{record: state.Stored[latest]{Record: written[len(changes)-1], Data: next}, events: stay}
		}
		return chunk, nil
	case !errors.As(err, &conflict):
		return nil, err
	case conflict.Change.Key == latestKey:
		q.Known.latest = nil
		return nil, nil
	case strings.HasPrefix(conflict.Change.Key, historyPrefix):
		return nil, q.renumber(ctx)
	}
	i := slices.IndexFunc(chunk, func(rec *stored) bool { return rec.Key == conflict.Change.Key })
	if i < 0 {
		return nil, err
	}
	return chunk[i : i+1], nil
}

// renumber corrects the number of the next record of the history, after the record of the latest events
// was lost, or another process was faster.
func (q *queue) renumber(ctx context.Context) error {
	read, err := readLatest(ctx, q.Store)
	if err != nil {
		return err
	}
	data := &read.record.Data
	data.Next, data.To, err = lastSealed(ctx, q.Store)
	q.Known.latest = &read
	return err
}
