package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// errNoChange is returned by the functions that say what to write if nothing has
// to change: then nothing is written, and no tick is requested.
var errNoChange = errors.New("there is nothing to change")

// Edit is one change of the records of a task. A verb sets what it changes.
type Edit struct {
	*overlay.Effective // nil unless change has read it
	Now                time.Time
	Rec                *state.Reconcile // written with the edit
	Record             state.Stored[state.Task]
	Next               state.Task     // the task's record from now on
	Others             []state.Change // of other records
	events             []outbox.Event // of the task
	ended              []state.Run    // whose traces end with the edit
	does               *act           // what somebody does; nil if nobody does it
}

// edit writes what decide changes about a task, and requests a tick. The task's
// record is always written, so that a tick that has read it before does not act.
func (c *Control) edit(ctx context.Context, task string, does *act, decide func(*Edit) error) error {
	if len(state.TaskKey(task)) > state.MaxKey {
		return ErrNoTask
	}
	var last *Edit
	err := c.write(ctx, does, func(rec *state.Reconcile) ([]state.Change, error) {
		record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
		if err != nil {
			return nil, fmt.Errorf("read task %s: %w", task, err)
		}
		e := &Edit{Now: c.Now(), Rec: rec, Record: record, Next: record.Data, does: does}
		if err := decide(e); err != nil {
			return nil, err
		}
		last = e
		changes, _ := e.Changes()
		return changes, nil
	})
	if err == nil && last != nil && c.Spans != nil {
		c.Spans.Ended(c.Now(), last.ended...)
	}
	return err
}

// change is edit for what also depends on the effective configuration.
func (c *Control) change(ctx context.Context, task string, does *act, decide func(*Edit) error) error {
	return c.edit(ctx, task, does, func(e *Edit) error {
		base, err := c.Base(ctx)
		if err != nil {
			return err
		}
		if e.Effective, err = c.Source.At(ctx, c.Store, base, e.Rec.Overrides); err != nil {
			return err
		}
		return decide(e)
	})
}

// Changes returns everything that the edit writes, but for the reconcile record.
func (e *Edit) Changes() ([]state.Change, outbox.Events) {
	events := outbox.NewEvents(outbox.NumberAll(&e.Next, *e.Rec, e.events)...)
	return slices.Concat(e.Others, []state.Change{e.Record.Write(e.Next)}, events.Changes()), events
}

// Reports adds an event of the task.
func (e *Edit) Reports(event outbox.Event) { e.events = append(e.events, event) }

// Override adds the change of an override, and its event. A process that reads the
// reconcile record sees that the overrides have changed.
func (e *Edit) Override(change state.Change, event outbox.Event) {
	e.Rec.Overrides = uuid.NewString()
	e.Others, e.events = append(e.Others, change), append(e.events, event)
}

// overridden is Override for a request, with the event that follows from it.
func (e *Edit) overridden(change state.Change, o state.Override) {
	kind := map[state.Op]outbox.Kind{state.OpCreate: outbox.OverrideCreated, state.OpReplace: outbox.OverrideChanged, state.OpDelete: outbox.OverrideRemoved}[change.Op]
	e.Override(change, outbox.Event{Kind: kind, At: o.At, Task: o.Task, By: o.By, Detail: o.String()})
}
