package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/process/instance"
)

// taskCommand is a command about one task of a running instance.
type taskCommand struct {
	*app
	name, synopsis, usage string
	examples              []string
	names                 complete.Predictor // completes the task; nil for the tasks of the instance
	waits                 bool               // the command has -wait
	codes                 []int              // exit codes; nil for codesOfTask
	approves              bool               // the command has -auto-approve
	do                    func(c *taskCommand, client *apiclient.Client, task string) (code int, err error)

	approvalOptions
	wait bool
}

// ofTask returns the command with its flags.
func (a *app) ofTask(c taskCommand) command {
	c.app = a
	f := a.flagSet(c.name)
	if c.approves {
		c.register(f)
	} else {
		c.api.register(f)
	}
	if c.waits {
		f.Lookup("json").Usage = "Print JSON, for scripts: the run when it has ended."
		f.BoolVar(&c.wait, "wait", true, "Wait for the run to end, and print how it ended.")
	}
	names := c.names
	if names == nil {
		names = c.tasks(f, c.api.taskNames)
	}
	codes := c.codes
	if codes == nil {
		codes = codesOfTask
	}
	return command{flags: f, synopsis: c.synopsis, examples: c.examples, codes: codes, args: names, help: c.usage, run: c.run}
}

func (c *taskCommand) run(arguments []string) int {
	if len(arguments) != 1 || arguments[0] == "" {
		c.problem("name one task", errors.New(c.help(c.name)))
		return exitMissing
	}
	client, code := c.apiClient(&c.api)
	if code < 0 && c.approves {
		code = c.approvable(&c.approvalOptions)
	}
	if code >= 0 {
		return code
	}
	code, err := c.do(c, client, arguments[0])
	if err != nil {
		verb := c.name[strings.LastIndex(c.name, " ")+1:]
		return c.problem(fmt.Sprintf("unable to %s '%s'", verb, arguments[0]), err)
	}
	return code
}

// request requests a run, and waits for it unless the flags say otherwise.
func (c *taskCommand) request(client *apiclient.Client, task string, how func(context.Context, string) (after string, err error)) (int, error) {
	after, err := how(c.ctx, task)
	if err != nil {
		return 0, err
	}
	run, code, err := c.await(map[string]string{"task": task, "after": after}, fmt.Sprintf("A run of task %s is requested.", task),
		func() (apispec.Run, error) { return client.AwaitRun(c.ctx, task, after, c.saysWhy(task)) })
	outcome := instance.OutcomeOf(run)
	if held := (*apiclient.WaitsError)(nil); errors.As(err, &held) {
		outcome, err = instance.OutcomeOfWait(held), nil
		if c.json {
			code = c.printJSON(map[string]any{"task": task, "reason": held.Task.Reason})
		} else {
			c.summarise([]reconcile.Outcome{outcome}, 0)
			fmt.Fprintf(c.stderr, "The request stays: task %s runs when nothing stops it any more.\n", task)
		}
	}
	if c.wait && err == nil {
		code = cmp.Or(code, exitCodeOf([]reconcile.Outcome{outcome}))
	}
	return code, err
}

// await waits for the end of a run and prints how it ended. With -wait=false it
// only prints what was requested, as JSON or as text.
func (c *taskCommand) await(requested map[string]string, text string, end func() (apispec.Run, error)) (run apispec.Run, code int, err error) {
	switch {
	case !c.wait && c.json:
		return run, c.printJSON(requested), nil
	case !c.wait:
		fmt.Fprintln(c.stdout, text)
		return run, exitOK, nil
	}
	run, err = end()
	switch {
	case err != nil:
	case c.json:
		code = c.printJSON(run)
	default:
		c.summarise([]reconcile.Outcome{instance.OutcomeOf(run)}, 0)
	}
	return run, code, err
}

// saysWhy returns a function that prints why a task's run has not begun.
func (a *app) saysWhy(task string) func(string) {
	return func(reason string) { fmt.Fprintf(a.stderr, "Task %s waits: %s\n", task, reason) }
}
