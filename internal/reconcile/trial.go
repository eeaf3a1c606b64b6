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

// settleTrials keeps the changes on trial whose task has had its run, if that
// succeeded, and takes back the others. It reports whether there were any.
func (t *tick) settleTrials(ctx context.Context, states map[string]state.Stored[state.Task]) (bool, error) {
	settled := false
	for _, name := range slices.Sorted(maps.Keys(t.effective.Overrides)) {
		if !tried(t.effective.Overrides[name], states[name].Data) {
			continue
		}
		if err := t.settleTrial(ctx, name, states[name]); err != nil {
			return settled, fmt.Errorf("settle the change of task %s that was on trial: %w", name, err)
		}
		settled = true
	}
	return settled, nil
}

// tried reports whether a change is on trial and its task has had its run: no
// run is under way when a trial begins, and the next one is that of the trial.
func tried(o state.Override, s state.Task) bool {
	return o.Trial != nil && s.Run == nil && s.Last != nil && s.Last.Run != o.Trial.Since
}

func (t *tick) settleTrial(ctx context.Context, name string, task state.Stored[state.Task]) error {
	rec, err := state.Read[state.Reconcile](ctx, t.Store, state.ReconcileKey)
	if err != nil {
		return err
	}
	override, err := state.Read[state.Override](ctx, t.Store, state.OverrideKey(name))
	if err != nil || override.Data.Trial == nil {
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
	kept.Trial = nil
	switch before := override.Data.Trial.Before; {
	case result.State == state.RunSucceeded && redundant(kept, t.Config):
		change = state.Delete(override.Record)
	case result.State == state.RunSucceeded:
		change = override.Write(kept)
	case before != nil:
		change = override.Write(*before)
	default:
		change = state.Delete(override.Record)
	}
	// Where the task's record is another by now, so may be the trial.
	_, err = t.opts.Lease.Apply(ctx, append([]state.Change{change, task.Write(after), rec.Write(next)}, events.Changes()...)...)
	if conflict := new(state.ConflictError); errors.As(err, &conflict) {
		return nil // somebody changes it at this moment: the next tick looks again
	}
	if err != nil {
		return err
	}
	t.eventLog().Now(ctx, events)
	return nil
}
