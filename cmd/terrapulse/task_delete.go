package main

import (
	"flag"
	"fmt"
)

// taskDeleteCommand deletes a task of a running instance.
type taskDeleteCommand struct{ *app }

func (c *taskDeleteCommand) Synopsis() string { return "Delete a task and keep its infrastructure" }

func (c *taskDeleteCommand) Help() string {
	return `Usage: terrapulse task delete [flags] TASK

  Asks, and then deletes the task as soon as it is not running. Its
  infrastructure and its Terraform state are kept. A task of a task file comes
  back when its block there is changed: take it out of the file, too.
`
}

func (c *taskDeleteCommand) about() about {
	f, _ := c.flags()
	return about{flags: f, examples: []string{"-auto-approve load-balancer"},
		codes: codesOfTask, args: servedTasks}
}

func (c *taskDeleteCommand) flags() (*flag.FlagSet, *approvalOptions) {
	return approvalFlags("task delete")
}

func (c *taskDeleteCommand) Run(args []string) int {
	f, o := c.flags()
	task, client, code := c.taskArguments(f, &o.api, args)
	if code >= 0 {
		return code
	}
	if code := c.approvable(o.json, o.approve); code >= 0 {
		return code
	}
	steps := c.steps(o.json)
	unable := fmt.Sprintf("unable to delete '%s'", task)
	if !o.approve {
		yes, err := c.approval(fmt.Sprintf("Do you want to delete '%s'?", task),
			"This cannot be undone.",
			"What the task has made is kept, and so is its Terraform state.",
			"A task that is running is deleted when its run has ended.")
		if err != nil {
			return c.problem(unable, err)
		}
		if !yes {
			steps.detail(fmt.Sprintf("Cancelled deleting task '%s'", task))
			return exitOK
		}
	}

	steps.say("Marking task '%s' for deletion...", task)
	note, err := client.DeleteTask(c.ctx, task)
	if err != nil {
		return c.problem(unable, err)
	}
	steps.say("Task '%s' has been marked for deletion and will be deleted when not running.", task)
	if note != "" {
		steps.detail(wrapped(note))
	}
	if o.json {
		return c.printJSON(taskChange{Task: task, Note: note})
	}
	return exitOK
}
