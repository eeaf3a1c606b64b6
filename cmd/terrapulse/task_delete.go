package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
)

var deleteTask = taskCommand{
	name: "task delete", synopsis: "Delete a task and keep its infrastructure", approves: true,
	examples: []string{"-auto-approve load-balancer"},
	usage: `Usage: terrapulse task delete [flags] TASK

  Asks, and then deletes the task as soon as it is not running. Its
  infrastructure and its Terraform state are kept. A task of a task file comes
  back when its block there is changed: take it out of the file, too.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		if code, err := c.approved(&c.approvalOptions, "Deleting", task, fmt.Sprintf("Do you want to delete '%s'?", task),
			"What the task has made is kept, and so is its Terraform state.",
			"A task that is running is deleted when its run has ended."); code >= 0 || err != nil {
			return code, err
		}

		c.say("Marking task '%s' for deletion...", task)
		note, err := client.DeleteTask(c.ctx, task)
		if err != nil {
			return 0, err
		}
		c.say("Task '%s' has been marked for deletion and will be deleted when not running.", task)
		if note != "" {
			c.detail(wrapped(c.stdout, note, lineWidth))
		}
		return c.changed(taskChange{Task: task, Note: note}), nil
	},
}
