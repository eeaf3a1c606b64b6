package main

import "fmt"

// taskDisableCommand disables a task of a running instance.
type taskDisableCommand struct {
	*app
	api apiFlags
}

func (c *taskDisableCommand) about() about {
	f := c.flagSet("task disable")
	c.api.register(f)
	return about{flags: f, synopsis: "Disable a task and keep its infrastructure",
		examples: []string{"load-balancer"}, codes: codesOfTask, args: c.tasks(f, c.api.taskNames),
		help: `Usage: terrapulse task disable [flags] TASK

  The task no longer runs, whatever changes in Consul. Its infrastructure and
  its Terraform state are kept.
`}
}

func (c *taskDisableCommand) run(arguments []string) int {
	task, client, code := c.taskArguments("task disable", &c.api, arguments)
	if code >= 0 {
		return code
	}
	c.say("Waiting to disable '%s'...", task)
	if err := client.DisableTask(c.ctx, task); err != nil {
		return c.problem(fmt.Sprintf("unable to disable '%s'", task), err)
	}
	c.say("'%s' disable complete!", task)
	return c.changed(taskChange{Task: task})
}
