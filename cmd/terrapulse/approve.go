package main

import "github.com/terrapulse/terrapulse/internal/apispec"

var approvePlan = decisionCommand{
	name: "approve", synopsis: "Approve the plan that a task waits with",
	examples: []string{"load-balancer", "-comment=\"decommissioned, ticket 4711\" load-balancer"},
	plan:     "The `id` of the plan, or how it begins: another one is not approved. Default: the plan that waits now.",
	comment:  "Why, as a `text` that is recorded.",
	usage: `Usage: terrapulse approve [flags] TASK

  Approves the plan of a task that waits, and prints what is approved. The task
  plans again and applies the new plan only if it is the same; otherwise it
  waits again. With -config-file it writes to the store of these files, also
  if nothing runs there, else it uses the API of a running instance.
`,
	do: func(c *decisionCommand, at decisions, task string) (int, error) {
		return c.decide(at, task, apispec.ApprovalDecisionApprove)
	},
}
