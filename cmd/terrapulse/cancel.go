package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/instance"
	"github.com/terrapulse/terrapulse/internal/reconcile"
)

// cancelCommand ends the run of a task of a running instance.
type cancelCommand struct {
	*app
	requestFlags
}

func (c *cancelCommand) about() about {
	f := c.flagSet("cancel")
	c.register(f)
	return about{flags: f, synopsis: "End the current run of a task",
		examples: []string{"load-balancer"}, codes: codesOfTask, args: c.tasks(f, c.api.taskNames),
		help: `Usage: terrapulse cancel [flags] TASK

  Ends the run of a task of a running instance: Terraform is interrupted, and
  killed if it has not ended a minute later. The task is not run again until its
  input or definition changes, its schedule is due, or a run is requested, as by
  ` + "`terrapulse retry TASK`" + ` or by a restart. The exit code is 0 when the run has
  ended.
`}
}

func (c *cancelCommand) run(arguments []string) int {
	task, client, code := c.taskArguments("cancel", &c.api, arguments)
	if code >= 0 {
		return code
	}
	unable := fmt.Sprintf("unable to cancel '%s'", task)
	id, err := client.CancelTask(c.ctx, task)
	if err != nil {
		return c.problem(unable, err)
	}
	switch {
	case !c.wait && c.json:
		return c.printJSON(map[string]string{"task": task, "id": id})
	case !c.wait:
		fmt.Fprintf(c.stdout, "Run %s of task %s is being cancelled.\n", id, task)
		return exitOK
	}
	run, err := client.AwaitEnd(c.ctx, task, id)
	if err != nil {
		return c.problem(unable, err)
	}
	if c.json {
		return c.printJSON(run)
	}
	c.summarise([]reconcile.Outcome{instance.OutcomeOf(run)}, 0)
	return exitOK
}
