package selection

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// order returns how the selection compares tasks.
func (s Selection) order() func(a, b *apispec.TaskOverview) int {
	inGroup := s.inGroup()
	if s.Group == "" {
		return inGroup
	}
	return func(a, b *apispec.TaskOverview) int {
		return cmp.Or(compareGroups(Label(a, s.Group), Label(b, s.Group)), inGroup(a, b))
	}
}

// inGroup returns how the selection compares tasks of the same group.
func (s Selection) inGroup() func(a, b *apispec.TaskOverview) int {
	name, reversed := strings.CutPrefix(s.Sort, "-")
	compare := orders[name]
	if compare == nil {
		compare = byName
	}
	if reversed {
		return func(a, b *apispec.TaskOverview) int { return compare(b, a) }
	}
	return compare
}

// arrange brings tasks into the order of the selection. It looks up each label once: for each comparison,
// this would take most of the time of a page.
func (s Selection) arrange(tasks []*apispec.TaskOverview) {
	slices.SortFunc(tasks, s.inGroup())
	if s.Group == "" {
		return
	}
	groups := map[string][]*apispec.TaskOverview{}
	for _, t := range tasks {
		value := Label(t, s.Group)
		groups[value] = append(groups[value], t)
	}
	arranged := tasks[:0]
	for _, value := range slices.SortedFunc(maps.Keys(groups), compareGroups) {
		arranged = append(arranged, groups[value]...)
	}
}

// orders are those of Sorts.
var orders = map[string]func(a, b *apispec.TaskOverview) int{
	"name":  byName,
	"phase": byUrgency,
	"last": func(a, b *apispec.TaskOverview) int {
		return cmp.Or(lastActive(b).Compare(lastActive(a)), byName(a, b))
	},
	"due": func(a, b *apispec.TaskOverview) int {
		switch { // those without a time are last
		case a.Due == nil && b.Due != nil:
			return 1
		case a.Due != nil && b.Due == nil:
			return -1
		}
		return cmp.Or(apispec.Deref(a.Due).Compare(apispec.Deref(b.Due)), byName(a, b))
	},
}

func byName(a, b *apispec.TaskOverview) int { return cmp.Compare(a.Name, b.Name) }

// byUrgency puts what is most urgent first.
func byUrgency(a, b *apispec.TaskOverview) int {
	rank := func(t *apispec.TaskOverview) int { return (Urgency(t) + 9) % 10 } // 0 is the last
	return cmp.Or(cmp.Compare(rank(a), rank(b)), byName(a, b))
}

// lastActive is when the latest run of a task ended, as exactly as the summary of all tasks says it; that
// of a live one began later.
func lastActive(t *apispec.TaskOverview) time.Time {
	at := apispec.Deref(apispec.Deref(t.LastRun).Ended)
	if t.Run != nil {
		at = t.Run.Created
	}
	return at.Truncate(time.Millisecond)
}

// Urgency orders what needs a person, from 1; it is 0 for a task that needs nobody.
func Urgency(t *apispec.TaskOverview) int {
	switch {
	case lifecycle.Phase(t.Phase).Tone() == lifecycle.Bad:
		return 1
	case Deciding(t):
		return 2
	case Paused(t), WaitsForReplaced(t):
		return 0 // an alert says so of all tasks
	case t.NeedsPerson:
		return 3
	case t.Reason.Code == state.ReasonCancelled:
		return 0 // a person has ended a run, and has decided nothing about the task
	case t.Phase == apispec.PhaseStopped && t.Enabled, t.Phase == apispec.PhaseDrifted:
		return 4
	}
	return 0
}

// Deciding reports whether a plan of the task waits to be approved.
func Deciding(t *apispec.TaskOverview) bool {
	return t.Run != nil && t.Run.Wait != nil && t.Run.Wait.For == apispec.WaitForApproval
}

// Paused reports whether the task would run, and everything is paused.
func Paused(t *apispec.TaskOverview) bool {
	return t.Phase == apispec.PhaseStopped && t.Reason.Code == state.ReasonPaused
}

// WaitsForReplaced reports whether a replaced Consul holds the task.
func WaitsForReplaced(t *apispec.TaskOverview) bool {
	return t.Reason.Code == state.ReasonReplaced
}

// What is what changed in Consul, if the reason of the task does not say it.
func What(t *apispec.TaskOverview) string {
	switch {
	case t.Changed != nil && !strings.Contains(t.Reason.Text, *t.Changed):
		return *t.Changed
	case t.Phase == apispec.PhaseFailing && t.LastRun != nil && t.LastRun.Reason.Code == state.ReasonChanged:
		return t.LastRun.Reason.Text // it is retried
	}
	return ""
}
