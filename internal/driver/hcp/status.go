package hcp

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// The statuses of a run that the driver decides on.
const (
	statusApplied       = "applied"
	statusPostApplied   = "post_apply_completed"
	statusNoChanges     = "planned_and_finished"
	statusErrored       = "errored"
	statusDiscarded     = "discarded"
	statusCancelled     = "canceled"
	statusForceCanceled = "force_canceled"
	statusSoftFailed    = "policy_soft_failed" // the end of a run that only plans
	statusPending       = "pending"
)

// final are the statuses of a run that has ended.
var final = []string{statusApplied, statusPostApplied, statusNoChanges, statusErrored, statusDiscarded, statusCancelled, statusForceCanceled}

// applying are the statuses of a run whose plan was confirmed.
var applying = []string{"confirmed", "queuing_apply", "apply_queued", "pre_apply_running", "pre_apply_completed", "pre_apply_awaiting_decision",
	"applying", "post_apply_running", "post_apply_awaiting_decision"}

// planning are the statuses before that, and what they mean to people.
var planning = map[string]string{
	statusPending: "", "fetching": "", "fetching_completed": "", "queuing": "", "plan_queued": "it waits for its turn in the organization, or for an agent",
	"pre_plan_running": "", "pre_plan_completed": "", "pre_plan_awaiting_decision": override, "planning": "", "planned": "", "cost_estimating": "", "cost_estimated": "",
	"policy_checking": "", "policy_checked": "", "post_plan_running": "", "post_plan_completed": "", "planned_and_saved": "",
	"policy_override": override, statusSoftFailed: override, "post_plan_awaiting_decision": override,
}

// decision are the statuses of a confirmed run that waits for a person.
var decision = map[string]string{
	"pre_apply_awaiting_decision":  "a run task refuses the apply: override it in HCP Terraform, or discard the run",
	"post_apply_awaiting_decision": "a run task objects to what was applied: decide in HCP Terraform",
}

// override is what a person has to do about a policy or a run task that refuses the plan.
const override = "a policy or a run task refuses the plan: override it in HCP Terraform, or discard the run"

// phaseOf returns how far a run has come. A plan can be confirmed if HCP Terraform says so,
// whatever the status is called. A run with an unknown status goes on.
func phaseOf(r Run) state.RemotePhase {
	switch {
	case slices.Contains(final, r.Status), r.PlanOnly && r.Status == statusSoftFailed:
		return state.RemoteEnded
	case r.Confirmable:
		return state.RemoteReady
	case slices.Contains(applying, r.Status):
		return state.RemoteApplying
	default:
		return state.RemotePlanning
	}
}

// succeeded reports whether a run has applied its plan.
func succeeded(r Run) bool { return r.Status == statusApplied || r.Status == statusPostApplied }

// begun reports whether a run has begun to apply its plan, however that ended.
func begun(r Run) bool {
	return phaseOf(r) == state.RemoteApplying || succeeded(r) || r.Apply.Status == statusErrored || r.Apply.Status == statusCancelled
}

// known reports whether the status is one that the driver knows.
func known(status string) bool {
	_, early := planning[status]
	return early || slices.Contains(final, status) || slices.Contains(applying, status)
}

// textOf says why a run does not go on, as far as the run itself shows it.
func textOf(r Run) string {
	switch why := cmp.Or(planning[r.Status], decision[r.Status]); {
	case r.Status == statusPending && r.Locked:
		return fmt.Sprintf("pending: the workspace %s is locked", r.Name)
	case why != "":
		return r.Status + ": " + why
	case phaseOf(r) == state.RemotePlanning && r.Status == statusPending && r.Position > 0:
		return fmt.Sprintf("pending: it is number %d in the queue of the organization", r.Position)
	default:
		return r.Status
	}
}

// lockedText says who has locked the workspace of a pending run. Only a person can unlock it:
// the lock of a run ends with that run.
func lockedText(r Run, ws Workspace) string {
	switch {
	case !ws.Locked || ws.LockedBy == "":
		return textOf(r)
	case ws.LockedByRun:
		return fmt.Sprintf("pending: the run %s of the same workspace is first: if it waits, confirm or discard it in HCP Terraform", ws.LockedBy)
	}
	return fmt.Sprintf("pending: the workspace %s is locked by %s: unlock it in HCP Terraform", ws.Name, ws.LockedBy)
}

// logUnknown logs a status that the driver does not know, once.
func (d *Driver) logUnknown(r Run) {
	if known(r.Status) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.unknown[r.Status] {
		d.unknown[r.Status] = true
		d.Log.Warn("HCP Terraform has a run with a status that this version does not know: it counts as one that goes on", "remote_run", r.ID, "status", r.Status)
	}
}
