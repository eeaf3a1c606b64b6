package web

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// action is something that people can do with a task now. It takes two steps: the
// first shows the consequence, the second does it.
type action struct {
	Name        string `json:"name"` // the last part of the path that a request goes to
	Label       string `json:"-"`    // of the first step
	Consequence string `json:"consequence"`
	Confirm     string `json:"-"`                  // the button of the second step
	Tone        string `json:"-"`                  // "primary" for what probably has to be done, "danger" for what cannot be undone
	Comment     bool   `json:"-"`                  // it takes a comment
	Required    bool   `json:"-"`                  // the comment is required, as by the command
	Plan        string `json:"plan,omitempty"`     // the plan that it is about
	Run         string `json:"run,omitempty"`      // the run that it is about
	State       string `json:"-"`                  // of Run, on which the consequence depends
	Also        string `json:"-"`                  // another button, which runs the task, too
	URL         string `json:"-"`                  // that a request goes to
	Disabled    string `json:"disabled,omitempty"` // why it is not possible now; "" if it is
}

// actionsOf returns what people can do with a task now, the most probable first.
func actionsOf(p taskPage) []action {
	t, live := p.Task, p.Task.Run
	all := []action{}
	if p.Plan != nil && live != nil && p.Plan.Approved == nil {
		all = append(all, decisions(p)...)
	}
	exists := p.Definition != nil && t.Phase != apispec.PhaseRemoved && t.Reason.Code != state.ReasonCorrupt
	held := t.OnHold != nil
	stuck := held || selection.WaitsForReplaced(&t) || t.Reason.Code == state.ReasonBlocked || selection.Paused(&t)
	if held {
		all = append(all, action{Name: "release", Label: "Release", Confirm: "Release the task", Tone: "primary",
			Consequence: "The task goes on at once with what Consul shows then. Guards, windows and approvals still apply."})
	}
	if exists && t.Enabled && live == nil && !stuck {
		run := action{Name: "run", Label: "Run now", Confirm: "Run the task",
			Consequence: "The task runs at once, also if nothing has changed, and without the wait after a failure. Guards, windows and approvals still apply."}
		if last := t.LastRun; last != nil && (t.Unverified != nil || last.State == apispec.RunStateFailed || last.State == apispec.RunStateLost || last.State == apispec.RunStateCancelled) {
			run.Tone = "primary"
		}
		all = append(all, run)
	}
	if exists && t.Enabled && !held {
		hold := action{Name: "hold", Label: "Hold", Confirm: "Put on hold", Comment: true,
			Consequence: "Nothing runs until somebody releases the task, whatever changes in Consul."}
		if live != nil && live.State == apispec.RunStateRunning {
			hold.Consequence += " The run that is under way goes on."
		}
		all = append(all, hold)
	}
	if live != nil {
		cancel := action{Name: "cancel", Label: "Cancel the run", Confirm: "Cancel the run", Tone: "danger", Run: live.ID, State: string(live.State),
			Consequence: "Terraform is interrupted, and killed if it has not ended a minute later. What it has changed so far stays changed. The task runs again when its input or definition changes, or when somebody requests a run."}
		if live.State != apispec.RunStateRunning {
			cancel.Tone = ""
			cancel.Consequence = "The run ends and applies nothing. The task runs again when its input or definition changes, or when somebody requests a run."
		}
		all = append(all, cancel)
	}
	if exists {
		all = append(all, planAction(p))
	}
	switch {
	case exists && !t.Enabled && live == nil:
		all = append(all, action{Name: "enable", Label: "Enable", Confirm: "Enable", Also: "Enable and run now",
			Consequence: "The task runs when its input changes next, or at once if you choose so. Guards, windows and approvals apply."})
	case exists && t.Enabled && (live == nil || live.Wait != nil):
		all = append(all, action{Name: "disable", Label: "Disable", Confirm: "Disable the task",
			Consequence: "The task does not run any more until somebody enables it. Everything that it has made stays. A run that waits ends."})
	}
	for i := range all {
		all[i].URL = taskURL(t.Name) + "/" + all[i].Name
	}
	return all
}

// planAction is a plan of the task as it is configured.
func planAction(p taskPage) action {
	plan := action{Name: "plan", Label: "Plan", Confirm: "Plan now",
		Consequence: "Terraform plans the task with what Consul shows now. The page of the plan says what would happen to the task. Nothing is applied."}
	switch {
	case !p.Task.Enabled:
		plan.Disabled = "a task that is disabled is not planned"
	case slices.ContainsFunc(p.Runs, func(r apispec.Run) bool { return r.Kind == apispec.RunKindPlan && r.WhatIf == nil && r.Ended == nil }):
		plan.Disabled = "a plan is being made, see the runs below"
	}
	return plan
}

// roleOf is the role that each action on a task needs.
var roleOf = map[string]roles.Role{
	"approve": roles.Approve, "reject": roles.Approve,
	"run": roles.Operate, "plan": roles.Operate, "cancel": roles.Operate, "hold": roles.Operate, "release": roles.Operate,
	"enable": roles.Administer, "disable": roles.Administer,
}

// permitted returns the actions that a viewer may do, and says which roles the others need; "" if there
// are none.
func permitted(all []action, viewer access.Caller, task string) (may []action, lacks string) {
	may = []action{}
	others := map[roles.Role][]string{}
	for _, a := range all {
		if role := roleOf[a.Name]; viewer.Rights.May(role, task) {
			may = append(may, a)
		} else {
			others[role] = append(others[role], a.Label)
		}
	}
	var needs []string
	for _, role := range roles.All {
		if labels := others[role]; len(labels) > 0 {
			needs = append(needs, fmt.Sprintf("%s needs the role %s", strings.Join(labels, " or "), role))
		}
	}
	if len(needs) > 0 {
		lacks = fmt.Sprintf("You may %s this task. %s.", roles.Words(viewer.Rights.On(task)), strings.Join(needs, "; "))
	}
	return may, lacks
}

// forAll returns what people can do about all tasks now.
func forAll(o apispec.Overview) action {
	if o.Paused != nil {
		return action{Name: "resume", Label: "Resume", Confirm: "Resume all tasks", Tone: "primary", Comment: true, URL: pageURL("resume"),
			Consequence: "Tasks with changes run at once, with what Consul shows then. Guards, windows and approvals still apply."}
	}
	return action{Name: "pause", Label: "Pause", Confirm: "Pause all tasks", Comment: true, URL: pageURL("pause"),
		Consequence: "No run of any task begins until somebody resumes, whatever changes in Consul. Runs that have begun go on, and plans are still made."}
}

// decisions are what people can do with the plan that waits.
func decisions(p taskPage) []action {
	approve := action{Name: "approve", Label: "Approve", Confirm: "Approve this plan", Tone: "primary", Comment: true, Plan: p.Plan.ID}
	approve.Consequence = p.Plan.Consequence()
	if p.Task.Run.Kind == apispec.RunKindDestroy {
		approve.Consequence = "Everything that the task has made is destroyed. " + approve.Consequence
	}
	if lost := p.Plan.resources("destroy", "replace"); lost != "" {
		approve.Tone, approve.Confirm = "danger", "Approve, and "+lost
	}
	if p.Plan.Content.Plan != nil {
		approve.Consequence += " The task applies exactly this plan. If something has changed meanwhile, it waits again."
	}
	return []action{approve, {Name: "reject", Label: "Reject", Confirm: "Reject this plan", Comment: true, Required: true, Plan: p.Plan.ID,
		Consequence: "The run ends and applies nothing. The task is planned again when its input or definition changes, or when somebody requests a run."}}
}
