package main

import (
	"flag"
	"fmt"
)

// taskDisableCommand disables a task of a running instance.
type taskDisableCommand struct{ *app }

func (c *taskDisableCommand) Synopsis() string { return "Disable a task, and keep what it has made" }

func (c *taskDisableCommand) Help() string {
	f, _ := c.flags()
	return `Usage: terrapulse task disable [flags] TASK

  The task no longer runs, whatever changes in Consul. Its infrastructure and
  its Terraform state are kept.
` + describe(f)
}

func (c *taskDisableCommand) flags() (*flag.FlagSet, *apiFlags) {
	f, api := newFlags("task disable"), &apiFlags{}
	api.register(f)
	return f, api
}

func (c *taskDisableCommand) Run(args []string) int {
	f, api := c.flags()
	task, client, code := c.taskArguments(f, api, args, c.Help())
	if code >= 0 {
		return code
	}
	c.say("Waiting to disable '%s'...", task)
	if err := client.DisableTask(c.ctx, task); err != nil {
		return c.problem(fmt.Sprintf("unable to disable '%s'", task), err)
	}
	c.say("'%s' disable complete!", task)
	return exitOK
}
