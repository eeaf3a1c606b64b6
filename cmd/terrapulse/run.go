package main

<<<<<<< HEAD
import "github.com/terrapulse/terrapulse/internal/apiclient"

var runTask = taskCommand{
	name: "run", synopsis: "Run a task now", waits: true,
	examples: []string{"load-balancer", "-wait=false load-balancer"},
	usage: `Usage: terrapulse run [flags] TASK

  Runs a task of a running instance now, whatever its condition says, and waits
  for that run: exit code 0 when it succeeded, 11 when it did not.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		return c.request(client, task, client.RunTask)
	},
=======
import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/apiclient"
	"github.com/terrapulse/terrapulse/internal/instance"
	"github.com/terrapulse/terrapulse/internal/reconcile"
)

// runCommand runs a task of a running instance.
type runCommand struct {
	*app
	requestFlags
}

func (c *runCommand) about() about {
	f := c.flagSet("run")
	c.register(f)
	return about{flags: f, synopsis: "Run a task now",
		examples: []string{"load-balancer", "-wait=false load-balancer"}, codes: codesOfRun, args: c.tasks(f, c.api.taskNames),
		help: `Usage: terrapulse run [flags] TASK

  Runs a task of a running instance now, whatever its condition says, and waits
  for that run: exit code 0 when it succeeded, 3 when it is held or waits for an
  approval or its window, 11 when it failed.
`}
}

func (c *runCommand) run(arguments []string) int {
	return c.request("run", &c.requestFlags, arguments, (*apiclient.Client).RunTask)
}

// requestFlags are the flags of a command that requests something of a run.
type requestFlags struct {
	api  apiFlags
	wait bool
}

func (r *requestFlags) register(f *flag.FlagSet) {
	r.api.register(f)
	f.Lookup("json").Usage = "Print JSON, for scripts: the run when it has ended."
	f.BoolVar(&r.wait, "wait", true, "Wait for the run to end, and print how it ended.")
}

// request requests a run through the API, and waits for it if the flags say so.
func (a *app) request(command string, flags *requestFlags, arguments []string,
	how func(*apiclient.Client, context.Context, string) (after string, err error)) int {
	task, client, code := a.taskArguments(command, &flags.api, arguments)
	if code >= 0 {
		return code
	}
	unable := fmt.Sprintf("unable to %s '%s'", command, task)
	after, err := how(client, a.ctx, task)
	if err != nil {
		return a.problem(unable, err)
	}
	switch {
	case !flags.wait && a.json:
		return a.printJSON(map[string]string{"task": task, "after": after})
	case !flags.wait:
		fmt.Fprintf(a.stdout, "A run of task %s is requested.\n", task)
		return exitOK
	}
	run, err := client.AwaitRun(a.ctx, task, after, a.saysWhy(task))
	held := (*apiclient.WaitsError)(nil)
	switch {
	case errors.As(err, &held) && a.json:
		return cmp.Or(a.printJSON(map[string]any{"task": task, "reason": held.Task.Reason}), exitWaits)
	case errors.As(err, &held):
		return a.summarise([]reconcile.Outcome{instance.OutcomeOfWait(held)}, 0)
	case err != nil:
		return a.problem(unable, err)
	case !a.json:
		return a.summarise([]reconcile.Outcome{instance.OutcomeOf(run)}, 0)
	}
	return cmp.Or(a.printJSON(run), exitCodeOf([]reconcile.Outcome{instance.OutcomeOf(run)}))
}

// saysWhy returns a function that prints why a task's run has not begun.
func (a *app) saysWhy(task string) func(string) {
	return func(reason string) { fmt.Fprintf(a.stderr, "Task %s waits: %s\n", task, reason) }
>>>>>>> 19f3ea9 (cli: plan show, approve, reject, hold and release; exit code 3)
}
