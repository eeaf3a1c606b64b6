package notify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// threadsPrefix is the collection of the threads of sinks. A record is read only when its sink
	// has a message to deliver: no tick reads it.
	threadsPrefix = "threads/"

	// keptThreads is how long a thread without a message is known. Then the next message begins another.
	keptThreads = 30 * 24 * time.Hour
	// maxThreads is how many bytes of open threads are kept: about a hundred. The oldest are forgotten first.
	maxThreads = 64 << 10
	// maxBegan is how much of the first message of a thread is kept, in bytes.
	maxBegan = 600
)

// threads are the open threads of a sink.
type threads struct {
	Open []thread `json:"open,omitempty"` // oldest first
	// Trying is the message that was sent last. If no answer came, it may be in Slack or not.
	Trying *trying `json:"trying,omitempty"`
}

// thread is a message with replies about one incident, or about those of several tasks that began
// together.
type thread struct {
	TS        string    `json:"ts"` // Slack's name of the message
	Incidents []string  `json:"incidents"`
	Failing   []string  `json:"failing,omitempty"` // those whose tasks fail: a plan that is superseded does not end them
	All       int       `json:"all"`               // incidents when it began
	Began     string    `json:"began"`             // its first text, shortened
	Latest    time.Time `json:"latest"`
}

// trying is a message on its way.
type trying struct {
	Events []string  `json:"events"`           // ids
	Thread string    `json:"thread,omitempty"` // TS of the thread that it replies to
	At     time.Time `json:"at"`               // when the attempt began: it ends within the sink's timeout
	// Noted says that the message is in Slack, and that the threads are as they are after it.
	Noted bool `json:"noted,omitempty"`
}

// has reports whether the message is about an event.
func (t *trying) has(e outbox.Event) bool { return t != nil && slices.Contains(t.Events, e.ID) }

// of returns the place of the latest thread with an incident that the event is about; -1 if there is none.
func (t *threads) of(e outbox.Event) int {
	for i, o := range slices.Backward(t.Open) {
		if o.concerns(e) {
			return i
		}
	}
	return -1
}

// concerned returns the names of the threads that events are about: more than one only if a task with several
// incidents is removed or renamed.
func (t *threads) concerned(events []outbox.Event) (all []string) {
	for _, o := range t.Open {
		if slices.ContainsFunc(events, o.concerns) {
			all = append(all, o.TS)
		}
	}
	return all
}

// concerns reports whether an event is about an incident of the thread.
func (o thread) concerns(e outbox.Event) bool {
	return slices.ContainsFunc(o.Incidents, func(open string) bool { return concerns(e, open) })
}

// at returns the place of the thread with this name; -1 if there is none.
func (t *threads) at(ts string) int {
	return slices.IndexFunc(t.Open, func(o thread) bool { return o.TS == ts })
}

// begin adds a thread for the incidents that the events open, if they open any.
func (t *threads) begin(ts, text string, events []outbox.Event, now time.Time) bool {
	next := thread{TS: ts, Began: state.CutTo(text, maxBegan), Latest: now}
	for _, e := range events {
		if incidents[e.Kind].role == opens {
			next.Incidents = append(next.Incidents, incident(e))
		}
		next.fails(e)
	}
	if next.All = len(next.Incidents); next.All == 0 {
		return false
	}
	t.Open = append(t.Open, next)
	return true
}

// note notes the events in their thread, and returns it as it is then. A thread without open incidents
// is forgotten.
func (t *threads) note(i int, events []outbox.Event, now time.Time) thread {
	next := t.Open[i]
	next.Latest, next.Failing = now, slices.Clone(next.Failing)
	for _, e := range events {
		if next.concerns(e) {
			next.fails(e)
		}
		next.Incidents, next.Failing = after(e, next.Incidents, next.Failing), after(e, next.Failing, next.Failing)
	}
	t.Open = slices.Delete(slices.Clone(t.Open), i, i+1)
	if len(next.Incidents) > 0 {
		t.Open = append(t.Open, next)
	}
	return next
}

// fails notes that the task of an event fails.
func (o *thread) fails(e outbox.Event) {
	if slices.Contains(failing, e.Kind) && !slices.Contains(o.Failing, incident(e)) {
		o.Failing = append(o.Failing, incident(e))
	}
}

// bound forgets the threads that are too old or too many.
func (t *threads) bound(now time.Time) {
	t.Open = slices.DeleteFunc(slices.Clone(t.Open), func(o thread) bool { return now.Sub(o.Latest) > keptThreads })
	for len(t.Open) > 1 && len(state.Encode(*t)) > maxThreads {
		t.Open = t.Open[1:]
	}
}

// book is the record of the threads of a sink. Without a store, nothing is kept.
type book struct {
	store state.Store
	state.Stored[threads]
}

func openBook(ctx context.Context, store state.Store, sink string) (*book, error) {
	if store == nil {
		return &book{}, nil
	}
	rec, _, err := state.ReadAnyway[threads](ctx, store, threadsPrefix+sink)
	if err != nil {
		return nil, fmt.Errorf("read which messages Slack has: %w", err)
	}
	return &book{store, rec}, nil
}

// write writes the threads. If another process has written them meanwhile, that one delivers, too.
func (b *book) write(ctx context.Context, next threads, now time.Time) error {
	if b.store != nil {
		next.bound(now)
		written, err := b.store.Apply(ctx, b.Stored.Write(next).Until(now.Add(keptThreads)))
		if err != nil {
			return fmt.Errorf("note which messages Slack has: %w", err)
		}
		b.Record = written[0]
	}
	b.Data = next
	return nil
}
