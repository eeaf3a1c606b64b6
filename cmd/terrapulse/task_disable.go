package main

import "github.com/terrapulse/terrapulse/internal/people/apiclient"

var disableTask = taskCommand{
	name: "task disable", synopsis: "Disable a task and keep its infrastructure",
	examples: []string{"load-balancer"},
	usage: `Usage: terrapulse task disable [flags] TASK

  The task no longer runs, whatever changes in Consul. Its infrastructure and
  its Terraform state are kept.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		c.say("Waiting to disable '%s'...", task)
		if err := client.DisableTask(c.ctx, task); err != nil {
			return 0, err
		}
		c.say("'%s' disable complete!", task)
		return c.changed(taskChange{Task: task}), nil
	},
}
