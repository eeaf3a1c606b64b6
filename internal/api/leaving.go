package api

import (
	"context"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/state"
)

// leaving returns a task that was deleted while a run of it was under way: it is
// shown until that run has ended, as in Consul-Terraform-Sync. It returns nil for
// every other task.
func leaving(counts *overlay.Effective, name string, known state.Task) *config.Task {
	if known.Run == nil {
		return nil
	}
	if _, ok := counts.Config.Task(name); ok {
		return nil
	}
	if t, ok := counts.Base.Task(name); ok {
		return t
	}
	if len(known.Leaving) == 0 {
		return nil
	}
	with, _ := counts.Config.With([]config.Change{{Task: name, Definition: known.Leaving}})
	t, _ := with.Task(name) // nil if a file has gained something that it clashes with
	return t
}

// shown returns the tasks that there are and those that are leaving, given the
// records of all tasks.
func shown(counts *overlay.Effective, records []state.Stored[state.Task]) []*config.Task {
	tasks := make([]*config.Task, 0, len(counts.Config.Tasks))
	for i := range counts.Config.Tasks {
		tasks = append(tasks, &counts.Config.Tasks[i])
	}
	for _, rec := range records {
		if t := leaving(counts, state.TaskName(rec.Key), rec.Data); t != nil {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// records reads the records of all tasks.
func (a *api) records(ctx context.Context) ([]state.Stored[state.Task], error) {
	return state.ReadTasks(ctx, a.Control.Store)
}
