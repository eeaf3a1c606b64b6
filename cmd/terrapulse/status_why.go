package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// How long a reason may be. An error has what to do about it at its end.
const (
	longReason = 140 // two lines
	longError  = 800 // also of what is held or waits
)

// fewTasks is how many tasks may have the same reason, each with a copy of it. It is also how many
// names stand for more of them.
const fewTasks = 3

// reasonOf is why a task is in its phase: what concerns only this task, and what other tasks may
// have in common with it. Either may be empty.
func reasonOf(t apispec.TaskOverview) (own, shared string) {
	switch text := t.Reason.Text; {
	case t.Reason.Code == state.ReasonReplaced:
		own, _, _ = strings.Cut(text, state.LostByReplaced) // the rest is in a line about all tasks
		return own, ""
	case t.Error != nil:
		return text, *t.Error
	default:
		return "", text
	}
}

// why is the reason of a task's phase.
func why(t apispec.TaskOverview) string {
	own, shared := reasonOf(t)
	if own != "" && shared != "" {
		own += ": "
	}
	return shorten(own+shared, longest(t.Phase))
}

// longest is how long the reason of a phase may be.
func longest(p apispec.Phase) int {
	if newsOf(p) == bad || p == apispec.PhaseStopped || p == apispec.PhaseWaiting {
		return longError
	}
	return longReason
}

// lossOf says what a replaced Consul does to the tasks.
func lossOf(r apispec.ReplacedConsul) string {
	text := fmt.Sprintf("%s. %s and would lose %s", r.Why, plural(r.Tasks, "task waits", "tasks wait"), plural(r.Entries, "entry", "entries"))
	if r.ApprovedBy != nil {
		return text + "; " + *r.ApprovedBy + " has approved that"
	}
	return text + ", until the entries are back or `terrapulse approve -all` approves the loss"
}

// plural is a number with its noun.
func plural(n int, one, more string) string {
	if n == 1 {
		more = one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// commonReason is what more than a few tasks of a phase have in common.
type commonReason struct {
	phase apispec.Phase
	text  string // without the task's name
}

func commonReasonOf(t apispec.TaskOverview) commonReason {
	_, shared := reasonOf(t)
	return commonReason{t.Phase, state.Alike(shared, t.Name)}
}

// commonReasons are the reasons of tasks, of which those of more than a few tasks are
// common. They grow while the tasks come in parts.
type commonReasons map[commonReason]*alike

// alike are tasks with the same reason.
type alike struct {
	n     int
	first []apispec.TaskOverview // at most fewTasks
}

// add adds the tasks of a part.
func (all commonReasons) add(tasks []apispec.TaskOverview) {
	for _, t := range tasks {
		r := commonReasonOf(t)
		if r.text == "" {
			continue
		}
		if all[r] == nil {
			all[r] = &alike{}
		}
		if all[r].n++; all[r].n <= fewTasks {
			all[r].first = append(all[r].first, t)
		}
	}
}

// without is why a task is in its phase, without what it has in common with others.
func (all commonReasons) without(t apispec.TaskOverview) string {
	if of := all[commonReasonOf(t)]; of == nil || of.n <= fewTasks {
		return why(t)
	}
	own, _ := reasonOf(t)
	return shorten(own, longest(t.Phase))
}

// texts say which tasks have each common reason; that of the most tasks is the first.
func (all commonReasons) texts() []string {
	maps.DeleteFunc(all, func(_ commonReason, of *alike) bool { return of.n <= fewTasks })
	reasons := slices.SortedFunc(maps.Keys(all), func(a, b commonReason) int {
		return cmp.Or(cmp.Compare(all[b].n, all[a].n), cmp.Compare(all[a].first[0].Name, all[b].first[0].Name))
	})
	var texts []string
	for _, r := range reasons {
		of := all[r]
		names := list.Map(of.first, func(t apispec.TaskOverview) string { return t.Name })
		_, shared := reasonOf(of.first[0])
		texts = append(texts, fmt.Sprintf("%d tasks are %s (%s and %d more): %s", of.n, r.phase, strings.Join(names, ", "), of.n-fewTasks, shorten(shared, longest(r.phase))))
	}
	return texts
}
