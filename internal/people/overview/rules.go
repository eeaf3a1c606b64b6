package overview

import (
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/policycheck"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// windowsOf says when changes of a task may be applied; nil if they may at any time.
func windowsOf(windows []window.Window, now time.Time) *apispec.TaskWindows {
	if len(windows) == 0 {
		return nil
	}
	status := window.StatusAt(windows, window.Change{Action: window.Apply}, now)
	shown := &apispec.TaskWindows{Open: status.Open, Until: apiview.Moment(status.Until), Text: status.Text}
	for i := range windows {
		w := &windows[i]
		shown.Windows = append(shown.Windows, apispec.TaskWindow{Kind: apispec.WindowKind(w.Kind), Inside: w.Inside(now), Text: w.String()})
	}
	return shown
}

// guardsOf returns the limits in force for what is applied without an approval, with
// what is there now, and the checks; nil if there are none.
func guardsOf(d *config.Task, f facts, now time.Time) *[]apispec.TaskGuard {
	var shown []apispec.TaskGuard
	for _, l := range d.Guard.Limits(guard.Known{Counts: f.counts(), Waiting: f.planned(), Had: f.Task.Applied.Sizes, Now: now}) {
		g := apispec.TaskGuard{Key: l.Key, Limit: &l.Value, Exceeded: &l.Exceeded, Text: l.Text, Within: new(d.Guard.Within.Seconds())}
		if l.Count != nil {
			g.Of, g.Base, g.Applied, g.Now = &l.Count.Of, &l.Base, &l.Count.Applied, &l.Count.Now
		}
		if l.Key == "on_empty" {
			g.Limit = nil
		}
		shown = append(shown, g)
	}
	for _, c := range policycheck.Active(d.Checks) {
		shown = append(shown, apispec.TaskGuard{Key: "check", Text: c.String()})
	}
	if len(shown) == 0 {
		return nil
	}
	return &shown
}

// counts returns how many entries each source of the task has, as the latest run or,
// for the condition, the latest tick has read them.
func (f facts) counts() []state.Count {
	counts := slices.Clone(f.Task.Applied.Counts)
	for i := range counts {
		c := &counts[i]
		switch pending := f.Task.Pending; {
		case !c.Triggers:
		case f.Task.Observed.Digest == f.Task.Applied.Digest:
			c.Now = c.Applied
		case pending != nil && pending.Entries != nil:
			c.Now = c.Applied + pending.Entries.Added - pending.Entries.Removed
		}
	}
	return counts
}

// planned are the numbers of the plan that waits; nil if none waits.
func (f facts) planned() *guard.Planned {
	wait := f.Task.Waits()
	if wait == nil || wait.Content == nil || f.Run.Changes == nil {
		return nil
	}
	return &guard.Planned{Changes: *f.Run.Changes, InState: f.Run.InState, State: wait.Content.State}
}
