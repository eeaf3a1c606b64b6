package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

// settleProvisional settles every provisional change whose task has had its run:
// it keeps those whose run succeeded and reverts the others. It reports whether
// there were any.
func (t *tick) settleProvisional(ctx context.Context, states map[string]state.Stored[state.Task]) (bool, error) {
	settled := false
	for _, name := range slices.Sorted(maps.Keys(t.effective.Overrides)) {
		if !hadRun(t.effective.Overrides[name], states[name].Data) {
			continue
		}
		if err := t.settleChange(ctx, name, states[name]); err != nil {
			return settled, fmt.Errorf("keep or revert the provisional change of task %s: %w", name, err)
		}
		settled = true
	}
	return settled, nil
}

// hadRun reports whether a provisional change has had its run: the first run of
// the task after the change, because none was under way at that time.
func hadRun(o state.Override, s state.Task) bool {
	return o.Provisional != nil && s.Run == nil && s.Last != nil && s.Last.Run != o.Provisional.Since
}

func (t *tick) settleChange(ctx context.Context, name string, task state.Stored[state.Task]) error {
	rec, err := state.Read[state.Reconcile](ctx, t.Store, state.ReconcileKey)
	if err != nil {
		return err
	}
	override, err := state.Read[state.Override](ctx, t.Store, state.OverrideKey(name))
	if err != nil || override.Data.Provisional == nil {
		return err
	}
	next := rec.Data
	next.Overrides = uuid.NewString()
	var change state.Change
	after, result := task.Data, task.Data.Last
	event := outbox.Event{Kind: outbox.OverrideReverted, At: t.Now(), Task: name, Run: result.Run, By: override.Data.By, Detail: override.Data.String()}
	if result.State == state.RunSucceeded {
		event.Kind = outbox.OverrideConfirmed
	}
	events := outbox.NewEvents(outbox.Number(&after, event))
	kept := override.Data
	kept.Provisional = nil
	switch before := override.Data.Provisional.Before; {
	case result.State == state.RunSucceeded && redundant(kept, t.Config):
		change = state.Delete(override.Record)
	case result.State == state.RunSucceeded:
		change = override.Write(kept)
	case before != nil:
		change = override.Write(*before)
	default:
		change = state.Delete(override.Record)
	}
	// If the task's record has changed, the provisional change may be another one.
	_, err = t.opts.Lease.Apply(ctx, append([]state.Change{change, task.Write(after), rec.Write(next)}, events.Changes()...)...)
	if conflict := new(state.ConflictError); errors.As(err, &conflict) {
		return nil // somebody changes it at this moment: the next tick reads it again
	}
	if err != nil {
		return err
	}
	t.eventLog().Now(ctx, events)
	return nil
}
