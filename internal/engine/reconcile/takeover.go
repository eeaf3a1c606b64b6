package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// taker is a renamed task, and its former name.
type taker struct {
	task   task
	former string
}

// takers returns the renamed tasks that can take over what there is under their former names.
func (t *tick) takers(states map[string]state.Stored[state.Task]) (all []taker) {
	for _, task := range t.tasks {
		to := states[task.Name]
		if len(task.MovedFrom) == 0 || t.corrupt[task.Name] != nil || !takesOver(to.Data) || t.unmoved(task.Task, states) != "" {
			continue
		}
		formers := t.formers(task.Task, states)
		if len(formers) == 0 || t.isBlocked(task.Name) {
			continue
		}
		all = append(all, taker{task, formers[0]})
	}
	return all
}

// takeOver gives renamed tasks what there is under their former names: what was applied, with which
// guards compare, and what people have said about the task. The history of its runs stays under that name.
func (t *tick) takeOver(ctx context.Context, takers []taker, states map[string]state.Stored[state.Task]) error {
	for _, taker := range takers {
		err := t.takeRecords(ctx, taker.task, taker.former, states)
		if err != nil && !errors.As(err, new(*state.ConflictError)) { // somebody changes a part of it at this moment
			return fmt.Errorf("take what task %s has along to task %s, its new name: %w", taker.former, taker.task.Name, err)
		}
	}
	return nil
}

// isBlocked reports whether a task cannot run here. Its rename waits, too.
func (t *tick) isBlocked(task string) bool { return t.Blocked != nil && t.Blocked()[task] != nil }

// takeRecords writes everything that moves to a new name at once.
func (t *tick) takeRecords(ctx context.Context, task task, before string, states map[string]state.Stored[state.Task]) error {
	inputs, err := state.MoveInputs(ctx, ledStore{t.Store, t.opts.Lease}, before, task.Name)
	if err != nil {
		return err
	}
	rec, err := state.ReadReconcile(ctx, t.Store)
	if err != nil {
		return err
	}
	shared := rec.Data
	from, e := states[before], &control.Edit{Now: t.Now(), Rec: &shared, Record: states[task.Name]}
	from.Key = state.TaskKey(before) // it has no record if only an override names it
	rename := state.Rename{From: before, To: task.Name, Was: task.DigestNamed(t.effective.Config, before), Is: task.definition, At: e.Now}
	// What proves an approval names the task.
	if from.Data, err = credentials.ProveTask(ctx, t.Store, before, from.Data); err != nil {
		return err
	}
	next, left := rename.Take(from.Data, e.Record.Data)
	if a := next.Accepted; a != nil && a.Valid(e.Now) {
		e.Others = append(e.Others, a.Records(task.Name, nil)...)
	}
	e.Next = next
	e.Next.Events = max(next.Events, from.Data.Events) // the event follows those of the former name
	e.Reports(outbox.Event{Kind: outbox.TaskMoved, At: e.Now, Task: task.Name, Former: before})
	if err := t.takeOverride(ctx, e, rename, from.Data.Ended.Last); err != nil {
		return err
	}
	changes, events := e.Changes()
	changes = append(append(changes, from.Write(left)), inputs...)
	if from.Data.RemoteRun != nil {
		taken, err := t.takeRemote(ctx, before, task.Name)
		if err != nil {
			return err
		}
		changes = append(changes, taken...)
	}
	switch definition, err := t.Store.Get(ctx, state.DefinitionKey(before)); {
	case err == nil:
		changes = append(changes, state.Delete(definition))
	case !errors.Is(err, state.ErrNotFound):
		return err
	}
	if shared.Overrides != rec.Data.Overrides {
		changes = append(changes, rec.Write(shared))
	}
	written, err := t.opts.Lease.Apply(ctx, changes...)
	if err != nil {
		return err
	}
	if last := written[len(written)-1]; last.Key == state.ReconcileKey && t.opts.Replaces == rec.Version {
		t.opts.Replaces = last.Version // this tick still puts its bundle in force
	}
	t.eventLog().Now(ctx, events)
	return state.ForgetInputs(ctx, ledStore{t.Store, t.opts.Lease}, before)
}

// takeOverride moves what a person has said with an override: that the task is disabled or
// enabled. What the new name's own override says counts more. A provisional change moves
// only once its run has succeeded; until then, what was in effect before it moves.
func (t *tick) takeOverride(ctx context.Context, e *control.Edit, rename state.Rename, last *state.Result) error {
	was, err := state.Read[state.Override](ctx, t.Store, state.OverrideKey(rename.From))
	if err != nil {
		return err
	}
	is, err := state.Read[state.Override](ctx, t.Store, state.OverrideKey(rename.To))
	if err != nil {
		return err
	}
	if was.Exists() {
		left := was.Data
		left.Enabled, left.Provisional = nil, nil
		change := was.Write(left)
		if left.Deleted == "" && len(left.Definition) == 0 {
			change = state.Delete(was.Record)
		}
		e.Others, e.Rec.Overrides = append(e.Others, change), newID()
	}
	said, next := settled(was.Data), is.Data
	switch {
	case next.Provisional != nil && last != nil: // a run of the former name does not decide about it
		since := *next.Provisional
		since.Since, next.Provisional = last.Run, &since
		e.Others, e.Rec.Overrides = append(e.Others, is.Write(next)), newID()
		return nil
	case said.Enabled == nil, next.Enabled != nil, next.Provisional != nil:
		return nil
	case !is.Exists():
		next = state.Override{Task: rename.To, By: said.By, At: said.At, Made: said.Made}
	}
	next.Enabled = said.Enabled
	next.Others = slices.DeleteFunc(state.Names(next.Others, said.ChangedBy()), func(by string) bool { return by == next.By })
	if overlay.Redundant(next, t.Config) {
		return nil
	}
	kind := outbox.OverrideCreated
	if is.Exists() {
		kind = outbox.OverrideChanged
	}
	e.Override(is.Write(next), outbox.Event{Kind: kind, At: e.Now, Task: rename.To, By: said.By,
		Detail: fmt.Sprintf("%s, as it was under its former name %s", next, rename.From)})
	return nil
}

// settled is what an override says without provisional changes.
func settled(o state.Override) state.Override {
	for o.Provisional != nil {
		before := o.Provisional.Before
		if o = (state.Override{}); before != nil {
			o = *before
		}
	}
	return o
}
