package main

import (
	"errors"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

var rejectPlan = decisionCommand{
	name: "reject", synopsis: "Reject the plan that a task waits with",
	examples: []string{"-comment=\"the servers come back\" load-balancer"},
	plan:     "The `id` of the plan, or at least its first 8 characters: another one is not rejected. Default: the plan that waits now.",
	comment:  "Why, as a `text` that is recorded. Required.",
	usage: `Usage: terrapulse reject -comment=TEXT [flags] TASK

  Rejects the plan of a task that waits. The task is not planned again until its
  input or definition changes, or a run is requested. With -config-file or
  -store it writes to a store, else it uses the API of a running instance.
`,
	do: func(c *decisionCommand, at door, task string) (int, error) {
		if c.given.comment == "" {
			return c.fail(exitMissing, errors.New("say why with -comment")), nil
		}
		return c.decide(at, task, apispec.ApprovalDecisionReject)
	},
}
