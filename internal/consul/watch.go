package consul

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
)

// How a Watch paces itself.
const (
	// longWait is the wait of a blocking query. A Consul that falls silent is found when such a query
	// and the read after it have timed out: after 108 s, so before the outage is unhealthy (2 minutes).
	longWait   = 45 * time.Second
	pollEvery  = 5 * time.Second        // without an index or a free connection
	minSpacing = 100 * time.Millisecond // between two requests of one gate
	minBackoff = time.Second            // after a first failure; doubles up to maxBackoff
	maxBackoff = 30 * time.Second
)

// Watch holds gates open until its context ends, also during an outage of Consul,
// which Marks reports.
type Watch struct {
	client *Client
	gates  GateSet
	pace   pace
	signal chan struct{}
	done   chan struct{}

	mu         sync.Mutex
	marks      Marks
	errs       []error     // by gate
	unanswered []time.Time // by gate: when the first request began that failed; zero if the latest succeeded
	breaks     []int       // by gate: outages, and indexes that have fallen
}

// pace is shorter in tests.
type pace struct{ wait, poll, spacing, minBackoff, maxBackoff time.Duration }

// Watch starts to watch the gates. It signals as soon as a gate shows something else
// than since: at once if since is empty.
func (c *Client) Watch(ctx context.Context, g GateSet, since Marks) *Watch {
	return c.watch(ctx, g, since, pace{longWait, pollEvery, minSpacing, minBackoff, maxBackoff})
}

func (c *Client) watch(ctx context.Context, g GateSet, since Marks, p pace) *Watch {
	w := &Watch{
		client:     c,
		gates:      g,
		pace:       p,
		signal:     make(chan struct{}, 1),
		done:       make(chan struct{}),
		marks:      Marks{},
		errs:       make([]error, len(g.gates)),
		unanswered: make([]time.Time, len(g.gates)),
		breaks:     make([]int, len(g.gates)),
	}
	var gates sync.WaitGroup
	for _, gate := range g.gates {
		w.marks[gate.Key] = since[gate.Key]
	}
	for i, gate := range g.gates {
		// Beyond the connections that may be held, gates are polled.
		gates.Go(func() { w.hold(ctx, i, gate, i < maxHeld) })
	}
	go func() {
		gates.Wait()
		close(w.done)
	}()
	return w
}

// C receives if a gate has moved, if gates can no longer be read, and if they can
// again. Signals that are not received become one.
func (w *Watch) C() <-chan struct{} { return w.signal }

// Done is closed after the context has ended and all connections are closed.
func (w *Watch) Done() <-chan struct{} { return w.done }

// Marks returns what the gates showed last, and why some cannot be read now.
func (w *Watch) Marks() (Marks, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var began time.Time
	for _, at := range w.unanswered {
		if at.After(began) {
			began = at
		}
	}
	return maps.Clone(w.marks), w.gates.failed(w.errs, time.Since(began))
}

// hold watches one gate until the context ends.
func (w *Watch) hold(ctx context.Context, n int, g gate, held bool) {
	failures := 0
	for ctx.Err() == nil {
		// The first request has no index: if Consul was restored or replaced and has
		// not reached the index, it would block for the whole wait.
		began := time.Now()
		mark, index, err := w.client.mark(ctx, g)
		w.note(ctx, n, g, mark, began, err)
		if err != nil {
			failures++
			delay.For(ctx, w.backoff(failures))
			continue
		}
		if !held || index == 0 {
			failures = 0
			delay.For(ctx, max(w.pace.poll, every(g.view)))
			continue
		}
		// A proxy may cut long requests short: that is no outage, but must not lead to
		// a storm of requests.
		if w.follow(ctx, n, g, index) {
			failures = 0
			delay.For(ctx, w.pace.spacing)
		} else {
			delay.For(ctx, w.backoff(failures))
			failures++
		}
	}
}

// follow sends blocking requests until one fails or the index does not rise. It
// reports whether any was answered.
func (w *Watch) follow(ctx context.Context, n int, g gate, index uint64) (answered bool) {
	for {
		delay.For(ctx, w.pace.spacing)
		began := time.Now()
		a, err := w.client.block(ctx, request{Request: g.Request}, index, w.pace.wait)
		if _, late := errors.AsType[noAnswer](err); late { // if the next read fails, too, the outage began here
			w.mu.Lock()
			w.unanswered[n] = began
			w.mu.Unlock()
		}
		if err != nil {
			return answered
		}
		answered = true
		if a.index < index { // Consul was restored: it may reach the same index with other content
			w.mu.Lock()
			w.breaks[n]++
			w.mu.Unlock()
		}
		if a.index <= index { // the same: the wait is over
			return true
		}
		index = a.index
		w.note(ctx, n, g, g.indexMark(a), began, nil)
	}
}

// note keeps what a gate showed to a request. It changes marks after each break: if
// Consul was replaced or restored, the same index may mean other content.
func (w *Watch) note(ctx context.Context, n int, g gate, mark string, began time.Time, err error) {
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	news := (err == nil) != (w.errs[n] == nil)
	if news && err != nil {
		w.breaks[n]++
	}
	w.errs[n] = err
	switch {
	case err == nil:
		w.unanswered[n] = time.Time{}
	case w.unanswered[n].IsZero():
		w.unanswered[n] = began
	}
	if mark != "" && w.breaks[n] > 0 {
		mark = fmt.Sprintf("%s after %d breaks", mark, w.breaks[n])
	}
	if err == nil && (mark == "" || mark != w.marks[g.Key]) {
		w.marks[g.Key] = mark
		news = true
	}
	if news {
		select {
		case w.signal <- struct{}{}:
		default: // one was not received yet
		}
	}
}

// backoff is the wait after a number of failures in a row: it doubles, with jitter,
// so that gates are not read all at once.
func (w *Watch) backoff(failures int) time.Duration {
	if failures == 0 {
		return w.pace.spacing
	}
	d := delay.Doubled(w.pace.minBackoff, w.pace.maxBackoff, failures)
	return d/2 + rand.N(d/2+1)
}
