package overview

import (
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Phases are all phases, in the order of docs/commands.md. A task is in exactly
// one phase.
var Phases = []apispec.Phase{
	apispec.PhaseNew, apispec.PhaseApplied, apispec.PhaseDrifted, apispec.PhasePending, apispec.PhaseRunning, apispec.PhaseWaiting,
	apispec.PhaseFailing, apispec.PhaseInterrupted, apispec.PhaseCancelled,
	apispec.PhaseHeld, apispec.PhaseUnreadable, apispec.PhaseBlocked, apispec.PhaseCorrupt, apispec.PhaseDisabled, apispec.PhaseRemoved,
}

// setting is what the configuration says of a task.
type setting int

const (
	unknown setting = iota // only the store was read
	enabled
	disabled
	removed // the task is in no configuration
)

// facts are what the phase of a task follows from.
type facts struct {
	name    string
	task    state.Task
	run     state.Run // the task's run that has not ended; zero if its record is gone
	setting setting
	corrupt error // of a record that cannot be decoded
	// resumed says that nothing is paused any more.
	resumed bool
	// unpolled are the tasks of which nothing is known while they wait for a remote run.
	unpolled *state.Unpolled
	// unwatched says that the claim of the run has expired while nobody leads.
	unwatched bool
}

// verdict is a task's phase, why the task is in it, and when it is due.
type verdict struct {
	phase  apispec.Phase
	reason state.Reason
	due    time.Time
}

// assess returns the phase. The record of a task has the reason of the latest
// decision. Changes since that decision count at once: a run that has ended, and
// what people changed through the API.
func (f facts) assess() verdict {
	t := f.task
	switch {
	case f.corrupt != nil:
		return verdict{phase: apispec.PhaseCorrupt, reason: state.Reason{Code: state.ReasonCorrupt, Text: state.Cut(f.corrupt.Error())}}
	case t.Run != nil && (t.OnHold == nil || t.Run.Wait == nil || t.Run.Elsewhere()):
		return f.underWay()
	case f.setting == removed && t.OnRemoval != "" && !t.RemovedAt.IsZero() && t.Reason.Code != state.ReasonRemoved:
		if t.OnHold != nil {
			return f.onHold()
		}
		return f.between() // it is to be destroyed
	case f.setting == removed:
		return f.off(apispec.PhaseRemoved, state.ReasonRemoved, "the task is in no configuration")
	case f.setting == disabled && t.Destroy == nil:
		return f.off(apispec.PhaseDisabled, state.ReasonDisabled, "the task is disabled")
	case t.OnHold != nil && !(f.setting == unknown && (t.Reason.Code == state.ReasonDisabled || t.Reason.Code == state.ReasonRemoved)):
		return f.onHold()
	}
	return f.between()
}

// underWay assesses a task whose run has not ended.
func (f facts) underWay() verdict {
	if wait := f.task.Waits(); wait != nil {
		return f.waiting(*wait)
	}
	v := verdict{phase: apispec.PhaseRunning, reason: f.task.Reason, due: f.task.Due}
	switch f.run.State {
	case state.RunIntended:
		v.phase, v.reason = apispec.PhasePending, f.run.Reason
		v.reason.Text = "a run waits for its turn: " + v.reason.Text
	case state.RunRunning:
		v.reason = f.run.Reason
		if f.unwatched {
			v.reason.Text = fmt.Sprintf("the runner has not renewed its claim, which expired at %s, and nobody leads: the next leader decides whether the run is lost; the run is for: %s",
				f.run.Expires.UTC().Format(time.RFC3339), v.reason.Text)
		}
	}
	return v
}

// off assesses a task that is not to run.
func (f facts) off(phase apispec.Phase, code state.ReasonCode, text string) verdict {
	if f.task.Reason.Code == code {
		return verdict{phase, f.task.Reason, f.task.Due}
	}
	return verdict{phase: phase, reason: state.Reason{Code: code, Text: text}} // no tick has seen it yet
}

// decided are the phases of tasks without a run by the reason of their latest
// decision; "" if the rest of the record says in which phase the task is.
var decided = map[state.ReasonCode]apispec.Phase{
	state.ReasonCorrupt:    apispec.PhaseCorrupt,
	state.ReasonUnreadable: apispec.PhaseUnreadable,
	state.ReasonBlocked:    apispec.PhaseBlocked,
	state.ReasonDisabled:   apispec.PhaseDisabled,
	state.ReasonRemoved:    apispec.PhaseRemoved,
	state.ReasonHeld:       apispec.PhaseHeld,
	state.ReasonRejected:   apispec.PhaseHeld,
	state.ReasonOutside:    apispec.PhaseWaiting,
	state.ReasonReplaced:   apispec.PhaseHeld,
	state.ReasonPaused:     apispec.PhaseHeld,
	state.ReasonRenamed:    apispec.PhaseWaiting,
	state.ReasonCancelled:  apispec.PhaseCancelled,
	state.ReasonQueued:     apispec.PhasePending,
	state.ReasonBuffering:  apispec.PhasePending,
	state.ReasonUnread:     apispec.PhasePending,

	state.ReasonDrift:     "",
	"":                    "", // there was no decision yet
	state.ReasonUnchanged: "",
	state.ReasonBackoff:   "",
	state.ReasonRunning:   "", // the run has ended since
	state.ReasonWaiting:   "",
	state.ReasonOnHold:    "", // the task was released since
	state.ReasonRules:     "", // a run has ended for it, and nothing was decided since

	state.ReasonFirst: "", state.ReasonDefinition: "", state.ReasonChanged: "", state.ReasonSchedule: "", state.ReasonForced: "",
	state.ReasonRetry: "", state.ReasonLost: "", state.ReasonInterrupted: "", state.ReasonDoubt: "", state.ReasonWindow: "", state.ReasonDestroy: "",
}

// between assesses a task that has no run under way.
func (f facts) between() verdict {
	t := f.task
	phase, known := decided[t.Reason.Code]
	if !known {
		phase = apispec.PhasePending // by a newer version; never shown as applied
	}
	in := func(phase apispec.Phase) verdict { return verdict{phase, t.Reason, t.Due} }
	switch phase {
	case apispec.PhaseCorrupt, apispec.PhaseUnreadable, apispec.PhaseBlocked:
		return in(phase)
	case apispec.PhaseHeld:
		if f.resumed && t.Reason.Code == state.ReasonPaused {
			phase, t.Reason = apispec.PhasePending, state.Reason{Code: state.ReasonPaused, Text: "it was paused and is resumed: the next tick decides whether it runs"}
			return in(phase)
		}
	case apispec.PhaseDisabled, apispec.PhaseRemoved:
		if f.setting == unknown {
			return in(phase)
		}
		phase, t.Reason = "", state.Reason{} // the configuration has changed since
	}
	switch t.Reason.Code {
	case state.ReasonRunning, state.ReasonWaiting, state.ReasonOnHold, state.ReasonRules:
		if t.Reason = (state.Reason{}); t.Last != nil {
			t.Reason = t.Last.Reason
		}
	}
	switch {
	case phase == apispec.PhaseWaiting && (len(t.Renamed) == 0 || t.Forced == ""), t.Reason.Code == state.ReasonReplaced, t.Reason.Code == state.ReasonPaused:
		return in(phase) // a requested run waits, too, unless the request says what a new task is
	case t.Destroy != nil && t.Failures == 0:
		if t.Reason.Code != state.ReasonQueued {
			t.Reason = state.Reason{Code: state.ReasonDestroy, Text: t.Destroy.By + " requested that everything that the task has made is destroyed"}
		}
		return in(apispec.PhasePending)
	case t.Forced != "":
		if t.Reason.Code != state.ReasonQueued {
			t.Reason = state.Reason{Code: state.ReasonForced, Text: "a run was requested by " + t.Forced}
		}
		return in(apispec.PhasePending)
	case phase == apispec.PhaseCancelled, phase == apispec.PhaseHeld, phase == apispec.PhaseWaiting:
		return in(phase)
	case t.Failures > 0:
		if t.Due.IsZero() {
			t.Due = t.RetryAt
		}
		return in(apispec.PhaseFailing)
	case t.Interrupted():
		return in(apispec.PhaseInterrupted)
	case t.Reason.Code == state.ReasonBuffering, t.Reason.Code == state.ReasonQueued:
		return in(apispec.PhasePending) // the task will run, also after a cancelled run
	case t.Cancelled() && t.Last.Rejected:
		return in(apispec.PhaseHeld)
	case t.Cancelled():
		return in(apispec.PhaseCancelled)
	case t.Held != nil, t.HoldNext:
		return in(apispec.PhaseHeld)
	case phase == apispec.PhasePending, t.Pending != nil, t.Doubt != "":
		return in(apispec.PhasePending)
	case t.AppliedAt.IsZero():
		return in(apispec.PhaseNew)
	case t.Drifted() != nil:
		return f.drifted(*t.Drifted())
	}
	return in(apispec.PhaseApplied)
}

// Count adds a task, as the latest decision left it, to the counts that the
// metrics show.
func Count(c *state.TaskCounts, t state.Task) {
	phase := (facts{task: t}).assess().phase
	if phase == apispec.PhaseDisabled || phase == apispec.PhaseRemoved {
		return
	}
	if t.Failures > 0 { // also while the task runs again, or is held
		c.Failing++
	}
	if wait := t.Waits(); wait != nil && wait.For == state.WaitApproval && t.Run.Resume == nil {
		c.Approval++ // also if a guard holds it
	}
	switch {
	case phase == apispec.PhaseHeld:
		c.Held++
	case t.Failures > 0:
	case phase == apispec.PhaseDrifted:
		c.Drifted++
	case phase == apispec.PhasePending, phase == apispec.PhaseWaiting, phase == apispec.PhaseInterrupted, phase == apispec.PhaseUnreadable, phase == apispec.PhaseBlocked, phase == apispec.PhaseCorrupt:
		c.Waiting++
	}
}
