package roles

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
)

// Rights are the roles that somebody has, each with the tasks that it is for. The zero value is none.
type Rights struct {
	tasks   map[Role][]string // scopes, sorted, with what includes the role; only "*" if it is for all tasks
	labels  func(task string) map[string]string
	assumed bool // labels of tasks are not known here: each task is assumed to have those of a scope
}

var everyTask = []string{"*"}

// Everything are all roles for all tasks.
func Everything() Rights {
	return rights(map[Role][]string{Administer: everyTask, Approve: everyTask})
}

// Viewing is the role view for all tasks.
func Viewing() Rights { return rights(map[Role][]string{View: everyTask}) }

// Given returns rights from scopes by role, such as an API has answered them. The labels of tasks are not
// known here, so a scope with labels may include tasks that it is not for: the API that has answered decides.
func Given(tasks map[Role][]string) Rights {
	r := rights(tasks)
	r.assumed = true
	return r
}

// rights adds the roles that the given ones include.
func rights(given map[Role][]string) Rights {
	r := Rights{tasks: map[Role][]string{}}
	for _, role := range All {
		tasks := slices.Clone(given[role])
		for _, other := range including[role] {
			tasks = append(tasks, given[other]...)
		}
		if slices.Contains(tasks, "*") {
			tasks = everyTask
		}
		slices.Sort(tasks)
		if tasks = slices.Compact(tasks); len(tasks) > 0 {
			r.tasks[role] = tasks
		}
	}
	return r
}

// May reports whether the role is there for a task, which need not exist.
func (r Rights) May(role Role, task string) bool {
	return slices.ContainsFunc(r.tasks[role], func(scope string) bool { return r.has(scope, task) })
}

// MayAll reports whether the role is there for all tasks, also for those to come.
func (r Rights) MayAll(role Role) bool { return slices.Equal(r.tasks[role], everyTask) }

// MayAny reports whether the role is there for any task.
func (r Rights) MayAny(role Role) bool { return len(r.tasks[role]) > 0 }

// Acts reports whether there is a role that changes something.
func (r Rights) Acts() bool { return r.MayAny(Operate) || r.MayAny(Approve) || r.MayAny(Administer) }

// Tasks are the scopes of a role: patterns of names, and labels, as in "firewall-* site=muc".
func (r Rights) Tasks(role Role) []string { return r.tasks[role] }

// ByLabel reports whether the role is there for tasks with labels.
func (r Rights) ByLabel(role Role) bool { return slices.ContainsFunc(r.tasks[role], byLabel) }

// On are the roles for a task.
func (r Rights) On(task string) []Role {
	return slices.DeleteFunc(slices.Clone(All), func(role Role) bool { return !r.May(role, task) })
}

// Viewed are the rights to view what these rights let somebody view, and no others. Equal ones have
// the same text.
func (r Rights) Viewed() Rights {
	viewed := rights(map[Role][]string{View: r.tasks[View]})
	viewed.labels, viewed.assumed = r.labels, r.assumed
	return viewed
}

func (r Rights) String() string {
	if !r.MayAny(View) {
		return "no role"
	}
	var all []string
	for _, role := range All {
		tasks := r.tasks[role]
		if len(tasks) == 0 {
			continue
		}
		if r.MayAll(role) {
			all = append(all, string(role))
		} else {
			all = append(all, fmt.Sprintf("%s (%s)", role, strings.Join(tasks, ", ")))
		}
	}
	return strings.Join(all, ", ")
}

// Words lists roles in words, such as view, operate and approve.
func Words(all []Role) string {
	words := list.Map(all, func(r Role) string { return string(r) })
	if last := len(words) - 1; last > 0 {
		words = []string{strings.Join(words[:last], ", ") + " and " + words[last]}
	}
	return strings.Join(words, "")
}
