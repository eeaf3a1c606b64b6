package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/apiclient"
	"github.com/terrapulse/terrapulse/internal/instance"
	"github.com/terrapulse/terrapulse/internal/reconcile"
)

// runCommand runs a task of a running instance.
type runCommand struct{ *app }

func (c *runCommand) Synopsis() string { return "Run a task now" }

func (c *runCommand) Help() string {
	return `Usage: terrapulse run [flags] TASK

  Runs a task of a running instance now, whatever its condition says, and waits
  for that run: exit code 0 when it succeeded, 11 when it did not.
`
}

func (c *runCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{"load-balancer", "-wait=false load-balancer"},
		codes: codesOfTask, args: servedTasks}
}

func (c *runCommand) flags() (*flag.FlagSet, *apiFlags, *bool) { return requestFlags("run") }

func (c *runCommand) Run(args []string) int {
	f, api, wait := c.flags()
	return c.request(f, api, wait, args, (*apiclient.Client).RunTask)
}

// requestFlags are the flags of a command that requests a run.
func requestFlags(command string) (*flag.FlagSet, *apiFlags, *bool) {
	f, api := newFlags(command), &apiFlags{}
	api.register(f)
	f.Bool("json", false, "Print JSON, for scripts: the run when it has ended.")
	return f, api, f.Bool("wait", true, "Wait for the run to end, and print how it ended.")
}

// request requests a run through the API, and waits for it if wait says so.
func (a *app) request(f *flag.FlagSet, api *apiFlags, wait *bool, args []string,
	how func(*apiclient.Client, context.Context, string) (after string, err error)) int {
	task, client, code := a.taskArguments(f, api, args)
	if code >= 0 {
		return code
	}
	unable := fmt.Sprintf("unable to %s '%s'", f.Name(), task)
	after, err := how(client, a.ctx, task)
	if err != nil {
		return a.problem(unable, err)
	}
	switch {
	case !*wait && wantsJSON(f):
		return a.printJSON(map[string]string{"task": task, "after": after})
	case !*wait:
		fmt.Fprintf(a.stdout, "A run of task %s is requested.\n", task)
		return exitOK
	}
	run, err := client.AwaitRun(a.ctx, task, after, a.saysWhy(task))
	if err != nil {
		return a.problem(unable, err)
	}
	if !wantsJSON(f) {
		return a.summarise([]reconcile.Outcome{instance.OutcomeOf(run)}, 0)
	}
	if code := a.printJSON(run); code != exitOK || run.State != "succeeded" {
		return exitError
	}
	return exitOK
}

// saysWhy returns a function that prints why a task's run has not begun.
func (a *app) saysWhy(task string) func(string) {
	return func(reason string) { fmt.Fprintf(a.stderr, "Task %s waits: %s\n", task, reason) }
}

// wantsJSON reports whether -json is given to a command that has it.
func wantsJSON(f *flag.FlagSet) bool { return f.Lookup("json").Value.String() == "true" }
