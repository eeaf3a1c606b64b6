package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

// renameTime is how long after a task is removed a new one is taken for the same task
// under another name: somebody may change two files one after the other.
const renameTime = time.Hour

// renames are the tasks that were renamed, or perhaps were.
type renames struct {
	moved  map[string]string // the tasks that say so, by the name before
	before map[string]string // the name that a new task perhaps had before
	after  map[string]string // the new tasks, by that name
}

// renames compares new tasks with those that were removed at the same time.
func (t *tick) renames(states map[string]state.Stored[state.Task], now time.Time) renames {
	r := renames{map[string]string{}, map[string]string{}, map[string]string{}}
	for _, task := range t.tasks {
		if task.MovedFrom != "" {
			r.moved[task.MovedFrom] = task.Name
		}
	}
	var gone map[string]string // the removed tasks by their shape
	for _, task := range t.tasks {
		record := states[task.Name]
		before := record.Data.Renamed
		switch {
		case task.MovedFrom != "", t.opts.Force[task.Name] != "" && !t.opts.All, record.Data.Forced != "", !record.Data.AppliedAt.IsZero():
			continue
		case before != "" && t.configured(before):
			continue // it is another task, then
		case before == "" && (record.Exists() || task.FromAPI):
			continue
		case before == "":
			if gone == nil {
				gone = t.gone(states, r.moved, now)
			}
			if before = gone[task.shape]; before == "" {
				continue
			}
		}
		r.before[task.Name], r.after[before] = before, task.Name
	}
	return r
}

// gone returns the applied tasks that were removed just now, by their shape.
func (t *tick) gone(states map[string]state.Stored[state.Task], moved map[string]string, now time.Time) map[string]string {
	gone := map[string]string{}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(states))) {
		s := states[name].Data
		switch {
		case t.configured(name), t.effective.Problems[name] != nil, t.corrupt[name] != nil, moved[name] != "":
		case s.AppliedAt.IsZero(), s.Shape == "", s.Deleted, s.MovedTo != "":
		case s.RemovedAt.IsZero() || now.Sub(s.RemovedAt) < renameTime:
			gone[s.Shape] = name
		}
	}
	return gone
}

func (t *tick) configured(name string) bool {
	_, ok := t.effective.Config.Task(name)
	return ok
}

// unmoved says why a task cannot take over what the task has that its moved_from
// names; "" if it can, or if there is nothing to take over.
func (t *tick) unmoved(task *config.Task, states map[string]state.Stored[state.Task]) string {
	from := states[task.MovedFrom]
	s := states[task.Name].Data
	switch {
	case task.MovedFrom == "" || s.MovedFrom == task.MovedFrom:
		return ""
	case t.configured(task.MovedFrom):
		return fmt.Sprintf("its moved_from names task %s, which is in the configuration", task.MovedFrom)
	case t.corrupt[task.MovedFrom] != nil:
		return fmt.Sprintf("the record of task %s, which its moved_from names, cannot be read", task.MovedFrom)
	case takesOver(from, s) && from.Data.Run != nil:
		return fmt.Sprintf("run %s of task %s, which its moved_from names, has not ended", from.Data.Run.ID, task.MovedFrom)
	}
	return ""
}

// takesOver reports whether a task that was never applied gets the records of another.
func takesOver(from state.Stored[state.Task], to state.Task) bool {
	return from.Exists() && from.Data.MovedTo == "" && to.AppliedAt.IsZero() && to.Run == nil
}

// takeOver gives each renamed task what was applied under its name before: guards
// compare with that, and its definition counts as changed. The history of its runs
// stays under that name. It reports whether there was such a task.
func (t *tick) takeOver(ctx context.Context, states map[string]state.Stored[state.Task]) (bool, error) {
	moved := false
	for _, task := range t.tasks {
		from, to := states[task.MovedFrom], states[task.Name]
		if task.MovedFrom == "" || t.corrupt[task.Name] != nil || t.unmoved(task.Task, states) != "" || !takesOver(from, to.Data) {
			continue
		}
		if err := t.takeRecords(ctx, task.Name, from, to); err != nil {
			return moved, fmt.Errorf("take what task %s has along to task %s, its new name: %w", task.MovedFrom, task.Name, err)
		}
		t.Log.Info("a renamed task has taken over the records of the name before", "task", task.Name, "from", task.MovedFrom)
		moved = true
	}
	return moved, nil
}

func (t *tick) takeRecords(ctx context.Context, name string, from, to state.Stored[state.Task]) error {
	before := state.TaskName(from.Key)
	if err := state.CopyInputs(ctx, t.Store, before, name); err != nil {
		return err
	}
	was := from.Data
	next := state.Task{Definition: was.Definition, Observed: was.Observed, ObservedAt: was.ObservedAt, Applied: was.Applied, AppliedAt: was.AppliedAt,
		Scheduled: was.Scheduled, Doubt: was.Doubt, OnHold: was.OnHold, Remote: was.Remote, Abandoned: was.Abandoned, Recheck: true, Forced: to.Data.Forced, HoldNext: to.Data.HoldNext, Events: to.Data.Events,
		Reason: state.Reason{Code: state.ReasonQueued, Text: "its next run takes along the state of task " + before}}
	if to.Data.OnHold != nil {
		next.OnHold = to.Data.OnHold
	}
	left := state.Task{RemovedAt: t.Now(), MovedTo: name, History: was.History, Last: was.Last, Recent: was.Recent, Reason: was.Reason, Events: was.Events}
	changes := []state.Change{to.Write(next), from.Write(left)}
	if was.Remote {
		taken, err := t.takeRemote(ctx, before, name)
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
	if _, err := t.opts.Lease.Apply(ctx, changes...); err != nil {
		return err
	}
	return state.ForgetInputs(ctx, t.Store, before)
}

// moves returns what the run of a renamed task takes along; nil if there is nothing,
// or if an earlier run has done it.
func moves(d *Decision) *state.Move {
	if d.Task.MovedFrom == "" || d.State.MovedFrom == d.Task.MovedFrom {
		return nil
	}
	return &state.Move{From: d.Task.MovedFrom, Expected: !d.State.AppliedAt.IsZero()}
}

// holdRenamed refuses a new task that perhaps is a removed one under another name,
// and one that cannot take over yet what its moved_from names.
func holdRenamed(d *decider, _ trigger) *hold {
	switch {
	case d.destroys():
	case d.Unmoved != "":
		return refuse(state.ReasonRenamed, time.Time{}, "%s", d.Unmoved)
	case d.state.Renamed != "":
		return refuse(state.ReasonRenamed, time.Time{}, "%s", perhapsBefore(d.Task.Name, d.state.Renamed))
	}
	return nil
}

func perhapsBefore(name, before string) string {
	return fmt.Sprintf("perhaps this is task %s under a new name, and nothing was made yet: if so, set moved_from to %q; if it is a new task, request a run with `terrapulse run %s`",
		before, before, name)
}

// perhapsRenamed is perhapsBefore for the removed task.
func (d *decider) perhapsRenamed() string {
	return fmt.Sprintf("perhaps it was renamed to %s, which is held until somebody says so", d.RenamedTo)
}
