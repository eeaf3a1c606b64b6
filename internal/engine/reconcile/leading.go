package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// acquire takes the lease, or returns a *lease.HeldError.
func (r *Reconciler) acquire(ctx context.Context) (*lease.Lease, error) {
	return r.acquireAnd(ctx, nil)
}

func (r *Reconciler) acquireAnd(ctx context.Context, also func(next, last lease.Holder) []state.Change) (*lease.Lease, error) {
	opts := r.leaseOptions()
	opts.Also = also
	return lease.Acquire(ctx, r.Store, state.LeaderLease, r.Owner, opts)
}

// acquireAgain is acquire for a tick, which often is the one that held the lease last.
func (r *Reconciler) acquireAgain(ctx context.Context) (*lease.Lease, error) {
	opts := r.leaseOptions()
	opts.Known = &r.lease
	return lease.Acquire(ctx, r.Store, state.LeaderLease, r.Owner, opts)
}

func (r *Reconciler) leaseOptions() lease.Options {
	return lease.Options{TTL: r.LeaseTTL, Skew: r.Skew, Witness: r.Witness, OneClock: r.OneClock, Now: r.Now}
}

// holding is a lease that is renewed until it is released.
type holding struct {
	*lease.Lease
	stop func() // renewing
}

// hold renews the lease until it is released.
func (r *Reconciler) hold(ctx context.Context, held *lease.Lease) holding {
	return holding{held, background.Run(context.WithoutCancel(ctx), func(keeping context.Context) {
		// Whatever is written is written under the lease: nothing has to be
		// stopped when it is lost.
		if err := r.keep(keeping, held); keeping.Err() == nil {
			r.Log.Error("the lease was lost while there was something to do", "fence", held.Fence(), "error", err)
		}
	})}
}

// closeWith releases the lease and makes the changes in the same write. It can be called again after an error.
func (h holding) closeWith(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	h.stop()
	return h.ReleaseWith(ctx, changes...)
}

// release releases the lease, unless that has been done. The answer matters more than the release: a
// lease that is not released expires.
func (r *Reconciler) release(ctx context.Context, h holding) {
	h.stop()
	if err := h.Release(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, lease.ErrLost) {
		r.Log.Warn("the lease is left to expire", "fence", h.Fence(), "error", err)
	}
}

// keep renews the lease until ctx ends; it returns when the lease is lost.
func (r *Reconciler) keep(ctx context.Context, held *lease.Lease) error {
	for delay.For(ctx, r.LeaseTTL/3) {
		err := held.Renew(ctx, r.Now())
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, lease.ErrLost), !held.Valid(r.Now()):
			return fmt.Errorf("renew the lease: %w", err)
		default:
			r.Log.Warn("the lease was not renewed, trying again", "error", err)
		}
	}
	return ctx.Err()
}

// ledStore is the store, in which every write holds only under the lease.
type ledStore struct {
	state.Store
	lease *lease.Lease
}

// Apply implements state.Store.
func (s ledStore) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	return s.lease.Apply(ctx, changes...)
}
