package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// beginPaused pauses a deployment that begins paused, before its first decision. Somebody
// else may do so at the same time, or resume: then that counts.
func (t *tick) beginPaused(ctx context.Context, rec state.Stored[state.Reconcile]) (state.Stored[state.Reconcile], error) {
	for rec.Data.Undecided() {
		next := rec.Data
		events := outbox.Pause(&next, control.FirstPause(t.Now(), t.Stack))
		written, err := t.opts.Lease.Apply(ctx, append(events.Changes(), rec.Write(next))...)
		if conflict := new(state.ConflictError); errors.As(err, &conflict) && conflict.Change.Key == state.ReconcileKey {
			if rec, err = state.ReadReconcile(ctx, t.Store); err != nil {
				return rec, err
			}
			t.noteVersion(rec.Version)
			continue
		}
		if err != nil {
			return rec, fmt.Errorf("pause the deployment before its first run: %w", err)
		}
		t.eventLog().Now(ctx, events)
		t.noteVersion(written[len(written)-1].Version)
		return state.Stored[state.Reconcile]{Record: written[len(written)-1], Data: next}, nil
	}
	return rec, nil
}
