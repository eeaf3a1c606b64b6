package outbox

import (
	"context"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
)

// markEvery is how often is noted what a sink has taken while another one is at
// work: after a crash, the sink gets again what was not noted.
const markEvery = 10 * time.Second

// Follow delivers events until the context ends: whenever wake receives, and when
// a sink has rested. Each sink works by itself, so that one that is slow or does
// not answer delays no other.
func (d Delivery) Follow(ctx context.Context, wake <-chan struct{}) {
	q := newQueue(d)
	results := make(chan result)
	busy := map[Sink]bool{}
	var marked time.Time
	failures := 0 // of the store, in a row
	note := func() error {
		marks := len(busy) == 0 || d.Now().Sub(marked).Abs() > markEvery
		if marks {
			marked = d.Now()
		}
		return q.note(ctx, marks)
	}
	finish := func(r result) {
		delete(busy, r.sink)
		q.conclude(r)
	}
	report := func(left Backlog) {
		if d.Backlog != nil {
			d.Backlog(left)
		}
	}
	defer report(Backlog{})
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var err error
	for read := false; ; {
		if read {
			if err = q.read(ctx); err == nil && len(busy) == 0 {
				err = note()
			}
		}
		read = false
		for _, sink := range q.sinks {
			if items := q.outstanding(sink); len(items) > 0 && !busy[sink] && ctx.Err() == nil {
				busy[sink] = true
				go func() { results <- d.deliver(ctx, sink, items) }()
			}
		}
		report(q.backlog())
		timer.Reset(q.wait(err, &failures, busy))
		select {
		case <-ctx.Done():
			for len(busy) > 0 {
				finish(<-results)
			}
			_ = q.note(ctx, true) // else the sinks get it again
			return
		case r := <-results:
			finish(r)
			err = note()
		case <-wake:
			read = true
		case <-timer.C:
			read = true
		}
	}
}

// wait is how long Follow waits for something to happen. It logs an error of the
// store.
func (q *queue) wait(err error, failures *int, busy map[Sink]bool) time.Duration {
	const long = 24 * time.Hour
	if err != nil {
		wait := delay.Doubled(firstRest, maxRest, *failures+1)
		*failures++
		q.Log.Warn("events were not delivered, trying again", "again_in", wait, "error", err)
		return wait
	}
	*failures = 0
	now, wait := q.Now(), long
	for _, sink := range q.sinks {
		if at := q.due(sink, now); !busy[sink] && at.After(now) {
			wait = min(wait, at.Sub(now))
		}
	}
	return wait
}
