// Package verdict says what would happen to a task if Consul's data were other than it is:
// the verdict of a what-if. It does no I/O. It asks the admission rules of package decide,
// and the rules of the task, which judge runs, too.
package verdict

import (
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Case is what is known of a task under a what-if.
type Case struct {
	Task       *config.Task
	Definition string        // digest of the task's definition
	State      state.Task    // its record; zero if there is no store
	Paused     *state.Paused // as in decide.Input
	// Condition is the digest of what the condition would show.
	Condition string
	// Causes are why the plan, or without a plan the input, would need an approval.
	Causes []state.Cause
	// Removals says that the change would only take entries away.
	Removals bool

	Changes *state.Changes // of the plan
	Err     error          // why there is no plan, or why it must not be applied at all
	Now     time.Time
}

// Planned returns the case with the changes of a plan, or with why there is no plan. If the plan changes
// something, causes says why it needs an approval, or why it must not be applied at all.
func (c Case) Planned(changes *state.Changes, failed error, causes func() ([]state.Cause, error)) Case {
	if c.Err = failed; failed != nil {
		return c
	}
	if c.Changes = changes; !changes.Any() {
		return c
	}
	found, err := causes()
	if c.Err = err; err == nil {
		c.Causes = found
	}
	return c
}

// Of returns what would happen to the task. It knows only this task: what those that it comes after
// would do is for apiview.InOrder.
func Of(c Case) state.Verdict {
	v := c.judged()
	stop, later, keeps := c.admitted()
	switch {
	case v.Outcome == state.WouldNotChange:
		v.Keeps = keeps
	case stop != "":
		v = state.Verdict{Outcome: state.WouldStop, Text: fmt.Sprintf("would not run: %s; after that it %s", stop, v.Text), Causes: v.Causes}
	case later != "" && v.Outcome == state.WouldApply:
		v = state.Verdict{Outcome: state.WouldLater, Text: fmt.Sprintf("would change nothing now, and its next run would apply it: %s (%s)", c.Changes.ToDo(), later), Keeps: keeps}
	}
	v.Text = state.Cut(v.Text)
	return v
}

// judged is the verdict of the rules about a plan.
func (c Case) judged() state.Verdict {
	switch {
	case c.Err != nil && len(c.Causes) > 0 && c.Changes == nil:
		causes := append(c.Causes[:len(c.Causes):len(c.Causes)], state.Cause{Rule: state.RuleInputGuard, Text: "there is no plan to show: " + state.Cut(c.Err.Error())})
		return state.Verdict{Outcome: state.WouldHold, Text: "would be held: " + state.Said(causes), Causes: causes}
	case c.Err != nil:
		return state.Verdict{Outcome: state.WouldFail, Text: "would fail: " + c.Err.Error()}
	case c.Changes == nil:
		return state.Verdict{Outcome: state.WouldFail, Text: "would fail: the driver shows no plan"}
	case !c.Changes.Any() && !c.replaced():
		return state.Verdict{Outcome: state.WouldNotChange, Text: "no change: the plan has nothing to apply"}
	case len(c.Causes) > 0:
		for _, cause := range c.Causes {
			if cause.Rule != state.RuleApproval {
				return state.Verdict{Outcome: state.WouldHold, Text: "would be held: " + state.Said(c.Causes), Causes: c.Causes}
			}
		}
		return state.Verdict{Outcome: state.WouldApprove, Text: "would wait for an approval: " + state.Said(c.Causes), Causes: c.Causes}
	}
	if times := window.Judge(c.Task.Windows, window.Change{Action: window.Apply, Removals: c.Removals}, c.Now); !times.Open {
		return state.Verdict{Outcome: state.WouldWindow, Text: fmt.Sprintf("would wait for its window: %s (it is %s)", c.Changes.ToDo(), times.Text)}
	}
	after := ""
	if len(c.Task.After) > 0 {
		after = " after " + strings.Join(c.Task.After, ", ")
	}
	return state.Verdict{Outcome: state.WouldApply, Text: "would be applied" + after + ": " + c.Changes.ToDo()}
}

// replaced reports whether a tick would hold the task because Consul was replaced: before there is a plan.
func (c Case) replaced() bool { return state.Wait{Causes: c.Causes}.Has(state.RuleReplaced) }

// admitted says why the task would not run, or why nothing would trigger it yet; and why it would keep those
// waiting that come after it, should it have nothing to apply.
func (c Case) admitted() (stop, later, keeps string) {
	t := *c.Task
	t.BufferPeriod.Enabled, t.Windows, t.After = false, nil, nil // a buffer period is over soon; judged has the windows, and apiview.InOrder the order
	s := c.State.WithoutRun()
	s.DropRequests()
	s.Pending, s.Observed.Recheck = nil, false
	d := decide.Decide([]decide.Input{{Task: &t, Definition: c.Definition, State: s, Paused: c.Paused,
		Reading: decide.Reading{Observed: &decide.Observed{Digest: c.Condition}}}}, c.Now)[0]
	switch keeps = decide.Keeps(d); {
	case d.Action == decide.Run:
		return "", "", keeps
	case d.Reason.Code == state.ReasonUnchanged:
		return "", d.Reason.Text, keeps
	}
	return d.Reason.Text, "", keeps
}
