package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// historyPrefix is the collection of events that are older than those of the record of the latest
	// ones. The keys are numbers, in the order in which the events left the outbox.
	historyPrefix = "history/"
	// perRecord is how many events a record of the history has, or a few times as many if many events
	// are delivered at once.
	perRecord = MaxLatest
	// MaxHistory is how many records the history has: it keeps at least perRecord times as many events,
	// in about 10 MB, and does not grow further.
	MaxHistory = 2000
	// perEpoch is how many records of the history an epoch has. An event from a clock that was far ahead
	// counts for the order of the list in its own epoch and in the next one: otherwise, each page would
	// read the history down to that event, for years.
	perEpoch = 100
	// sealedAtOnce is how many records of the history one write makes at most. Each may remove another.
	sealedAtOnce = 4
	// removedEvents is of how many events one write removes the records.
	removedEvents = 400
	// maxPacked is how many bytes the events of a record take, so that the records of a write stay within
	// state.MaxBytes. Usually they take a fifth of that.
	maxPacked = 30 << 10
	// MaxRead is about how many events of the history one request decodes, whatever it searches. All that are kept
	// would take a second, and a few people who search would delay ticks.
	MaxRead = 5_000
)

// sealed is a record of the history.
type sealed struct {
	From   time.Time `json:"from"` // of the oldest event
	To     time.Time `json:"to"`   // no event of this record, or of earlier ones of this epoch and the previous epoch, is later
	Events []byte    `json:"events"`
}

func historyKey(n uint64) string { return fmt.Sprintf("%s%09d", historyPrefix, n) }

// historyNumber is the number of a key; 0 if it has none.
func historyNumber(key string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(key, historyPrefix), 10, 64)
	return n
}

// seal returns what becomes of events, the oldest first, that are too many for the record of the latest
// ones: those that stay there, and the changes that make records of the history of the others.
func (q *queue) seal(ctx context.Context, known latest, events []Event) (stay []Event, next latest, changes []state.Change, err error) {
	next = latest{Next: known.Next, To: known.To, Past: known.Past}
	if len(events) <= MaxLatest {
		return events, next, nil, nil
	}
	n := len(events) - len(events)%perRecord
	for part := range slices.Chunk(events[:n], max(perRecord, (n+sealedAtOnce-1)/sealedAtOnce)) {
		raw, err := pack(part)
		if err != nil {
			return nil, next, nil, err
		}
		if next.Next%perEpoch == 0 {
			next.Past, next.To = next.To, time.Time{}
		}
		next.To = clock.Later(next.To, part[len(part)-1].At)
		changes = append(changes, state.Create(historyKey(next.Next), state.Encode(sealed{part[0].At, clock.Later(next.Past, next.To), raw})))
		if next.Next >= MaxHistory {
			old, err := q.Store.Get(ctx, historyKey(next.Next-MaxHistory))
			if err == nil {
				changes = append(changes, state.Delete(old))
			} else if !errors.Is(err, state.ErrNotFound) {
				return nil, next, nil, fmt.Errorf("read the oldest events: %w", err)
			}
		}
		next.Next++
	}
	return events[n:], next, changes, nil
}

// pack returns the stored form of events. If it were too large, their texts are shortened.
func pack(events []Event) ([]byte, error) {
	for length := latestText; ; length /= 2 {
		raw, err := encode(events)
		if err != nil {
			return nil, fmt.Errorf("encode events: %w", err)
		}
		if len(raw) <= maxPacked || length == 0 {
			return raw, nil
		}
		events = slices.Clone(events)
		for i := range events {
			e := &events[i]
			e.Detail, e.Error, e.Cause = state.CutTo(e.Detail, length), state.CutTo(e.Error, length), state.CutTo(e.Cause, length)
		}
	}
}

// lastSealed returns the number after that of the newest record of the history, and its To. It is for
// stores whose record of the latest events was lost.
func lastSealed(ctx context.Context, s state.Store) (next uint64, to time.Time, err error) {
	all, _, err := state.ReadEach[sealed](ctx, s, historyPrefix)
	if err != nil {
		return 0, to, fmt.Errorf("read the history of events: %w", err)
	}
	if len(all) == 0 {
		return 0, to, nil
	}
	newest := all[len(all)-1]
	return historyNumber(newest.Key) + 1, newest.Data.To, nil
}

// Query says which events List returns.
type Query struct {
	Since, Until time.Time // Until is not included; zero for no limit
	Before       string    // only those after the last one of an earlier answer, which this was part of
	Limit        int
}

// cursor is a position in all events, the newest first: that of an event that was listed.
type cursor struct {
	from  uint64 // what follows is in the records of the history below this number; 0 if not only there
	read  uint64 // the records of the history below this number were not read yet
	event Event
}

func (c cursor) String() string {
	return fmt.Sprintf("%d.%d.%d.%d.%s", c.from, c.read, c.event.At.UnixNano(), c.event.Seq, c.event.ID)
}

// ErrCursor is what List returns if Query.Before is of no earlier answer.
var ErrCursor = errors.New("before is not from an earlier answer")

func parseCursor(text string) (*cursor, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.SplitN(text, ".", 5)
	if len(parts) < 5 {
		return nil, ErrCursor
	}
	from, err := strconv.ParseUint(parts[0], 10, 64)
	read, err2 := strconv.ParseUint(parts[1], 10, 64)
	at, err3 := strconv.ParseInt(parts[2], 10, 64)
	seq, err4 := strconv.ParseUint(parts[3], 10, 64)
	if errors.Join(err, err2, err3, err4) != nil {
		return nil, ErrCursor
	}
	return &cursor{from, read, Event{At: time.Unix(0, at).UTC(), Seq: seq, ID: parts[4]}}, nil
}

// notBefore is the cursor of what is in the records of the history below a number: none of it was listed.
func notBefore(n uint64) cursor {
	return cursor{n, n, Event{At: time.Unix(0, math.MaxInt64).UTC()}}
}

// later compares events: the newest is the first. Copies of an event are equal.
func later(a, b Event) int {
	return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Seq, a.Seq), cmp.Compare(b.ID, a.ID))
}

// found is an event with the number after that of its record; 0 if it is in none of the history.
type found struct {
	Event
	from uint64
}

// listing lists events.
type listing struct {
	Query
	after   *cursor
	read    uint64 // the records of the history below this number were not read yet
	finds   func(Event) bool
	pending []found // that were read and may come after others that were not
	decoded int     // how many events of the history were read
	last    *Event  // that was looked at
	events  []Event // that are listed
	next    string
}

// List returns the events that a query and a function find, the newest first, and from where a further
// query goes on; "" if there are no more. It lists fewer events than the limit if it has read about MaxRead events
// by then. An event that was recorded late, or is from a clock that was far ahead, is perhaps listed where it was
// recorded. The events lack what only programs need.
func List(ctx context.Context, s state.Store, q Query, finds func(Event) bool) (events []Event, next string, err error) {
	l := &listing{Query: q, finds: finds}
	if l.after, err = parseCursor(q.Before); err != nil {
		return nil, "", err
	}
	below, err := l.newest(ctx, s)
	if err != nil {
		return nil, "", err
	}
	if l.read = below; l.after != nil {
		l.read = min(below, l.after.read)
	}
	for first := true; below > 0; first = false {
		records, err := group(ctx, s, &below, first)
		if err != nil {
			return nil, "", err
		}
		for _, rec := range slices.Backward(records) {
			if l.emit(rec.Data.To) || rec.Data.To.Before(l.Since) || l.full(rec) {
				below = 0
				break
			}
			l.add(rec)
		}
	}
	if l.next == "" {
		l.emit(time.Time{})
	}
	return l.events, l.next, nil
}

// full reports whether enough was read before a record that no request has read. If so, it lists what was read,
// and further requests go on with that record.
func (l *listing) full(rec state.Stored[sealed]) bool {
	if l.decoded < MaxRead || historyNumber(rec.Key) >= l.read {
		return false
	}
	if !l.emit(time.Time{}) {
		l.next = notBefore(l.read).String()
	}
	return true
}

// newest reads what is not in the history, and returns the number after that of its newest record that
// may have what is listed.
func (l *listing) newest(ctx context.Context, s state.Store) (below uint64, err error) {
	if l.after != nil && l.after.from > 0 {
		return l.after.from, nil
	}
	// What is moved in between is read twice, and not missed.
	waiting, _, err := state.ReadEach[record](ctx, s, Prefix)
	if err != nil {
		return 0, fmt.Errorf("read the outbox: %w", err)
	}
	known, err := readLatest(ctx, s)
	if err != nil {
		return 0, err
	}
	for _, w := range waiting {
		for _, e := range w.Data.Events {
			l.pending = append(l.pending, found{Event: e.brief()})
		}
	}
	for _, e := range known.events {
		l.pending = append(l.pending, found{Event: e})
	}
	if known.lost {
		below, _, err = lastSealed(ctx, s)
		return below, err
	}
	return known.record.Data.Next, nil
}

// group reads some records of the history below a number, and reduces it: the newest one alone, then up
// to ten, then up to a hundred at once.
func group(ctx context.Context, s state.Store, below *uint64, first bool) ([]state.Stored[sealed], error) {
	newest := *below - 1
	key, size := historyKey(newest), uint64(1)
	switch {
	case newest%100 == 99:
		key, size = key[:len(key)-2], 100
	case !first:
		key, size = key[:len(key)-1], 10
	}
	all, _, err := state.ReadEach[sealed](ctx, s, key)
	if err != nil {
		return nil, fmt.Errorf("read the history of events: %w", err)
	}
	*below = newest - newest%size
	return slices.DeleteFunc(all, func(rec state.Stored[sealed]) bool { return historyNumber(rec.Key) > newest }), nil
}

// add reads the events of a record, unless all of them are later than what is listed. A record that cannot
// be decoded, because somebody has edited it, has none.
func (l *listing) add(rec state.Stored[sealed]) {
	n := historyNumber(rec.Key)
	listed := l.after != nil && n >= l.after.read && rec.Data.From.After(l.after.event.At)
	l.read = min(l.read, n)
	if listed || !l.Until.IsZero() && !rec.Data.From.Before(l.Until) {
		return
	}
	events, err := latest{Events: rec.Data.Events}.decode()
	if err != nil {
		return
	}
	l.decoded += len(events)
	for _, e := range events {
		l.pending = append(l.pending, found{e, n + 1})
	}
}

// emit lists what was read and is later than everything that was not, which is at most of this time. It
// reports whether the list is complete.
func (l *listing) emit(unread time.Time) bool {
	slices.SortFunc(l.pending, func(a, b found) int { return later(a.Event, b.Event) })
	for i, f := range l.pending {
		if !f.At.After(unread) {
			l.pending = append([]found(nil), l.pending[i:]...)
			return false
		}
		if !l.selects(f) {
			continue
		}
		if len(l.events) == l.Limit {
			l.next = l.position(l.pending[i:]).String()
			return true
		}
		l.events = append(l.events, f.Event)
	}
	l.pending = nil
	return false
}

// selects reports whether an event is listed. Copies of an event come one after the other.
func (l *listing) selects(f found) bool {
	e := f.Event
	again := l.last != nil && l.last.ID == e.ID
	l.last = &e
	switch {
	case again, l.after != nil && later(e, l.after.event) <= 0 && (f.from == 0 || f.from > l.after.read || e.ID == l.after.event.ID):
		return false
	case e.At.Before(l.Since), !l.Until.IsZero() && !e.At.Before(l.Until):
		return false
	}
	return l.finds(e)
}

// position is after the events that are listed. The last of them is not the oldest one if it is from a
// clock that was far ahead.
func (l *listing) position(left []found) cursor {
	c := cursor{read: l.read, event: slices.MaxFunc(l.events, later)}
	if l.after != nil && later(c.event, l.after.event) < 0 {
		c.event = l.after.event
	}
	for _, f := range left {
		if f.from == 0 {
			c.from = 0
			break
		}
		c.from = max(c.from, f.from)
	}
	return c
}

// Oldest returns the time of the oldest event that is kept; zero if there is none.
func Oldest(ctx context.Context, s state.Store) (at time.Time, err error) {
	known, err := readLatest(ctx, s)
	if err != nil {
		return at, err
	}
	if n := known.record.Data.Next; n > 0 {
		oldest, err := state.Read[sealed](ctx, s, historyKey(n-min(n, MaxHistory)))
		if err != nil && !errors.As(err, new(*state.CorruptError)) {
			return at, fmt.Errorf("read the oldest events: %w", err)
		}
		if at = oldest.Data.From; !at.IsZero() {
			return at, nil
		}
	}
	if len(known.events) > 0 {
		return known.events[0].At, nil
	}
	waiting, _, err := state.ReadEach[record](ctx, s, Prefix)
	for _, w := range waiting {
		for _, e := range w.Data.Events {
			if at.IsZero() || e.At.Before(at) {
				at = e.At
			}
		}
	}
	return at, err
}
