package main

import (
	"flag"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/instance"
	"github.com/terrapulse/terrapulse/internal/reconcile"
)

// cancelCommand ends the run of a task of a running instance.
type cancelCommand struct{ *app }

func (c *cancelCommand) Synopsis() string { return "End the current run of a task" }

func (c *cancelCommand) Help() string {
	return `Usage: terrapulse cancel [flags] TASK

  Ends the run of a task of a running instance: Terraform is interrupted, and
  killed if it has not ended a minute later. The task is not run again until its
  input or definition changes, its schedule is due, or a run is requested, as by
  ` + "`terrapulse retry TASK`" + ` or by a restart. The exit code is 0 when the run has
  ended.
`
}

func (c *cancelCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{"load-balancer"},
		codes: codesOfTask, args: servedTasks}
}

func (c *cancelCommand) flags() (*flag.FlagSet, *apiFlags, *bool) { return requestFlags("cancel") }

func (c *cancelCommand) Run(args []string) int {
	f, api, wait := c.flags()
	task, client, code := c.taskArguments(f, api, args)
	if code >= 0 {
		return code
	}
	unable := fmt.Sprintf("unable to cancel '%s'", task)
	id, err := client.CancelTask(c.ctx, task)
	if err != nil {
		return c.problem(unable, err)
	}
	switch {
	case !*wait && wantsJSON(f):
		return c.printJSON(map[string]string{"task": task, "id": id})
	case !*wait:
		fmt.Fprintf(c.stdout, "Run %s of task %s is being cancelled.\n", id, task)
		return exitOK
	}
	run, err := client.AwaitEnd(c.ctx, task, id)
	if err != nil {
		return c.problem(unable, err)
	}
	if wantsJSON(f) {
		return c.printJSON(run)
	}
	c.summarise([]reconcile.Outcome{instance.OutcomeOf(run)}, 0)
	return exitOK
}
