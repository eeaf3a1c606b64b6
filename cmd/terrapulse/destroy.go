package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
)

var destroyTask = taskCommand{
	name: "destroy", synopsis: "Destroy everything that a task has made", approves: true,
	examples: []string{"load-balancer", "-auto-approve load-balancer"},
	usage: `Usage: terrapulse destroy [flags] TASK

  Asks, and then requests that everything that the task has made is destroyed.
  The plan for that waits for ` + "`terrapulse approve TASK`" + `, unless the task has
  approve_destroy = "never". An enabled task then runs again when its
  definition changes, or when a run is requested. Also for a task that was
  removed with on_removal = "destroy" and whose plan was rejected.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		if _, err := client.TaskOverview(c.ctx, task); err != nil {
			return 0, err // no question about a task that does not exist
		}
		if code, err := c.approved(&c.approvalOptions, "Destroying", task, fmt.Sprintf("Do you want to destroy everything that '%s' has made?", task),
			"The plan is shown, and must be approved, before anything is destroyed, unless",
			"approve_destroy is never."); code >= 0 || err != nil {
			return code, err
		}
		if err := client.DestroyTask(c.ctx, task, userAtHost()); err != nil {
			return 0, err
		}
		c.say("A run that destroys everything that task '%s' has made is requested.", task)
		return c.changed(taskChange{Task: task}), nil
	},
}
