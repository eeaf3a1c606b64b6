package reconcile

import (
	"context"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// unreadBefore reads the conditions of all tasks that come before one whose run was decided on, after
// all others were read, and returns those that show something else than this tick has seen: then that run
// must not overtake them. Gates do not suffice for that: the one of a predecessor may move a moment later
// than that of the task.
func (t *tick) unreadBefore(ctx context.Context, order decide.Order) (map[string]decide.Unread, error) {
	t.rereads = nil
	before := order.Before(t.report.Decisions)
	if len(before) == 0 {
		return nil, nil
	}
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
	unread := map[string]decide.Unread{}
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
	for name := range unread {
		if t.rereads == nil {
			t.rereads = map[string]bool{}
		}
		t.rereads[name] = true
	}
	return unread, ctx.Err()
}

// unrequested returns the check that nobody has requested anything since the tick read the records
// of tasks: each request writes the reconcile record. A launch needs it if it has a task that comes after
// others, or that destroys, because a request may concern one of these, or one that is destroyed first.
func (b *batch) unrequested() []state.Change {
	if b.launches == "" || !b.tick.rec.Exists() || !slices.ContainsFunc(b.items, item.keepsOrder) {
		return nil
	}
	return []state.Change{state.Check(b.tick.rec.Record)}
}

// keepsOrder reports whether the decision is to begin what must not overtake another task.
func (it item) keepsOrder() bool { return decide.KeepsOrder(*it.decision) }
