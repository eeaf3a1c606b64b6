package main

import (
	"fmt"

	"github.com/posener/complete"
)

// forgetCommand removes the records of a task that is in no configuration.
type forgetCommand struct {
	*app
	api apiFlags
}

func (c *forgetCommand) about() about {
	f := c.flagSet("forget")
	c.api.register(f)
	return about{flags: f, synopsis: "Remove the records of a deleted task",
		examples: []string{"load-balancer"}, codes: codesOfTask, args: complete.PredictAnything,
		help: `Usage: terrapulse forget [flags] TASK

  Removes the records of a task that is in no task file any more: what is known
  of it, its runs and their output. What the task has made stays, and so does
  its Terraform state. Also for a task with a record that cannot be read.
`}
}

func (c *forgetCommand) run(arguments []string) int {
	task, client, code := c.taskArguments("forget", &c.api, arguments)
	if code >= 0 {
		return code
	}
	if err := client.ForgetTask(c.ctx, task); err != nil {
		return c.problem(fmt.Sprintf("unable to forget '%s'", task), err)
	}
	if c.json {
		return c.printJSON(taskChange{Task: task})
	}
	fmt.Fprintf(c.stdout, "The records of task %s are removed. Its infrastructure and its Terraform state (workspace %s) stay.\n", task, task)
	return exitOK
}
