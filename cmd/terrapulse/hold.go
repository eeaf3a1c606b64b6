package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
)

var holdTask = decisionCommand{
	name: "hold", synopsis: "Keep a task from running until it is released",
	examples: []string{"-comment=\"change freeze\" load-balancer"},
	comment:  "Why, as a `text` that is recorded.",
	usage: `Usage: terrapulse hold [flags] TASK

  Keeps a task from running until ` + "`terrapulse release TASK`" + `, whatever changes or
  is requested. A run that has begun goes on; one that was only decided does not
  begin. With -config-file it writes to the store of these files, else it uses
  the API of a running instance.
`,
	do: func(c *decisionCommand, at door, task string) (int, error) {
		by := userAtHost()
		if err := at.HoldTask(c.ctx, task, apispec.HoldRequest{By: &by, Comment: apiview.Optional(c.given.comment)}); err != nil {
			return 0, err
		}
		return c.printDecision(task, by, nil, fmt.Sprintf("Task %s is on hold until `terrapulse release %s`.\n", task, task)), nil
	},
}
