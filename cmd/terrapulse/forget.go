package main

import (
	"fmt"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
)

var forgetTask = taskCommand{
	name: "forget", synopsis: "Remove the records of a deleted task",
	examples: []string{"load-balancer"}, names: complete.PredictAnything,
	usage: `Usage: terrapulse forget [flags] TASK

  Removes the records of a task that is in no task file any more: what is known
  of it, its runs and their output. What the task has made stays, and so does
  its Terraform state. Also for a task with a record that cannot be read.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		if err := client.ForgetTask(c.ctx, task); err != nil {
			return 0, err
		}
		fmt.Fprintf(c.text(), "The records of task %s are removed. Its infrastructure and its Terraform state (workspace %s) stay.\n", task, task)
		return c.changed(taskChange{Task: task}), nil
	},
}
