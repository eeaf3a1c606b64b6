package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// failedTickWait is how soon a tick that failed is tried again; it doubles
	// with every failure in a row, up to failedTickMax.
	failedTickWait = time.Second
	failedTickMax  = 30 * time.Second

	// restAfter is how long a tick must have taken to be followed by as long a
	// rest, of at most maxRest: 10,000 services take about half a second.
	restAfter = 100 * time.Millisecond
	maxRest   = 5 * time.Second

	// minPoll and maxPoll limit how often a standby tries to lead, and a leader
	// polls the store for requests of other processes.
	minPoll = 10 * time.Millisecond
	maxPoll = 5 * time.Second

	// releaseTime is how long a leader that ends tries to release the lease.
	releaseTime = 5 * time.Second

	// firstMarksWait is how long the first tick waits for the gates.
	firstMarksWait = time.Second
)

// Watch holds gates open. A *consul.Watch is one.
type Watch interface {
	C() <-chan struct{}           // receives when Marks has changed
	Marks() (consul.Marks, error) // what the gates showed last, and why some cannot be read
}

// Reload is what the files say after a change.
type Reload struct {
	Config *config.Config
	Wrong  error // why they are not in force
}

// Observer measures what a Loop does. It must not block.
type Observer interface {
	Leads(leads bool)
	Ticked(report Report, err error)
}

// Loop ticks while it leads.
type Loop struct {
	*Reconciler
	Watch  func(ctx context.Context, gates consul.GateSet, since consul.Marks) Watch
	Ended  <-chan struct{} // receives when a run has ended
	Asked  <-chan struct{} // receives when somebody in this process requests a tick; may be nil
	Reload <-chan Reload   // receives what the files say from now on; may be nil
	// Leads is called when this process begins to lead, before the first tick; may
	// be nil.
	Leads func(ctx context.Context, fence uint64)
	// Observer may be nil.
	Observer Observer

	version atomic.Pointer[string] // of the reconcile record, as a tick has seen it last
}

// Run leads whenever nobody else does, until ctx ends. When it begins to lead, it
// reads the condition of every task, and runs what is to be run: to lead is no request
// for a run. The error is that a newer version of Terrapulse uses the store.
func (l *Loop) Run(ctx context.Context) error {
	l.inLoop = true
	l.onVersion = func(version string) { l.version.Store(&version) }
	for {
		held, err := l.lead(ctx)
		if held == nil {
			return err
		}
		l.Log.Info("leading", "owner", l.Owner, "fence", held.Fence())
		err = l.work(ctx, held)
		l.release(ctx, held)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, new(*state.NewerError)):
			return err
		}
		l.Log.Warn("no longer leading", "owner", l.Owner, "fence", held.Fence(), "cause", err)
	}
}

// release releases the lease. If the store does not answer in time, it expires.
func (l *Loop) release(ctx context.Context, held *lease.Lease) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), releaseTime, fmt.Errorf("no answer within %s", releaseTime))
	defer cancel()
	if err := held.Release(ctx, l.givesUp(held.Fence())...); err != nil && !errors.Is(err, lease.ErrLost) {
		l.Log.Warn("the lease is left to expire", "error", err)
	}
}

// lead waits until it has the lease. It returns nil if ctx ends before, or, with an
// error, if a newer version of Terrapulse uses the store.
func (l *Loop) lead(ctx context.Context) (*lease.Lease, error) {
	var leader string
	wait := failedTickWait
	for ctx.Err() == nil {
		held, err := l.acquireAnd(ctx, l.takes)
		if err == nil {
			return held, nil
		}
		var other *lease.HeldError
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case errors.As(err, new(*state.NewerError)):
			return nil, err
		case errors.As(err, &other):
			if other.Owner != leader {
				leader = other.Owner
				l.Log.Info("standing by", "leader", leader, "until", other.Until)
			}
			// Often enough to take over soon after the lease has ended, and at
			// that moment if it is not renewed.
			wait = max(minPoll, min(l.LeaseTTL/10, maxPoll, other.Until.Sub(l.Now())))
		default:
			l.Log.Error("the lease cannot be read or written", "error", err)
			wait = min(2*wait, maxPoll) // it goes on soon after somebody has freed space
		}
		select {
		case <-ctx.Done():
		case news := <-l.Reload:
			l.reload(news)
		case <-time.After(wait):
			l.reloadPending() // it leads with the latest files
		}
	}
	return nil, nil
}

// reload makes the next tick use the changed files, or record why they are refused.
func (l *Loop) reload(news Reload) {
	if news.Wrong != nil {
		l.Refused = &state.Refused{Error: state.Cut(news.Wrong.Error()), Since: l.Now()}
		return
	}
	l.Config, l.Refused, l.effective = news.Config, nil, nil
}

func (l *Loop) reloadPending() {
	select {
	case news := <-l.Reload:
		l.reload(news)
	default:
	}
}

// askedElsewhere receives when another process has written the reconcile record:
// somebody has changed an override there, or requests a tick.
func (l *Loop) askedElsewhere(ctx context.Context) <-chan struct{} {
	asked := make(chan struct{}, 1)
	go func() {
		for delay.For(ctx, min(l.LeaseTTL/3, maxPoll)) {
			rec, err := l.Store.Get(ctx, state.ReconcileKey)
			if seen := l.version.Load(); err != nil || seen == nil || rec.Version == *seen {
				continue // the next tick reports an error
			}
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	return asked
}

// work ticks while the lease is held. It returns why it stopped.
func (l *Loop) work(ctx context.Context, held *lease.Lease) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer background.Run(ctx, func(ctx context.Context) { stop(l.keep(ctx, held)) })()
	defer l.follow(ctx, held)()
	if s, ok := l.Launcher.(Sharer); ok {
		defer s.Share(ctx, held.Apply)()
	}

	if l.Leads != nil {
		l.Leads(ctx, held.Fence())
	}
	if l.Observer != nil {
		l.Observer.Leads(true)
		defer l.Observer.Leads(false)
	}
	if err := l.complete(ctx); err != nil {
		return err
	}
	asked := l.askedElsewhere(ctx)
	watch, unwatch := l.watchGates(ctx)
	defer func() { unwatch() }()
	watched := l.watched.Keys()
	wait(ctx, watch, nil, nil, firstMarksWait) // with marks, the first tick need not poll
	opts := TickOptions{Lease: held, Leads: true}
	var remote follower
	defer remote.end()
	failures := 0
	for {
		opts.Marks, opts.GatesErr = watch.Marks()
		began := l.Now()
		report, err := l.Tick(ctx, opts)
		if l.Observer != nil && ctx.Err() == nil {
			l.Observer.Ticked(report, err)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, lease.ErrLost), errors.As(err, new(*state.NewerError)):
			return err
		case err != nil:
			failures++
			if err := l.rest(ctx, err, failures); err != nil {
				return err
			}
			continue
		}
		opts.Ended, opts.Leads, opts.Moved = false, false, nil
		if !slices.Equal(watched, l.watched.Keys()) {
			unwatch()
			watch, unwatch = l.watchGates(ctx)
			watched = l.watched.Keys()
		}
		// A tick that reads much loads Consul: rest as long as it took.
		if took := l.Now().Sub(began); took > restAfter && !delay.For(ctx, min(took, maxRest)) {
			return context.Cause(ctx)
		}
		if report.Again {
			failures++
		} else {
			failures = 0
		}
		select {
		case <-ctx.Done():
		case <-watch.C():
		case <-l.Ended:
			opts.Ended = true
		case opts.Moved = <-remote.follow(ctx, l.Reconciler):
			remote.end()
		case <-l.Asked:
		case <-asked:
		case news := <-l.Reload:
			l.reload(news)
		case <-time.After(l.until(report, failures)):
		}
		// One tick serves everything that has happened until now.
		opts.Ended = received(l.Ended) || opts.Ended
		received(watch.C())
		received(l.Asked)
		received(asked)
		l.reloadPending() // else a run of what a file said before would be superseded
	}
}

// complete reads the configuration with what was changed through the API, until that succeeds.
func (l *Loop) complete(ctx context.Context) error {
	for n := 1; ; n++ {
		err := l.prepareStored(ctx)
		if err == nil || errors.As(err, new(*state.NewerError)) {
			return err
		}
		wait := delay.Doubled(failedTickWait, failedTickMax, n)
		l.Log.Error("changes that were made through the API cannot be read: nothing is decided until they can", "error", err, "again_in", wait)
		if !delay.For(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// rest waits after a tick that failed, the n-th in a row.
func (l *Loop) rest(ctx context.Context, failed error, n int) error {
	rest := retryWait(failed, n)
	l.Log.Error("tick failed", "error", failed, "again_in", rest)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case news := <-l.Reload: // perhaps it ends the cause
		l.reload(news)
	case <-time.After(rest):
	}
	return nil
}

// received reports whether something was sent, and takes it.
func received(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// watchGates watches the gates of the current tasks until unwatch is called.
func (l *Loop) watchGates(ctx context.Context) (watch Watch, unwatch func()) {
	ctx, unwatch = context.WithCancel(ctx)
	return l.Watch(ctx, l.watched, nil), unwatch
}

// until is how long to wait for the next tick if nothing happens. Ticks become
// rarer if something stays due, as when Consul does not answer.
func (r *Reconciler) until(report Report, failures int) time.Duration {
	wait := refreshEvery
	if !report.Due.IsZero() {
		wait = min(wait, max(0, report.Due.Sub(r.Now())))
	}
	if len(r.backoffs) > 0 {
		wait = min(wait, repairEvery)
	}
	if report.Again {
		wait = min(wait, retryWait(report.Stalled, failures))
	}
	return wait
}

// retryWait is how long to wait before a retry after the n-th failure in a row.
// An error that needs a person is retried rarely from the start.
func retryWait(err error, n int) time.Duration {
	if fault.NeedsPerson(err) {
		return failedTickMax
	}
	return delay.Doubled(failedTickWait, failedTickMax, n)
}
