package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// unreadBefore returns the tasks that come before one whose run was decided on, and of which Consul
// may show a change that this tick has not read: then that run must not overtake them. The gates are
// polled after all conditions were read, so no change is missed that one of these has shown.
func (t *tick) unreadBefore(ctx context.Context, order decide.Order) (map[string]decide.Unread, error) {
	before := order.Before(t.report.Decisions)
	if len(before) == 0 {
		return nil, nil
	}
	marks, _ := t.Consul.Poll(ctx, t.gates)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("poll Consul for the tasks that come before others: %w", err)
	}
	moved, ungated := t.gates.Moved(t.opts.Marks, marks), t.gates.Moved(marks, marks)
	unread := map[string]decide.Unread{}
	var again []task // of which no gate says whether they have changed: they are read again
	for _, task := range t.Reconciler.tasks {
		if !before[task.Name] || !task.Enabled || task.query == nil {
			continue
		}
		switch q := *task.query; {
		case t.unanswered, ungated(q):
			again = append(again, task)
		case moved(q):
			unread[task.Name] = decide.Unread{}
		}
	}
	return unread, t.readAgain(ctx, again, unread)
}

// readAgain adds to unread the tasks whose conditions show something else than this tick has seen before.
func (t *tick) readAgain(ctx context.Context, tasks []task, unread map[string]decide.Unread) error {
	if len(tasks) == 0 {
		return nil
	}
	observed := make(map[string]string, len(t.report.Decisions))
	for _, d := range t.report.Decisions {
		observed[d.Task.Name] = d.State.Observed
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
	return ctx.Err()
}

// unrequested returns the check that nobody has requested anything since the tick read the records
// of tasks: each request writes the reconcile record. A launch needs it if it has a task that comes after
// others, because a request may concern one of these.
func (b *batch) unrequested() []state.Change {
	if b.launches == "" || !b.tick.rec.Exists() || !slices.ContainsFunc(b.items, item.keepsOrder) {
		return nil
	}
	return []state.Change{state.Check(b.tick.rec.Record)}
}

// keepsOrder reports whether the decision is to run a task that comes after others.
func (it item) keepsOrder() bool { return decide.Begins(*it.decision) }
