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
	"sync"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// latestKey is the record of the latest events that left the outbox.
	latestKey = "events/latest"
	// MaxLatest is how many events people can read afterwards, however old they are.
	MaxLatest = 50
	// latestText is how many bytes of each text are kept of such an event.
	latestText = 300
	// latestTasks is how many names of tasks are kept of such an event.
	latestTasks = 10
)

// latest is the stored form of the latest events. It is compressed: the record is written
// with each removal of delivered events, and some stores bill a write by its size.
type latest struct {
	Events []byte `json:"events"` // JSON, compressed
}

// brief is the event without what only programs need.
func (e Event) brief() Event {
	b := Event{ID: e.ID, Kind: e.Kind, Seq: e.Seq, At: e.At, Task: e.Task, Run: e.Run, Runner: e.Runner, Reason: e.Reason, By: e.By,
		Started: e.Started, Since: e.Since, Until: e.Until, Failures: e.Failures, Count: e.Count, Tasks: e.Tasks[:min(len(e.Tasks), latestTasks)], Quiet: e.Quiet, WaitFor: e.WaitFor, Plan: e.Plan, RunKind: e.RunKind,
		Detail: state.CutTo(e.Detail, latestText), Error: state.CutTo(e.Error, latestText), Cause: state.CutTo(e.Cause, latestText)}
	b.Changes = e.Changes.Counts()
	return b
}

// newest returns the newest of the events, the oldest first, each once.
func newest(events []Event) []Event {
	list.Sort(events, func(a, b Event) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Seq, b.Seq)) })
	seen := map[string]bool{}
	events = slices.DeleteFunc(events, func(e Event) bool {
		again := seen[e.ID]
		seen[e.ID] = true
		return again
	})
	return events[max(0, len(events)-MaxLatest):]
}

// compressors are reused: each one takes almost 1 MB.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// encode returns the stored form of events.
func encode(events []Event) (latest, error) {
	raw, err := json.Marshal(events)
	if err != nil {
		return latest{}, err
	}
	var out bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&out)
	_, _ = w.Write(raw) // a buffer takes everything
	err = w.Close()
	return latest{out.Bytes()}, err
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
}

// readLatest reads the record. One that cannot be decoded, because somebody has edited it,
// has no events and is overwritten.
func readLatest(ctx context.Context, s state.Store) (latestRecord, error) {
	rec, err := state.Read[latest](ctx, s, latestKey)
	if corrupt := (*state.CorruptError)(nil); errors.As(err, &corrupt) {
		return latestRecord{record: state.Stored[latest]{Record: corrupt.Record}}, nil
	}
	if err != nil {
		return latestRecord{}, fmt.Errorf("read the latest events: %w", err)
	}
	events, err := rec.Data.decode()
	if err != nil {
		events = nil
	}
	return latestRecord{rec, events}, nil
}

// Latest returns the latest events, the newest first: MaxLatest at most, also those that
// no sink has taken yet. They lack what only programs need.
func Latest(ctx context.Context, s state.Store) ([]Event, error) {
	// What is delivered in between is read twice, and not missed.
	waiting, _, err := state.ReadEach[record](ctx, s, Prefix)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	rec, err := readLatest(ctx, s)
	if err != nil {
		return nil, err
	}
	all := rec.events
	for _, w := range waiting {
		for _, e := range w.Data.Events {
			all = append(all, e.brief())
		}
	}
	all = newest(all)
	slices.Reverse(all)
	return all, nil
}

// remove removes records from the outbox, and keeps their events as the latest ones in
// the same write. A record that another process has changed or removed is left to it. The last write
// is made with last.
func (q *queue) remove(ctx context.Context, done []*stored, last state.Apply) error {
	for len(done) > 0 {
		chunk, write := done[:min(len(done), removedAtOnce)], q.Apply
		if done = done[len(chunk):]; len(done) == 0 {
			write = last
		}
		for len(chunk) > 0 {
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
					return err
				}
				q.Known.latest = &read
			}
			events = newest(slices.Concat(q.Known.latest.events, events))
			next, err := encode(events)
			if err != nil {
				return fmt.Errorf("encode the latest events: %w", err)
			}
			written, err := write(ctx, append(changes, q.Known.latest.record.Write(next))...)
			conflict := new(state.ConflictError)
			switch {
			case err == nil:
				q.Known.latest, chunk = nil, nil
				if len(written) > len(changes) {
					q.Known.latest = &latestRecord{state.Stored[latest]{Record: written[len(changes)]}, events}
				}
			case errors.As(err, &conflict) && conflict.Change.Key == latestKey:
				q.Known.latest = nil
			case errors.As(err, &conflict) && slices.ContainsFunc(chunk, func(rec *stored) bool { return rec.Key == conflict.Change.Key }):
				chunk = slices.DeleteFunc(slices.Clone(chunk), func(rec *stored) bool { return rec.Key == conflict.Change.Key })
			default:
				return fmt.Errorf("note which events were delivered: %w", err)
			}
		}
	}
	return nil
}
