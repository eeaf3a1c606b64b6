package main

import "fmt"

// taskEnableCommand enables a task of a running instance.
type taskEnableCommand struct {
	*app
	approvalOptions
}

func (c *taskEnableCommand) about() about {
	f := c.flagSet("task enable")
	c.register(f)
	return about{flags: f, synopsis: "Enable and run a task",
		examples: []string{"load-balancer", "-auto-approve load-balancer"}, codes: codesOfTask, args: c.tasks(f, c.api.taskNames),
		help: `Usage: terrapulse task enable [flags] TASK

  Shows what the task would change, asks for approval if there are changes, and
  then enables the task and runs it. If that run fails, the task stays disabled.
`}
}

func (c *taskEnableCommand) run(arguments []string) int {
	task, client, code := c.approvableTask("task enable", &c.approvalOptions, arguments)
	if code >= 0 {
		return code
	}
	c.say("Inspecting changes to resource if enabling '%s'...", task)
	c.generating()
	unable := fmt.Sprintf("unable to enable '%s'", task)
	inspected, err := client.InspectEnable(c.ctx, task)
	if err != nil {
		return c.problem(fmt.Sprintf("unable to generate plan for '%s'", task), err)
	}
	c.showPlan(inspected.Inspection)

	if inspected.ChangesPresent {
		if code := c.planApproved(&c.approvalOptions, unable, fmt.Sprintf("enabling task '%s'", task), "Enabling", task); code >= 0 {
			return code
		}
	}

	c.say("Enabling and running '%s'...", task)
	if err := client.EnableTask(c.ctx, task); err != nil {
		return c.problem(unable, err)
	}
	c.say("'%s' enable complete!", task)
	return c.changed(taskChange{Task: task, Inspection: &inspected.Inspection})
}
