package reconcile

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// orderNow returns the order as the overrides are now. A task whose override has changed since the tick has read
// it is left to the next tick, because its record, which changes with it, does not fit.
func (t *tick) orderNow(ctx context.Context, overrides string) (decide.Order, error) {
	if overrides == t.overrides {
		return decide.Order{Tasks: t.order}, nil
	}
	now, err := t.Source.At(ctx, t.Store, t.Config, overrides)
	if err != nil {
		return decide.Order{}, err
	}
	for _, all := range []map[string]state.Override{t.effective.Overrides, now.Overrides} {
		for name := range all {
			if !reflect.DeepEqual(t.effective.Overrides[name], now.Overrides[name]) {
				t.left[name] = true
			}
		}
	}
	return decide.Order{Tasks: now.Config.Order()}, nil
}

// maxUses is of how many other tasks a launch checks the records: a write has no room for many.
const maxUses = 16

// leaveOvertaken leaves to the next tick the runs that would overtake a task by which they were decided on: one that
// is left itself, that somebody has written about, or of which Consul shows something else now, after everything
// else was read. Gates do not suffice for that: the one of a predecessor may move a moment later than that of the task.
func (t *tick) leaveOvertaken(ctx context.Context, order decide.Order, states map[string]state.Stored[state.Task]) error {
	t.rereads, t.uses, t.asRead = map[string]bool{}, map[string][]string{}, nil
	before := order.Before(t.report.Decisions)
	all := maps.Clone(before)
	uses := map[string][]string{}
	for _, d := range t.report.Decisions {
		used := order.Uses(d)
		if len(used) == 0 {
			continue
		}
		if uses[d.Task.Name] = used; len(used) <= maxUses {
			t.uses[d.Task.Name] = used
		}
		if all == nil {
			all = map[string]bool{}
		}
		for _, name := range d.Behind {
			all[name] = true
		}
	}
	if len(all) == 0 {
		return nil
	}
	t.readConditions(ctx, before)
	if err := t.readUsed(ctx, all, states); err != nil {
		return err
	}
	for task, used := range uses {
		if slices.ContainsFunc(used, func(name string) bool { return t.rereads[name] || t.left[name] }) {
			t.left[task] = true
		}
	}
	return ctx.Err()
}

// readConditions notes which tasks have a condition that does not show any more what this tick has seen.
func (t *tick) readConditions(ctx context.Context, before map[string]bool) {
	observed := make(map[string]string, len(t.report.Decisions))
	for _, d := range t.report.Decisions {
		observed[d.Task.Name] = d.State.Observed.Digest
	}
	var tasks []task
	for _, task := range t.Reconciler.tasks {
		if before[task.Name] && task.Enabled && task.query != nil {
			tasks = append(tasks, task)
		}
	}
	answers := t.Consul.Observe(ctx, list.Map(tasks, func(task task) consul.Query { return *task.query }))
	for i, task := range tasks {
		row, _ := t.summary.Row(task.Name)
		digest, decided := observed[task.Name]
		if answers[i].Err != nil || decided && digest != answers[i].Digest || !decided && !row.Shows(answers[i].Digest) {
			t.rereads[task.Name] = true
		}
	}
}

// readUsed notes which tasks somebody has written about since this tick has read their records or, if they rest,
// their rows. Of those that a launch checks it reads the records: of others the rows say it.
func (t *tick) readUsed(ctx context.Context, names map[string]bool, states map[string]state.Stored[state.Task]) error {
	seen, keys := map[string]uint64{}, map[string]bool{}
	for name := range names {
		row, _ := t.summary.Row(name)
		if seen[name] = row.Revision; states[name].Exists() {
			seen[name] = states[name].Data.Revision
		}
	}
	known, err := t.summary.Read(ctx, t.Store)
	if err != nil {
		return err
	}
	for _, uses := range t.uses {
		for _, name := range uses {
			keys[state.TaskKey(name)] = true
		}
	}
	for name, revision := range seen {
		switch row, ok := t.summary.Row(name); {
		case !known || ok && row.Revision == 0:
			keys[state.TaskKey(name)] = true
		case row.Revision != revision:
			t.rereads[name] = true
		}
	}
	read, _, err := state.ReadSeveral[state.Task](ctx, t.Store, slices.Sorted(maps.Keys(keys)))
	if err != nil {
		return fmt.Errorf("read the records of the tasks that others come after: %w", err)
	}
	t.asRead = map[string]state.Stored[state.Task]{}
	for key := range keys {
		name := state.TaskName(key)
		if t.asRead[name] = read[key]; t.asRead[name].Data.Revision != seen[name] {
			t.rereads[name] = true
		}
	}
	return nil
}

// checks returns the checks that no record of another task by which launches were decided on has changed since.
func (b *batch) checks(items ...item) []state.Change {
	if b.launches == "" {
		return nil
	}
	records := map[string]state.Record{}
	for _, it := range items {
		for _, name := range b.tick.uses[it.decision.Task.Name] {
			if used := b.tick.asRead[name]; used.Exists() {
				records[used.Key] = used.Record
			}
		}
	}
	for _, it := range items {
		delete(records, it.was.Key) // it is written
	}
	var changes []state.Change
	for _, key := range slices.Sorted(maps.Keys(records)) {
		changes = append(changes, state.Check(records[key]))
	}
	return changes
}
