package overview

import (
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Order returns the tasks that come after others or before some, by name and without their phases, and what
// each entry of an `after` names.
func Order(cfg *config.Config) ([]apispec.OrderedTask, map[string][]string) {
	order, matches, named := cfg.Order(), map[string][]string{}, map[string]bool{}
	for _, task := range order.Tasks() {
		named[task] = true
		for _, p := range order.Before(task) {
			if all := matches[p.Entry]; len(all) < len(p.Tasks) || all == nil {
				matches[p.Entry] = append([]string{}, p.Tasks...)
			}
			for _, name := range p.Tasks {
				named[name] = true
			}
		}
	}
	tasks := []apispec.OrderedTask{}
	for i := range cfg.Tasks {
		if t := &cfg.Tasks[i]; named[t.Name] {
			tasks = append(tasks, apispec.OrderedTask{Name: t.Name, After: append([]string{}, t.After...)})
		}
	}
	slices.SortFunc(tasks, func(a, b apispec.OrderedTask) int { return strings.Compare(a.Name, b.Name) })
	return tasks, matches
}

// maxOrdered is how many predecessors and successors the overview of a task names.
const maxOrdered = 100

// noteOrder adds to the overview of a task what it comes after, and what comes after it. Only tasks for
// which sees returns true are named; it may be nil.
func noteOrder(t *apispec.TaskOverview, order *config.Order, sees func(task string) bool) {
	for into, names := range map[**[]string][]string{&t.Predecessors: order.Predecessors(t.Name), &t.Successors: order.Successors(t.Name)} {
		if sees != nil {
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !sees(name) })
		}
		if len(names) > 0 {
			names = names[:min(len(names), maxOrdered)]
			*into = &names
		}
	}
}
