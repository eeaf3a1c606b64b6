package outbox

import (
	"errors"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/fault"
)

const (
	// firstRest is how long a sink, or a task's events for it, wait after a failure.
	// It doubles with every failure in a row, up to maxRest.
	firstRest = time.Second
	maxRest   = 5 * time.Minute

	// firstPersonRest is firstRest if a person must change something first.
	firstPersonRest = time.Minute
)

// DownError is returned by a sink that takes no event at present. All its events
// wait. After any other error, only the events of the same task wait.
type DownError struct {
	Err   error
	After time.Duration // how long the sink wants to be left alone; 0 if it did not say
}

func (e *DownError) Error() string { return e.Err.Error() }
func (e *DownError) Unwrap() error { return e.Err }

// Rests remembers which sinks rest after a failure. It is kept in the process: a
// process that starts tries every sink at once. A nil Rests remembers nothing. It
// is safe for concurrent use.
type Rests struct {
	mu  sync.Mutex
	all map[restKey]rest
}

// restKey is a sink and, if the failure concerned one event, its stream.
type restKey struct {
	sink   Sink
	stream string
}

type rest struct {
	failures int
	until    time.Time
}

// until is when the sink takes events of the stream again; zero if it does now.
func (r *Rests) until(sink Sink, stream string, now time.Time) time.Time {
	if r == nil {
		return time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var last time.Time
	for _, key := range []restKey{{sink, ""}, {sink, stream}} {
		// A rest that is longer than any began before the clock was set back.
		if until := r.all[key].until; until.After(now) && until.Sub(now) <= maxRest && until.After(last) {
			last = until
		}
	}
	return last
}

// failing reports whether the latest delivery of an event of the stream to the sink failed, or
// of any event if the sink is down.
func (r *Rests) failing(sink Sink, stream string) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, down := r.all[restKey{sink, ""}]
	_, refused := r.all[restKey{sink, stream}]
	return down || refused
}

// failed begins a rest, and returns how long it is.
func (r *Rests) failed(sink Sink, stream string, err error, now time.Time) time.Duration {
	if r == nil {
		return 0
	}
	key, wait := restKey{sink, stream}, firstRest
	if fault.NeedsPerson(err) {
		wait = firstPersonRest
	}
	down := new(DownError)
	if errors.As(err, &down) {
		key.stream, wait = "", max(wait, down.After)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[restKey]rest{}
	}
	for key, rest := range r.all { // of sinks and tasks that are gone
		if now.Sub(rest.until) > 2*maxRest {
			delete(r.all, key)
		}
	}
	failures := r.all[key].failures
	wait = delay.Doubled(wait, maxRest, failures+1)
	r.all[key] = rest{failures + 1, now.Add(wait)}
	return wait
}

// succeeded ends the rests of the sink and of the stream. It reports whether the
// sink as a whole had failed.
func (r *Rests) succeeded(sink Sink, stream string) (recovered bool) {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, recovered = r.all[restKey{sink, ""}]
	delete(r.all, restKey{sink, ""})
	delete(r.all, restKey{sink, stream})
	return recovered
}
