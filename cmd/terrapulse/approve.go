package main

import "github.com/terrapulse/terrapulse/internal/apispec"

// approveCommand approves the plan that a task waits with.
type approveCommand struct {
	*app
	at            decisionFlags
	plan, comment string
}

func (c *approveCommand) about() about {
	f := c.flagSet("approve")
	c.at.register(f)
	f.StringVar(&c.plan, "plan", "", "The `id` of the plan, or how it begins: another one is not approved. Default: the plan that waits now.")
	f.StringVar(&c.comment, "comment", "", "Why, as a `text` that is recorded.")
	return about{flags: f, synopsis: "Approve the plan that a task waits with",
		examples: []string{"load-balancer", "-comment=\"decommissioned, ticket 4711\" load-balancer"}, codes: codesOfStore, args: c.at.predict(c.app, f),
		help: `Usage: terrapulse approve [flags] TASK

  Approves the plan of a task that waits, and prints what is approved. The task
  plans again and applies the new plan only if it is the same; otherwise it
  waits again. With -config-file it writes to the store of these files, also
  if nothing runs there, else it uses the API of a running instance.
`}
}

func (c *approveCommand) run(arguments []string) int {
	return c.decidePlan(&c.at, arguments, apispec.ApprovalDecisionApprove, c.plan, c.comment)
}
