package simulate

import (
	"maps"
	"slices"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Where tasks come after others, the judge checks that what a task has made is destroyed after what those have
// made that come after it, and while nothing is applied for them.

// destroysInOrder looks at a run that is launched to destroy something.
func (j *judge) destroysInOrder(v view, cfg *config.Config, run state.Run) {
	names := map[string]bool{}
	for name := range j.tasks {
		names[name] = true
	}
	for i := range cfg.Tasks {
		names[cfg.Tasks[i].Name] = true
	}
	delete(names, run.Task)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s := j.tasks[name]
		_, configured := cfg.Task(name)
		why := ""
		switch {
		case s.Run != nil && s.Run.Wait == nil, s.Elsewhere():
			why = "is under way"
		case s.GivenUp() != nil:
			why = "has a remote run that is to be stopped"
		case j.toDestroy(s, configured):
			why = "is to be destroyed first"
		default:
			continue
		}
		if j.comesAfter(v, cfg, name, run.Task, names) {
			v.violated("destroys have the opposite order: run %s of %s is launched by %s while %s %s, and reads %s", run.ID, run.Task, v.name, name, why, state.Encode(s))
		}
	}
}

// toDestroy reports whether what a task has made is to be destroyed.
func (j *judge) toDestroy(s state.Task, configured bool) bool {
	if s.Destroy != nil || s.Run != nil && s.Run.Destroys() {
		return true
	}
	kept := s.Ended.Of(state.KindDestroy) && s.Ended.In(state.RunCancelled)
	return !configured && s.OnRemoval != "" && !kept
}

// comesAfter reports whether a task comes after another one, directly or along the tasks between.
func (j *judge) comesAfter(v view, cfg *config.Config, task, other string, between map[string]bool) bool {
	seen := map[string]bool{}
	var visit func(task string) bool
	visit = func(task string) bool {
		seen[task] = true
		t := config.Task{Name: task, After: j.afterOf(cfg, task)}
		if t.ComesAfter(other) {
			return true
		}
		for name := range between {
			if !seen[name] && t.ComesAfter(name) && visit(name) {
				return true
			}
		}
		return false
	}
	return visit(task)
}

// afterOf returns the `after` of a task: that of the configuration, or the latest one of a task that is removed.
func (j *judge) afterOf(cfg *config.Config, task string) []string {
	if t, ok := cfg.Task(task); ok {
		return t.After
	}
	return j.tasks[task].Follows
}
