package main

import (
	"flag"
	"fmt"
)

// forgetCommand removes the records of a task that is in no configuration.
type forgetCommand struct{ *app }

func (c *forgetCommand) Synopsis() string { return "Remove the records of a deleted task" }

func (c *forgetCommand) Help() string {
	return `Usage: terrapulse forget [flags] TASK

  Removes the records of a task that is in no task file any more: what is known
  of it, its runs and their output. What the task has made stays, and so does
  its Terraform state. Also for a task with a record that cannot be read.
`
}

func (c *forgetCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{"load-balancer"},
		codes: codesOfTask}
}

func (c *forgetCommand) flags() (f *flag.FlagSet, api *apiFlags, asJSON *bool) {
	f, api = newFlags("forget"), &apiFlags{}
	api.register(f)
	return f, api, jsonFlag(f)
}

func (c *forgetCommand) Run(args []string) int {
	f, api, asJSON := c.flags()
	task, client, code := c.taskArguments(f, api, args)
	if code >= 0 {
		return code
	}
	if err := client.ForgetTask(c.ctx, task); err != nil {
		return c.problem(fmt.Sprintf("unable to forget '%s'", task), err)
	}
	if *asJSON {
		return c.printJSON(taskChange{Task: task})
	}
	fmt.Fprintf(c.stdout, "The records of task %s are removed. Its infrastructure and its Terraform state (workspace %s) stay.\n", task, task)
	return exitOK
}
