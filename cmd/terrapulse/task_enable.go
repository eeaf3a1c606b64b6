package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
)

var enableTask = taskCommand{
	name: "task enable", synopsis: "Enable and run a task", approves: true,
	examples: []string{"load-balancer", "-auto-approve load-balancer"},
	usage: `Usage: terrapulse task enable [flags] TASK

  Shows what the task would change, asks for approval if there are changes, and
  then enables the task and runs it. If that run fails, the task stays disabled.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		c.say("Inspecting changes to resource if enabling '%s'...", task)
		c.generating()
		inspected, err := client.InspectEnable(c.ctx, task)
		if err != nil {
			return c.problem(fmt.Sprintf("unable to generate plan for '%s'", task), err), nil
		}
		c.showPlan(inspected.Inspection)
		if inspected.ChangesPresent {
			if code, err := c.planApproved(&c.approvalOptions, "Enabling", task); code >= 0 || err != nil {
				return code, err
			}
		}

		c.say("Enabling and running '%s'...", task)
		if err := client.EnableTask(c.ctx, task); err != nil {
			return 0, err
		}
		c.say("'%s' enable complete!", task)
		return c.changed(taskChange{Task: task, Inspection: &inspected.Inspection}), nil
	},
}
