package main

import (
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
)

var approvePlan = decisionCommand{
	name: "approve", synopsis: "Approve the plan that a task waits with",
	examples: []string{"load-balancer", "-comment=\"decommissioned, ticket 4711\" load-balancer", "-label site=muc -comment=\"new firewalls, ticket 4713\"", "-all -comment=\"Consul was set up anew, ticket 4712\""},
	all:      "Approve that all tasks lose the entries that a replaced Consul does not have, instead of a plan.",
	label:    "Approve the plans of all tasks with this `label`, as in site=muc, that wait. Repeatable: all must hold.",
	plan:     "The `id` of the plan, or at least its first 8 characters: another one is not approved. Default: the plan that waits now.",
	comment:  "Why, as a `text` that is recorded.",
	usage: `Usage: terrapulse approve [flags] TASK
       terrapulse approve [flags] -label KEY=VALUE
       terrapulse approve [flags] -all

  Approves the plan of a task that waits, and prints what is approved. The task
  applies exactly that. If it has changed meanwhile, the task waits again with
  its new plan. If no plan could be made, the data in Consul alone is approved.
  With -config-file it writes to the store of these files, also if nothing runs
  there, else it uses the API of a running instance.

  -label approves the plans of all tasks with this label: it lists each, with
  what it destroys, and asks. Only the plans that are listed are approved, each
  under the rules of its task. The exit code is 11 if one was not approved.

  After Consul was replaced by one with less data, all tasks that would lose
  entries wait. -all approves that loss at once, as Consul shows it now.
`,
	doAll: func(c *decisionCommand, at door) (int, error) {
		by := userAtHost()
		if err := at.ApproveConsul(c.ctx, apispec.HoldRequest{By: &by, Comment: apiview.Optional(c.given.comment)}); err != nil {
			return 0, err
		}
		return c.printDecision("", by, nil, "Approved. The tasks that waited because Consul was replaced run, if Consul still shows the same.\n"), nil
	},
	doSelected: approveSelected,
	do: func(c *decisionCommand, at door, task string) (int, error) {
		return c.decide(at, task, apispec.ApprovalDecisionApprove)
	},
}
