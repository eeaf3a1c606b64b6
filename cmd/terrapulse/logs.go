package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/runlog"
	"github.com/terrapulse/terrapulse/internal/state"
)

// logsCommand prints what Terraform said.
type logsCommand struct{ *app }

func (c *logsCommand) Synopsis() string { return "Print Terraform's output of a run" }

func (c *logsCommand) Help() string {
	f, _ := c.flags()
	return "Usage: terrapulse logs [flags] RUN\n\n" +
		"  Prints what Terraform said in a run, without secrets. RUN is an id that\n" +
		"  `terrapulse runs` lists, or the name of a task for its latest run that has ended.\n" + describe(f)
}

func (c *logsCommand) flags() (*flag.FlagSet, *storeFlags) {
	f := newFlags("logs")
	return f, registerStore(f)
}

func (c *logsCommand) Run(args []string) int {
	f, from := c.flags()
	if code := c.parse(f, args, c.Help()); code >= 0 {
		return code
	}
	if f.NArg() != 1 {
		return c.fail(exitMissing, errors.New("name one run: terrapulse logs [flags] RUN"))
	}
	store, code := c.openStore(from)
	if code >= 0 {
		return code
	}
	defer store.Close()
	task, run, err := findRun(c.ctx, store, f.Arg(0))
	if err != nil {
		return c.fail(exitError, err)
	}
	rec, err := state.Read[state.Run](c.ctx, store, state.RunKey(task, run))
	if err != nil {
		return c.fail(exitError, fmt.Errorf("read run %s: %w", run, err))
	}
	rec.Data.Task, rec.Data.ID = task, run
	output, err := c.loadOutput(store, rec.Data)
	switch {
	case errors.Is(err, runlog.ErrGone):
		return c.fail(exitError, fmt.Errorf("the output of run %s is not there any more: the bucket keeps it for some time only", run))
	case errors.Is(err, state.ErrNotFound):
		return c.fail(exitError, fmt.Errorf("no output of run %s is kept: it has not ended, or never came to Terraform", run))
	case err != nil:
		return c.fail(exitError, fmt.Errorf("read the output of run %s: %w", run, err))
	}
	c.stdout.Write(output)
	return exitOK
}

// findRun finds the task and the full id of a run by its id or by its task.
func findRun(ctx context.Context, store state.Store, name string) (task, run string, err error) {
	tasks, err := state.ReadAll[state.Task](ctx, store, state.TaskPrefix)
	if err != nil {
		return "", "", fmt.Errorf("read the tasks' records: %w", err)
	}
	for _, t := range tasks {
		task := state.TaskName(t.Key)
		if task == name {
			if len(t.Data.History) == 0 {
				return "", "", fmt.Errorf("no run of task %s has ended yet: output is kept when a run ends", task)
			}
			return task, t.Data.History[len(t.Data.History)-1], nil
		}
		for _, id := range t.Data.History {
			if strings.EqualFold(id, name) {
				return task, id, nil
			}
		}
		if t.Data.Run != nil && t.Data.Run.ID == name {
			return "", "", fmt.Errorf("run %s has not ended: its output is kept when it does", name)
		}
	}
	for _, t := range tasks { // an inspection is in no history
		task := state.TaskName(t.Key)
		run, err := state.Read[state.Run](ctx, store, state.RunKey(task, strings.ToLower(name)))
		if err != nil {
			return "", "", fmt.Errorf("read the runs of task %s: %w", task, err)
		}
		if run.Exists() {
			return task, run.Data.ID, nil
		}
	}
	return "", "", fmt.Errorf("the store knows no run %q: `terrapulse runs TASK` lists those it keeps", name)
}

// loadOutput returns the kept output of a run.
func (a *app) loadOutput(store state.Store, run state.Run) ([]byte, error) {
	if run.Output == "" {
		return state.LoadLog(a.ctx, store, run.Task, run.ID)
	}
	cfg, err := awsConfig(a.ctx, a.region)
	if err != nil {
		return nil, err
	}
	return runlog.Load(a.ctx, s3.NewFromConfig(cfg), run.Output)
}
