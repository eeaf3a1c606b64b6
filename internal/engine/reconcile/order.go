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
// it is left to the next tick, because its record, which changes with it, does not fit; tasks that come after it wait.
func (t *tick) orderNow(ctx context.Context, overrides string) (decide.Order, error) {
	was, now := t.effective, t.effective
	if overrides != t.overrides {
		var err error
		if now, err = t.Source.At(ctx, t.Store, t.Config, overrides); err != nil {
			return decide.Order{}, err
		}
		for _, all := range []map[string]state.Override{was.Overrides, now.Overrides} {
			for name := range all {
				t.left[name] = t.left[name] || !reflect.DeepEqual(was.Overrides[name], now.Overrides[name])
			}
		}
		maps.DeleteFunc(t.left, func(_ string, left bool) bool { return !left })
	}
	t.report.Left = slices.Sorted(maps.Keys(t.left))
	order := decide.Order{Tasks: now.Config.Order(), Unread: map[string]decide.Unread{}}
	for name := range t.left {
		order.Unread[name] = decide.Unread{}
	}
	return order, nil
}

// maxUses is of how many other tasks a launch checks the records: a write has no room for many.
const maxUses = 16

// unreadBefore reads again what the decisions on runs that keep the order have used, after everything else was
// read: the conditions of all tasks that come before, and what has been written about these, and about those that come
// after what is destroyed. It returns the tasks that are not as this tick has seen them: such a run must not
// overtake them. Gates do not suffice for that: the one of a predecessor may move a moment later than that of the task.
func (t *tick) unreadBefore(ctx context.Context, order decide.Order, states map[string]state.Stored[state.Task]) (map[string]decide.Unread, error) {
	t.rereads, t.uses, t.asRead = map[string]bool{}, map[string][]string{}, nil
	before, all, unread := order.Before(t.report.Decisions), map[string]bool{}, map[string]decide.Unread{}
	maps.Copy(all, before)
	for _, d := range t.report.Decisions {
		for _, name := range d.Behind {
			all[name] = true
		}
		if uses := order.Uses(d); len(uses) > 0 && len(uses) <= maxUses {
			t.uses[d.Task.Name] = uses
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	t.readConditions(ctx, before, unread)
	if err := t.readUsed(ctx, all, states, unread); err != nil {
		return nil, err
	}
	for name := range unread {
		t.rereads[name] = true
	}
	return unread, ctx.Err()
}

// readConditions notes which tasks have a condition that shows something else than this tick has seen.
func (t *tick) readConditions(ctx context.Context, before map[string]bool, unread map[string]decide.Unread) {
	observed := make(map[string]string, len(t.report.Decisions))
	for _, d := range t.report.Decisions {
		observed[d.Task.Name] = d.State.Observed
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
		switch {
		case answers[i].Err != nil:
			unread[task.Name] = decide.Unread{Err: answers[i].Err}
		case decided && digest != answers[i].Digest, !decided && !row.Shows(answers[i].Digest):
			unread[task.Name] = decide.Unread{}
		}
	}
}

// readUsed notes which tasks somebody has written about since this tick has read their records or, if they rest,
// their rows. Of those that a launch checks it reads the records: of others the rows say it.
func (t *tick) readUsed(ctx context.Context, names map[string]bool, states map[string]state.Stored[state.Task], unread map[string]decide.Unread) error {
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
			unread[name] = decide.Unread{}
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
			unread[name] = decide.Unread{}
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
