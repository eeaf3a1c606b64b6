// Package lifecycle has the states of a task: for each reason whether a task runs for it,
// in which phase the task is, and whether it needs a person. What people see of a task,
// in pages, API, command line, metrics and messages, comes from this package.
package lifecycle

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

//go:generate go test -run Docs_TablesAreCurrent -args -update

// Phase is what people see of a task at first sight. A task is in exactly one phase.
type Phase string

// The phases.
const (
	Applied    Phase = "applied"
	Soon       Phase = "soon"
	Running    Phase = "running"
	Waiting    Phase = "waiting"
	Stopped    Phase = "stopped"
	Failing    Phase = "failing"
	Unreadable Phase = "unreadable"
	Drifted    Phase = "drifted"
	Unverified Phase = "unverified"
	Removed    Phase = "removed"
)

// Tone is what a phase means to people at first sight: its color.
type Tone string

// The tones.
const (
	Calm   Tone = "calm"
	Good   Tone = "good"
	Busy   Tone = "busy"
	Ask    Tone = "ask" // a person decides
	Bad    Tone = "bad"
	Absent Tone = "absent"
)

// Tone returns the tone of a phase; "" of one of a newer version.
func (p Phase) Tone() Tone { return p.row().Tone }

func (p Phase) row() PhaseRow {
	for _, row := range Phases {
		if row.Phase == p {
			return row
		}
	}
	return PhaseRow{}
}

// PhaseRow is what a phase means.
type PhaseRow struct {
	Phase   Phase
	Tone    Tone
	Counted bool // in metrics
	Means   string
}

// Phases are all phases with what they mean, in the order in which documents list them.
var Phases = []PhaseRow{
	{Applied, Good, false, "The data that was read last is applied."},
	{Soon, Busy, true, "It will run without a person: immediately, after its buffer period, in its window, or when a slot is free."},
	{Running, Busy, false, "A run is under way, here or in another system."},
	{Waiting, Ask, true, "It waits for a person: for an approval, for a decision about another run in its workspace in HCP Terraform, or for a decision after Consul was replaced or the task was perhaps renamed. Or it waits for another task for longer than its `after_timeout`."},
	{Stopped, Calm, true, "A person has stopped it: it is disabled, on hold or paused, or its plan was rejected, its run cancelled, or its infrastructure destroyed. Or it was created or enabled without a run."},
	{Failing, Bad, true, "Its latest run failed, until a run succeeds, also while the retry runs, waits or is stopped. Or the task cannot run until somebody removes the cause."},
	{Unreadable, Bad, false, "Consul does not show the data that it watches."},
	{Drifted, Ask, true, "Its infrastructure differs from what was applied last."},
	{Unverified, Bad, true, "Its latest run has applied everything, but a verification has not passed, until one passes, also while the task is stopped."},
	{Removed, Absent, false, "It is not in the configuration any more."},
}

// Summary returns how many tasks are in each phase, by the names of the tasks. It fails if a phase is bad.
func Summary(tasks map[Phase][]string) (string, error) {
	var phases, wrong []string
	for _, p := range Phases {
		names := tasks[p.Phase]
		if len(names) == 0 {
			continue
		}
		phases = append(phases, fmt.Sprintf("%d %s", len(names), p.Phase))
		if p.Tone == Bad {
			wrong = append(wrong, fmt.Sprintf("%s: %s", p.Phase, strings.Join(names, ", ")))
		}
	}
	found := strings.Join(phases, ", ")
	if len(wrong) > 0 {
		return "", fmt.Errorf("%s (%s)", found, strings.Join(wrong, "; "))
	}
	return found, nil
}

// Row is what a reason means.
type Row struct {
	Code   state.ReasonCode
	Runs   bool  // the task runs for this reason
	Phase  Phase // of a task whose latest decision had this reason and that has no run; "" if the rest of its record says it
	Person bool  // it needs a person; other tasks of the phase may not
	// Refuses says that also a run that was approved or resumed does not continue.
	Refuses bool
	// Waits says that a requested run begins only when a person or a window lets it: who
	// waits for the run is told so.
	Waits bool
	// Behind says that the run waits for another task, which state.After names.
	Behind bool
	// Starts says that a run begins when the task is decided on next, if nothing changes.
	Starts bool
	// Passes says that it ends by itself, after about the time of a run.
	Passes bool
	// Stops says that a person has stopped the task, or has to say first what it is: a request for all
	// tasks does not run it.
	Stops bool
	// Found says that only a tick finds it out: the task's record and definition do not say it.
	Found bool
	// Off says that the task is not meant to run at all.
	Off   bool
	Means string // why the task runs, or does not, as the end of a sentence
	Until string // when a task runs that does not run for this reason
}

// AwaitsPeople reports whether a requested run of a task without one begins only when a person or a window
// lets it: its own run, or that of a task that comes before.
func AwaitsPeople(t state.Task) bool {
	row := RowOf(t.Reason.Code)
	return row.Waits || row.Behind && t.After != nil && t.After.Stuck
}

// RowOf returns the row of a reason. The task of a reason that is unknown, as one of a
// newer version, will run: it is never shown as applied.
func RowOf(code state.ReasonCode) Row {
	if row, ok := rows[code]; ok {
		return row
	}
	return Row{Code: code, Phase: Soon}
}

var rows = func() map[state.ReasonCode]Row {
	all := map[state.ReasonCode]Row{"": {}} // there was no decision yet
	for _, row := range Reasons {
		all[row.Code] = row
	}
	return all
}()

// Reasons are the rows of all reasons, in the order of docs/reference/reasons.md, whose tables are
// made from them.
var Reasons = []Row{
	{Code: state.ReasonFirst, Runs: true, Means: "it was never applied."},
	{Code: state.ReasonDefinition, Runs: true, Means: "its definition (block, module, variables, providers) has changed since the last apply."},
	{Code: state.ReasonChanged, Runs: true, Means: "the data in Consul has changed since the last apply."},
	{Code: state.ReasonSchedule, Runs: true, Means: "its schedule is due, and there is something to apply."},
	{Code: state.ReasonForced, Runs: true, Means: "somebody requested a run: a person, or `-once`."},
	{Code: state.ReasonRetry, Runs: true, Means: "its latest run failed. `attempt` counts the retries."},
	{Code: state.ReasonLost, Runs: true, Means: "the runner of its latest run died."},
	{Code: state.ReasonInterrupted, Runs: true, Means: "its latest run was interrupted, such as by a deployment."},
	{Code: state.ReasonDoubt, Runs: true, Means: "a run that was given up has perhaps applied changes."},
	{Code: state.ReasonWindow, Runs: true, Means: "its run waited for its window, which is open now."},
	{Code: state.ReasonDrift, Runs: true, Means: "its infrastructure has drifted, and `drift` has `action: apply`."},
	{Code: state.ReasonUnverified, Runs: true, Means: "the verification of its latest run was interrupted."},
	{Code: state.ReasonDestroy, Runs: true, Means: "it was removed and has `on_removal: destroy`, or somebody requested its destroy."},
	{Code: state.ReasonUnchanged, Starts: true,
		Means: "nothing has changed since the last apply, or its schedule is not due.",
		Until: "something changes, or its schedule is due"},
	{Code: state.ReasonRunning, Passes: true,
		Means: "a run is under way.",
		Until: "the run has ended, and there is more to do"},
	{Code: state.ReasonWaiting,
		Means: "its run waits for an approval, its window, or a run of another system.",
		Until: "the run is resumed or replaced"},
	{Code: state.ReasonQueued, Phase: Soon, Starts: true, Passes: true,
		Means: "its run waits for a slot, or its launch could not be started.",
		Until: "a slot is free; the longest due task is first"},
	{Code: state.ReasonBuffering, Phase: Soon, Starts: true, Passes: true,
		Means: "its condition has changed, and its buffer period is not over.",
		Until: "the period is over"},
	{Code: state.ReasonBackoff, Starts: true,
		Means: "its latest run failed. Or more than 10 runs in a row seem to have changed themselves what the task watches.",
		Until: "a pause of at most 15 minutes is over, or its local module is changed"},
	{Code: state.ReasonHeld, Phase: Stopped, Stops: true,
		Means: "it was created or enabled without a run.",
		Until: "its condition or definition changes, or a run is requested"},
	{Code: state.ReasonDestroyed, Phase: Stopped, Stops: true,
		Means: "a person requested the destroy of its infrastructure.",
		Until: "its definition changes, or a run is requested"},
	{Code: state.ReasonOnHold, Stops: true,
		Means: "a person has put it on hold.",
		Until: "somebody releases it: `terrapulse release TASK`"},
	{Code: state.ReasonPaused, Phase: Stopped, Refuses: true, Waits: true,
		Means: "a person has paused all tasks, or a new deployment in AWS begins paused.",
		Until: "somebody resumes: `terrapulse resume`"},
	{Code: state.ReasonOutside, Phase: Soon, Refuses: true, Waits: true, Starts: true,
		Means: "no window of the task is open, or a window denies the change.",
		Until: "its window opens, at the time in the sentence"},
	{Code: state.ReasonAfter, Phase: Soon, Refuses: true, Behind: true,
		Means: "a task in its [`after`](../order.md) is not at rest.",
		Until: "its predecessors have applied everything; for a destroy, its successors are destroyed"},
	{Code: state.ReasonRules,
		Means: "the rules of its waiting run have changed.",
		Until: "the next tick decides again"},
	{Code: state.ReasonCancelled, Phase: Stopped, Starts: true, Stops: true,
		Means: "somebody cancelled its latest run.",
		Until: "its condition or definition changes, its schedule is due, or a run is requested"},
	{Code: state.ReasonRejected, Phase: Stopped, Starts: true, Stops: true,
		Means: "a person rejected its plan.",
		Until: "its input (with a schedule, at its next time) or definition changes, or a run is requested"},
	{Code: state.ReasonDisabled, Phase: Stopped, Off: true,
		Means: "it is disabled.",
		Until: "it is enabled"},
	{Code: state.ReasonRemoved, Phase: Removed, Off: true,
		Means: "it is not in the configuration [any more](../removal.md#removal).",
		Until: "it is in the configuration again"},
	{Code: state.ReasonBlocked, Phase: Failing, Person: true, Refuses: true, Found: true,
		Means: "it cannot run on the leader, or it was removed and cannot be destroyed.",
		Until: "the cause is gone"},
	{Code: state.ReasonReplaced, Phase: Waiting, Person: true, Refuses: true, Waits: true, Found: true,
		Means: "[Consul was emptied or replaced](../trust.md#a-consul-that-was-replaced), and the task would lose entries.",
		Until: "the entries are back, or somebody approves the loss: `terrapulse approve -all`"},
	{Code: state.ReasonRenamed, Phase: Waiting, Person: true, Stops: true, Found: true,
		Means: "it is perhaps [a removed task under a new name](../removal.md#a-task-that-is-renamed), or the state of its `moved_from` cannot be moved yet.",
		Until: "`moved_from` names the removed task, or a run is requested (it is a new task)"},
	{Code: state.ReasonUnsaved, Phase: Failing, Person: true, Refuses: true, Found: true,
		Means: "the backend did not accept its latest state, and [the instance that keeps it](../high-availability.md#a-state-that-could-not-be-saved) is missing.",
		Until: "that instance is back, or a run is requested, whose plan waits for an approval"},
	{Code: state.ReasonUnreadable, Phase: Unreadable, Refuses: true, Found: true,
		Means: "Consul does not answer, or does not show its data.",
		Until: "its condition can be read"},
	{Code: state.ReasonUnread, Phase: Soon, Passes: true,
		Means: "its condition has not been read yet.",
		Until: "the next tick reads it"},
	{Code: state.ReasonCorrupt, Phase: Failing, Person: true, Refuses: true,
		Means: "one of its records in the store cannot be decoded.",
		Until: "the record is repaired, or removed with `terrapulse forget`"},
}
