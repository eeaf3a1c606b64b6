package main

import (
	"errors"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// rejectCommand rejects the plan that a task waits with.
type rejectCommand struct {
	*app
	at            decisionFlags
	plan, comment string
}

func (c *rejectCommand) about() about {
	f := c.flagSet("reject")
	c.at.register(f)
	f.StringVar(&c.plan, "plan", "", "The `id` of the plan, or how it begins: another one is not rejected. Default: the plan that waits now.")
	f.StringVar(&c.comment, "comment", "", "Why, as a `text` that is recorded. Required.")
	return about{flags: f, synopsis: "Reject the plan that a task waits with",
		examples: []string{"-comment=\"the servers come back\" load-balancer"}, codes: codesOfStore, args: c.at.predict(c.app, f),
		help: `Usage: terrapulse reject -comment=TEXT [flags] TASK

  Rejects the plan of a task that waits. The task is not planned again until its
  input or definition changes, or a run is requested. With -config-file or
  -store it writes to a store, else it uses the API of a running instance.
`}
}

func (c *rejectCommand) run(arguments []string) int {
	if c.comment == "" {
		return c.fail(exitMissing, errors.New("say why with -comment"))
	}
	return c.decidePlan(&c.at, arguments, apispec.ApprovalDecisionReject, c.plan, c.comment)
}
