package reconcile

import (
	"cmp"
	"context"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// windowRest is the least time between two ticks of a window: what happens
// within it is seen by one tick.
const windowRest = time.Second

// Window ticks, and until the time is up ticks again whenever a gate moves, a run of
// this process ends, a remote run comes further, or something is due. It holds the lease only while there is something to do, so
// that others may act meanwhile. Every tick's report goes to each, which
// returns whether to go on. The Reconciler must be Windowed.
func (r *Reconciler) Window(ctx context.Context, watch func(context.Context, consul.GateSet, consul.Marks) Watch,
	opts TickOptions, until time.Time, each func(Report, error) bool) {
	if r.effective == nil {
		if err := r.prepareStored(ctx); err != nil {
			each(Report{}, err)
			return
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := watch(ctx, r.watched, nil)
	wait(ctx, w, nil, nil, firstMarksWait)
	var remote follower
	defer remote.end()
	failures := 0
	for {
		opts.Marks, opts.GatesErr = w.Marks()
		report, err := r.Tick(ctx, opts)
		if !each(report, err) {
			return
		}
		opts.Ended, opts.Replaces, opts.Notified, opts.Moved = opts.Ended && err != nil, "", false, nil
		moved := remote.follow(ctx, r)

		rest := until.Sub(r.Now())
		switch {
		case err != nil || report.Again:
			failures++
			rest = min(rest, retryWait(cmp.Or(err, report.Stalled), failures))
		case !report.Due.IsZero():
			rest = min(rest, max(report.Due.Sub(r.Now()), 0))
			failures = 0
		}
		if !r.Now().Before(until) || !delay.For(ctx, windowRest) {
			return
		}
		ended, found := wait(ctx, w, opts.Ends, moved, rest-windowRest)
		if opts.Ended, opts.Moved = ended || opts.Ended, found; found != nil {
			remote.end()
		}
		if ctx.Err() != nil || !r.Now().Before(until) {
			return
		}
	}
}

// wait returns when the gates have moved, a run has ended or a remote run has moved, at the latest
// after the time. It returns whether a run has ended, and which remote runs have moved.
func wait(ctx context.Context, w Watch, ends <-chan struct{}, moved <-chan map[string]state.RemoteStatus, longest time.Duration) (ended bool, found map[string]state.RemoteStatus) {
	timer := time.NewTimer(max(longest, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.C():
	case <-timer.C:
	case <-ends:
		ended = true
	case found = <-moved:
	}
	received(w.C()) // the next tick reads the marks, whatever it is for
	return ended, found
}
