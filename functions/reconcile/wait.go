package main

import (
	"context"
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/pause"
	"github.com/terrapulse/terrapulse/internal/reconcile"
)

// sleep waits, and reports whether there is time left.
func (i *invocation) sleep(ctx context.Context, d time.Duration) bool {
	return i.deadline.Sub(i.now()) >= launchReserve && pause.For(ctx, d)
}

// mustTick reports whether a request is lost if another process leads. The leader may have read what it
// is about before, and the schedule's next tick is up to a minute away; it does not check for a new
// bundle for minutes.
func mustTick(req invoke.Request) bool { return req.Refresh || req.Ended || req.Hint }

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
