package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

var cancelTask = taskCommand{
	name: "cancel", synopsis: "End the current run of a task", waits: true,
	examples: []string{"load-balancer"},
	usage: `Usage: terrapulse cancel [flags] TASK

  Ends the run of a task of a running instance: Terraform is interrupted, and
  killed if it has not ended a minute later. The task is not run again until its
  input or definition changes, its schedule is due, or a run is requested, as by
  ` + "`terrapulse run TASK`" + `. The exit code is 0 when the run has ended.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		id, err := client.CancelTask(c.ctx, task)
		if err != nil {
			return 0, err
		}
		_, code, err := c.await(map[string]string{"task": task, "id": id}, fmt.Sprintf("Run %s of task %s is being cancelled.", id, task),
			func() (apispec.Run, error) { return client.AwaitEnd(c.ctx, task, id) })
		return code, err
	},
}
