package main

import "fmt"

// taskDeleteCommand deletes a task of a running instance.
type taskDeleteCommand struct {
	*app
	approvalOptions
}

func (c *taskDeleteCommand) about() about {
	f := c.flagSet("task delete")
	c.register(f)
	return about{flags: f, synopsis: "Delete a task and keep its infrastructure",
		examples: []string{"-auto-approve load-balancer"}, codes: codesOfTask, args: c.tasks(f, c.api.taskNames),
		help: `Usage: terrapulse task delete [flags] TASK

  Asks, and then deletes the task as soon as it is not running. Its
  infrastructure and its Terraform state are kept. A task of a task file comes
  back when its block there is changed: take it out of the file, too.
`}
}

func (c *taskDeleteCommand) run(arguments []string) int {
	task, client, code := c.approvableTask("task delete", &c.approvalOptions, arguments)
	if code >= 0 {
		return code
	}
	unable := fmt.Sprintf("unable to delete '%s'", task)
	if code := c.approved(&c.approvalOptions, unable, fmt.Sprintf("deleting task '%s'", task), fmt.Sprintf("Do you want to delete '%s'?", task),
		"What the task has made is kept, and so is its Terraform state.",
		"A task that is running is deleted when its run has ended."); code >= 0 {
		return code
	}

	c.say("Marking task '%s' for deletion...", task)
	note, err := client.DeleteTask(c.ctx, task)
	if err != nil {
		return c.problem(unable, err)
	}
	c.say("Task '%s' has been marked for deletion and will be deleted when not running.", task)
	if note != "" {
		c.detail(wrapped(note))
	}
	return c.changed(taskChange{Task: task, Note: note})
}
