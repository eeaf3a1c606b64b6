package main

import "fmt"

var releaseTask = decisionCommand{
	name: "release", synopsis: "Release a task that is on hold",
	examples: []string{"load-balancer"},
	usage: `Usage: terrapulse release [flags] TASK

  Ends ` + "`terrapulse hold TASK`" + `: the task runs again as its condition says. It
  approves nothing. With -config-file or -store it writes to a store, else it
  uses the API of a running instance.
`,
	do: func(c *decisionCommand, at door, task string) (int, error) {
		by := userAtHost()
		if err := at.ReleaseTask(c.ctx, task, by); err != nil {
			return 0, err
		}
		return c.printDecision(task, by, nil, fmt.Sprintf("Task %s is released.\n", task)), nil
	},
}
