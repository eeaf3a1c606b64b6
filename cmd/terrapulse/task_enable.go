package main

import (
	"flag"
	"fmt"
)

// taskEnableCommand enables a task of a running instance.
type taskEnableCommand struct{ *app }

func (c *taskEnableCommand) Synopsis() string { return "Enable and run a task" }

func (c *taskEnableCommand) Help() string {
	return `Usage: terrapulse task enable [flags] TASK

  Shows what the task would change, asks for approval if there are changes, and
  then enables the task and runs it. If that run fails, the task stays disabled.
`
}

func (c *taskEnableCommand) about() about {
	f, _ := c.flags()
	return about{flags: f, examples: []string{"load-balancer", "-auto-approve load-balancer"},
		codes: codesOfTask, args: servedTasks}
}

func (c *taskEnableCommand) flags() (*flag.FlagSet, *approvalOptions) {
	return approvalFlags("task enable")
}

func (c *taskEnableCommand) Run(args []string) int {
	f, o := c.flags()
	task, client, code := c.taskArguments(f, &o.api, args)
	if code >= 0 {
		return code
	}
	if code := c.approvable(o.json, o.approve); code >= 0 {
		return code
	}
	steps := c.steps(o.json)

	steps.say("Inspecting changes to resource if enabling '%s'...", task)
	steps.generating()
	unable := fmt.Sprintf("unable to enable '%s'", task)
	inspected, err := client.InspectEnable(c.ctx, task)
	if err != nil {
		return c.problem(fmt.Sprintf("unable to generate plan for '%s'", task), err)
	}
	steps.showPlan(inspected.Inspection)

	if inspected.ChangesPresent && !o.approve {
		yes, err := c.approval(fmt.Sprintf("Enabling the task will perform the actions described above.\nDo you want to perform these actions for '%s'?", task),
			"This cannot be undone.",
			"Terraform may do something else if what the task watches in Consul changes meanwhile.")
		if err != nil {
			return c.problem(unable, err)
		}
		if !yes {
			steps.detail(fmt.Sprintf("Cancelled enabling task '%s'", task))
			return exitOK
		}
	}

	steps.say("Enabling and running '%s'...", task)
	if err := client.EnableTask(c.ctx, task); err != nil {
		return c.problem(unable, err)
	}
	steps.say("'%s' enable complete!", task)
	if o.json {
		return c.printJSON(taskChange{Task: task, Inspection: &inspected.Inspection})
	}
	return exitOK
}
