package overview

import (
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/state"
)

// Phase is what a task is doing, in one word. A task is in exactly one phase.
type Phase string

// The phases. docs/commands.md says what each of them means.
const (
	PhaseNew         Phase = "new"
	PhaseApplied     Phase = "applied"
	PhasePending     Phase = "pending"
	PhaseRunning     Phase = "running"
	PhaseWaiting     Phase = "waiting"
	PhaseFailing     Phase = "failing"
	PhaseInterrupted Phase = "interrupted"
	PhaseCancelled   Phase = "cancelled"
	PhaseHeld        Phase = "held"
	PhaseUnreadable  Phase = "unreadable"
	PhaseBlocked     Phase = "blocked"
	PhaseCorrupt     Phase = "corrupt"
	PhaseDisabled    Phase = "disabled"
	PhaseRemoved     Phase = "removed"
)

// Phases are all phases.
var Phases = []Phase{
	PhaseNew, PhaseApplied, PhasePending, PhaseRunning, PhaseWaiting, PhaseFailing, PhaseInterrupted, PhaseCancelled,
	PhaseHeld, PhaseUnreadable, PhaseBlocked, PhaseCorrupt, PhaseDisabled, PhaseRemoved,
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
	task    state.Task
	run     state.Run // the task's run that has not ended; zero if its record is gone
	setting setting
	corrupt error // of a record that cannot be decoded
	// unwatched says that the claim of the run has expired while nobody leads.
	unwatched bool
}

// verdict is a task's phase, why the task is in it, and when it is due.
type verdict struct {
	phase  Phase
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
		return verdict{phase: PhaseCorrupt, reason: state.Reason{Code: state.ReasonCorrupt, Text: state.Cut(f.corrupt.Error())}}
	case t.Run != nil:
		return f.underWay()
	case f.setting == removed:
		return f.off(PhaseRemoved, state.ReasonRemoved, "the task is in no configuration")
	case f.setting == disabled:
		return f.off(PhaseDisabled, state.ReasonDisabled, "the task is disabled")
	}
	return f.between()
}

// underWay assesses a task whose run has not ended.
func (f facts) underWay() verdict {
	if wait := f.task.Waits(); wait != nil {
		reason := state.Reason{Code: state.ReasonWaiting, Text: wait.String()}
		if resume := f.task.Run.Resume; resume != nil {
			reason.Text += "; resumed by " + resume.By
		}
		return verdict{PhaseWaiting, reason, wait.Until}
	}
	v := verdict{phase: PhaseRunning, reason: f.task.Reason, due: f.task.Due}
	switch f.run.State {
	case state.RunIntended:
		v.phase, v.reason = PhasePending, f.run.Reason
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
func (f facts) off(phase Phase, code state.ReasonCode, text string) verdict {
	if f.task.Reason.Code == code {
		return verdict{phase, f.task.Reason, f.task.Due}
	}
	return verdict{phase: phase, reason: state.Reason{Code: code, Text: text}} // no tick has seen it yet
}

// decided are the phases of tasks without a run by the reason of their latest
// decision; "" if the rest of the record says in which phase the task is.
var decided = map[state.ReasonCode]Phase{
	state.ReasonCorrupt:    PhaseCorrupt,
	state.ReasonUnreadable: PhaseUnreadable,
	state.ReasonBlocked:    PhaseBlocked,
	state.ReasonDisabled:   PhaseDisabled,
	state.ReasonRemoved:    PhaseRemoved,
	state.ReasonHeld:       PhaseHeld,
	state.ReasonCancelled:  PhaseCancelled,
	state.ReasonQueued:     PhasePending,
	state.ReasonBuffering:  PhasePending,
	state.ReasonUnread:     PhasePending,

	"":                    "", // there was no decision yet
	state.ReasonUnchanged: "",
	state.ReasonBackoff:   "",
	state.ReasonRunning:   "", // the run has ended since
	state.ReasonWaiting:   "",

	state.ReasonFirst: "", state.ReasonDefinition: "", state.ReasonChanged: "", state.ReasonSchedule: "", state.ReasonForced: "",
	state.ReasonRetry: "", state.ReasonLost: "", state.ReasonInterrupted: "", state.ReasonDoubt: "",
}

// between assesses a task that has no run under way.
func (f facts) between() verdict {
	t := f.task
	phase, known := decided[t.Reason.Code]
	if !known {
		phase = PhasePending // by a newer version; never shown as applied
	}
	in := func(phase Phase) verdict { return verdict{phase, t.Reason, t.Due} }
	switch phase {
	case PhaseCorrupt, PhaseUnreadable, PhaseBlocked:
		return in(phase)
	case PhaseDisabled, PhaseRemoved:
		if f.setting == unknown {
			return in(phase)
		}
		phase, t.Reason = "", state.Reason{} // the configuration has changed since
	}
	if t.Reason.Code == state.ReasonRunning || t.Reason.Code == state.ReasonWaiting {
		if t.Reason = (state.Reason{}); t.Last != nil {
			t.Reason = t.Last.Reason
		}
	}
	switch {
	case t.Forced != "":
		if t.Reason.Code != state.ReasonQueued {
			t.Reason = state.Reason{Code: state.ReasonForced, Text: "a run was requested by " + t.Forced}
		}
		return in(PhasePending)
	case phase == PhaseCancelled, phase == PhaseHeld:
		return in(phase)
	case t.Failures > 0:
		if t.Due.IsZero() {
			t.Due = t.RetryAt
		}
		return in(PhaseFailing)
	case t.Interrupted():
		return in(PhaseInterrupted)
	case t.Reason.Code == state.ReasonBuffering, t.Reason.Code == state.ReasonQueued:
		return in(PhasePending) // the task will run, also after a cancelled run
	case t.Cancelled():
		return in(PhaseCancelled)
	case t.Held != nil, t.HoldNext:
		return in(PhaseHeld)
	case phase == PhasePending, t.Pending != nil, t.Doubt != "":
		return in(PhasePending)
	case t.AppliedAt.IsZero():
		return in(PhaseNew)
	}
	return in(PhaseApplied)
}

// Count adds a task, as the latest decision left it, to the counts that the
// metrics show.
func Count(c *state.TaskCounts, t state.Task) {
	switch phase := (facts{task: t}).assess().phase; {
	case phase == PhaseDisabled, phase == PhaseRemoved:
	case t.Failures > 0: // also while the task runs again
		c.Failing++
	case phase == PhaseHeld:
		c.Held++
	case phase == PhasePending, phase == PhaseWaiting, phase == PhaseInterrupted, phase == PhaseUnreadable, phase == PhaseBlocked, phase == PhaseCorrupt:
		c.Waiting++
	}
}
