package main

import (
	"flag"
	"fmt"
)

// taskDisableCommand disables a task of a running instance.
type taskDisableCommand struct{ *app }

func (c *taskDisableCommand) Synopsis() string { return "Disable a task and keep its infrastructure" }

func (c *taskDisableCommand) Help() string {
	return `Usage: terrapulse task disable [flags] TASK

  The task no longer runs, whatever changes in Consul. Its infrastructure and
  its Terraform state are kept.
`
}

func (c *taskDisableCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{"load-balancer"},
		codes: codesOfTask, args: servedTasks}
}

func (c *taskDisableCommand) flags() (f *flag.FlagSet, api *apiFlags, asJSON *bool) {
	f, api = newFlags("task disable"), &apiFlags{}
	api.register(f)
	return f, api, jsonFlag(f)
}

func (c *taskDisableCommand) Run(args []string) int {
	f, api, asJSON := c.flags()
	task, client, code := c.taskArguments(f, api, args)
	if code >= 0 {
		return code
	}
	steps := c.steps(*asJSON)
	steps.say("Waiting to disable '%s'...", task)
	if err := client.DisableTask(c.ctx, task); err != nil {
		return c.problem(fmt.Sprintf("unable to disable '%s'", task), err)
	}
	steps.say("'%s' disable complete!", task)
	if *asJSON {
		return c.printJSON(taskChange{Task: task})
	}
	return exitOK
}
