package reconcilefunction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/logging"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/inforce"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// leaseTTL and skew: a killed tick blocks the next ones for at most 50 seconds, so at most one
	// of the ticks of every minute. The clocks of Lambda and Fargate differ by seconds at worst.
	leaseTTL = 20 * time.Second
	skew     = 30 * time.Second

	// heldWait is the interval at which an invocation that a caller waits for tries to lead while
	// another one leads.
	heldWait = time.Second

	// maxOthers limits how often a tick starts again because another bundle is in force. Each time,
	// another process has written the record meanwhile.
	maxOthers = 5
)

// engine makes the ticks. It keeps what it has made for the bundle in use.
type engine struct {
	common  reconcile.Reconciler // what does not depend on the bundle
	connect func(ctx context.Context, cfg config.Consul) (consulClient, error)
	notify  *notify.Set
	bus     []outbox.Sink // the event bus, if there is one

	current    *inforce.Loaded // the bundle in use; nil at first
	client     consulClient
	reconciler *reconcile.Reconciler
}

// reconcile executes one tick, or ticks until the end of the window. Only the schedule's
// invocations request the window: invocations for an event end after one tick, however many there
// are.
func (i *invocation) reconcile(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	if req.Refresh {
		i.bundles.Forget()
	}
	// An invocation of the schedule polls remote runs at once, and follows them.
	opts := reconcile.TickOptions{Ended: req.Ended, Notified: req.Notified || req.Window}
	if i.window == 0 || !req.Window {
		if !mustTick(req) {
			report, err := i.tick(ctx, opts)
			return i.answer(req, report, err)
		}
		report, err := i.tickInTurn(ctx, opts, !req.Refresh && !req.Notified)
		return i.answer(req, report, err)
	}
	until := clock.Earlier(i.now().Add(i.window), i.deadline.Add(-launchReserve-reserve))
	var all invoke.Answer
	again := true
	for others := 0; again; others++ {
		again = false
		r, err := i.prepare(ctx)
		if err != nil {
			return i.answer(req, reconcile.Report{}, err)
		}
		opts.Until, opts.Replaces, opts.Ends = i.deadline.Add(-launchReserve), i.bundles.Replaces, i.launcher.here.Ended()
		r.Window(ctx, i.engine.client.Watch, opts, until, func(report reconcile.Report, tickErr error) bool {
			if again = i.bundles.IsOther(tickErr) && others < maxOthers; again {
				return false
			}
			var answer invoke.Answer
			answer, err = i.answer(req, report, tickErr)
			all = merge(all, answer)
			return err == nil
		})
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// tick executes a tick with the bundle that is to be in force.
func (i *invocation) tick(ctx context.Context, opts reconcile.TickOptions) (reconcile.Report, error) {
	opts.Until = i.deadline.Add(-launchReserve)
	for others := 0; ; others++ {
		r, err := i.prepare(ctx)
		if err != nil {
			return reconcile.Report{}, err
		}
		opts.Replaces = i.bundles.Replaces
		report, err := r.Tick(ctx, opts)
		if !i.bundles.IsOther(err) || others == maxOthers {
			return report, err
		}
	}
}

// prepare returns the Reconciler for the bundle to use. It reads the pointer if it is due.
func (i *invocation) prepare(ctx context.Context) (*reconcile.Reconciler, error) {
	if err := i.bundles.Refresh(ctx, i.log); err != nil {
		if errors.Is(err, inforce.ErrNotPushed) && i.engine.common.BeginsPaused { // everybody is to see that it begins paused
			people := control.Control{Store: i.store, Now: i.now}
			err = cmp.Or(people.BeginPaused(ctx, i.engine.common.Stack), err)
		}
		return nil, err
	}
	e, b := &i.engine, i.bundles.Loaded
	client, err := e.connect(ctx, b.Config.Consul)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to Consul: %w", err)
	}
	if e.current != b || e.client != client {
		logging.Obey(b.Config.LogLevel)
		r := e.common
		r.Config, r.Bundle, r.Refused, r.Remote = b.Config, b.Digest, b.Refused, i.executor.drivers[remotes.Of(b.Config)]
		r.Consul, r.Launcher, r.Windowed, r.Now = client, i.launcher, i.window > 0, i.now
		r.Sinks = func() []outbox.Sink { return append(e.notify.Sinks(b.Config.Notify), e.bus...) }
		e.current, e.client, e.reconciler, i.launcher.inFunction = b, client, &r, b.Config.Driver().Kind().Remote
	}
	e.reconciler.Log = i.log
	return e.reconciler, nil
}

// sleep waits, and reports whether there is time left.
func (i *invocation) sleep(ctx context.Context, d time.Duration) bool {
	return i.deadline.Sub(i.now()) >= launchReserve && delay.For(ctx, d)
}

// mustTick reports whether a request is lost if another process leads. The leader may have read what it
// is about before, and the schedule's next tick is up to a minute away; it does not check for a new
// bundle for minutes.
func mustTick(req invoke.Request) bool { return req.Refresh || req.Ended || req.Notified }

// tickInTurn ticks. If another process leads, it waits for its turn. If merge is set, it returns the
// *lease.HeldError as soon as a later leader has begun: that one reads the records after this
// request was written, and ticks for all who wait.
func (i *invocation) tickInTurn(ctx context.Context, opts reconcile.TickOptions, merge bool) (reconcile.Report, error) {
	report, err := i.tick(ctx, opts)
	held := new(lease.HeldError)
	for first := uint64(0); errors.As(err, &held); report, err = i.tick(ctx, opts) {
		if first == 0 {
			first = held.Fence
		}
		if merge && held.Fence > first || !i.waitsForLeader(ctx, held) {
			break
		}
	}
	return report, err
}

// waitsForLeader waits until the process does not lead any more because of which a tick was refused.
// It reads only the lease meanwhile. It reports whether to tick again.
func (i *invocation) waitsForLeader(ctx context.Context, held *lease.HeldError) bool {
	i.log.Debug("waiting for the lease", "leader", held.Owner)
	for i.sleep(ctx, heldWait) {
		now, err := lease.Read(ctx, i.store, held.Name)
		if err != nil || now.Fence != held.Fence || now.Owner != held.Owner || !i.now().Before(held.Until) {
			return true
		}
	}
	return false
}
