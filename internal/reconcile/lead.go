package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/lease"
)

const (
	// failedTickWait is how soon a tick that failed is tried again; it doubles
	// with every failure in a row, up to failedTickMax.
	failedTickWait = time.Second
	failedTickMax  = 30 * time.Second

	// firstMarksWait is how long the first tick waits for the gates.
	firstMarksWait = time.Second
)

// Watch holds gates open. A *consul.Watch is one.
type Watch interface {
	C() <-chan struct{}           // receives when Marks has changed
	Marks() (consul.Marks, error) // what the gates showed last, and why some cannot be read
}

// Loop ticks for as long as it is let: it is Reconciler with a window that
// does not end.
type Loop struct {
	*Reconciler
	Watch   func(ctx context.Context, gates consul.GateSet, since consul.Marks) Watch
	Ended   <-chan struct{}        // receives when a run has ended
	Standby func(*lease.HeldError) // told once each time another is found to lead; may be nil
}

// Run leads whenever nobody else does, until ctx ends. When it begins to lead
// it has every enabled task run once, whatever the store says: what was
// changed by hand meanwhile is put right.
func (l *Loop) Run(ctx context.Context) error {
	l.prepare()
	for {
		held, err := l.lead(ctx)
		if err != nil {
			return err
		}
		l.Log.Info("leading", "owner", l.Owner, "fence", held.Fence())
		err = l.work(ctx, held)
		if rerr := held.Release(context.WithoutCancel(ctx)); rerr != nil && !errors.Is(rerr, lease.ErrLost) {
			l.Log.Warn("the lease is left to expire", "error", rerr)
		}
		if ctx.Err() != nil {
			return nil
		}
		l.Log.Warn("no longer leading", "owner", l.Owner, "fence", held.Fence(), "cause", err)
	}
}

// lead waits until the lease can be had.
func (l *Loop) lead(ctx context.Context) (*lease.Lease, error) {
	var leader string
	wait := failedTickWait
	for {
		held, err := lease.Acquire(ctx, l.Store, LeaseName, l.Owner, lease.Options{TTL: l.LeaseTTL, Now: l.Now})
		if err == nil {
			return held, nil
		}
		var other *lease.HeldError
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case errors.As(err, &other):
			if other.Owner != leader {
				leader = other.Owner
				l.Log.Info("standing by", "leader", leader, "until", other.Until)
				if l.Standby != nil {
					l.Standby(other)
				}
			}
			wait = l.LeaseTTL / 4
		default:
			l.Log.Error("the lease cannot be read or written", "error", err)
			wait = min(2*wait, failedTickMax)
		}
		if !sleep(ctx, wait) {
			return nil, nil
		}
	}
}

// work ticks while the lease is held. It returns why it stopped.
func (l *Loop) work(ctx context.Context, held *lease.Lease) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { stop(l.keep(ctx, held)) }()

	watch := l.Watch(ctx, l.watched, nil)
	// The first tick may as well see what the gates show, if they do soon.
	select {
	case <-ctx.Done():
	case <-watch.C():
	case <-time.After(firstMarksWait):
	}
	opts := TickOptions{Lease: held, Force: l.force("start")}
	failures := 0
	for {
		opts.Marks, opts.GatesErr = watch.Marks()
		report, err := l.Tick(ctx, opts)
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, lease.ErrLost):
			return err
		case err != nil:
			wait = min(failedTickWait<<min(failures, 10), failedTickMax)
			failures++
			l.Log.Error("tick", "error", err, "again_in", wait)
		default:
			opts.Force, opts.Ended = nil, false
			wait, failures = l.until(report, failures)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-watch.C():
		case <-l.Ended:
			opts.Ended = true
		case <-timer.C:
		}
		timer.Stop()
	}
}

// until is how long to wait for the next tick if nothing happens. While Consul
// does not answer, everything is due at once: then ticks become rarer.
func (l *Loop) until(report Report, failures int) (time.Duration, int) {
	if report.Due.IsZero() {
		return refreshEvery, 0
	}
	wait := report.Due.Sub(l.Now())
	if wait > 0 {
		return min(wait, refreshEvery), 0
	}
	return min(failedTickWait<<min(failures, 10), failedTickMax), failures + 1
}

// sleep waits for d and reports whether ctx is still good.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
