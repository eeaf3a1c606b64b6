package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
)

var enableTask = taskCommand{
	name: "task enable", synopsis: "Enable and run a task", approves: true, codes: codesOfRun,
	examples: []string{"load-balancer", "-auto-approve load-balancer"},
	usage: `Usage: terrapulse task enable [flags] TASK

  Shows what the task would change, asks for approval if there are changes, and
  then enables the task and runs it. If that run fails, the task stays disabled.
  If the run waits for an approval or its window, the command ends with exit
  code 3, and the run goes on.
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
		return c.whenRun(client.EnableTask(c.ctx, task), taskChange{Task: task, Inspection: &inspected.Inspection}, "'%s' enable complete!")
	},
}
