package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// hadRuns returns the tasks that have had the run of their provisional change.
func (t *tick) hadRuns(states map[string]state.Stored[state.Task]) []string {
	names := slices.Sorted(maps.Keys(t.effective.Overrides))
	return slices.DeleteFunc(names, func(name string) bool { return !hadRun(t.effective.Overrides[name], states[name].Data) })
}

// settleProvisional settles the provisional changes of tasks that have had their runs: it keeps those
// whose run succeeded and reverts the others.
func (t *tick) settleProvisional(ctx context.Context, tasks []string, states map[string]state.Stored[state.Task]) error {
	for _, name := range tasks {
		if err := t.settleChange(ctx, name, states[name]); err != nil {
			return fmt.Errorf("keep or revert the provisional change of task %s: %w", name, err)
		}
	}
	return nil
}

// hadRun reports whether a provisional change has had its run: the first run of
// the task after the change, because none was under way at that time.
func hadRun(o state.Override, s state.Task) bool {
	return o.Provisional != nil && s.Run == nil && s.Ended.Last != nil && s.Ended.Last.Run != o.Provisional.Since
}

func (t *tick) settleChange(ctx context.Context, name string, task state.Stored[state.Task]) error {
	rec, err := state.ReadReconcile(ctx, t.Store)
	if err != nil {
		return err
	}
	override, err := state.Read[state.Override](ctx, t.Store, state.OverrideKey(name))
	if err != nil || override.Data.Provisional == nil {
		return err
	}
	result, kept := task.Data.Ended.Last, override.Data
	kept.Provisional = nil
	kind, change := outbox.OverrideReverted, state.Delete(override.Record)
	switch before := override.Data.Provisional.Before; {
	case result.State == state.RunSucceeded:
		kind = outbox.OverrideConfirmed
		if !overlay.Redundant(kept, t.Config) {
			change = override.Write(kept)
		}
	case before != nil:
		change = override.Write(*before)
	}
	next := rec.Data
	e := &control.Edit{Rec: &next, Record: task, Next: task.Data}
	e.Override(change, outbox.Event{Kind: kind, At: t.Now(), Task: name, Run: result.Run, By: override.Data.By, Detail: override.Data.String()})
	changes, events := e.Changes()
	// If the task's record has changed, the provisional change may be another one.
	_, err = t.opts.Lease.Apply(ctx, append(changes, rec.Write(next))...)
	if errors.As(err, new(*state.ConflictError)) {
		return nil // somebody changes it at this moment: the next tick reads it again
	}
	if err == nil {
		t.eventLog().Now(ctx, events)
	}
	return err
}
