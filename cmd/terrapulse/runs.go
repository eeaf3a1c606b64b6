package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/state"
)

// runsCommand lists a task's runs.
type runsCommand struct{ *app }

func (c *runsCommand) Synopsis() string { return "List the runs of a task" }

func (c *runsCommand) Help() string {
	f, _, _ := c.flags()
	return fmt.Sprintf(`Usage: terrapulse runs [flags] TASK

  Lists the newest runs of a task, at most %d, the latest first.
`, state.History) + describe(f)
}

func (c *runsCommand) flags() (*flag.FlagSet, *storeFlags, *bool) {
	f := newFlags("runs")
	return f, registerStore(f), f.Bool("json", false, "Print JSON, for scripts.")
}

func (c *runsCommand) Run(args []string) int {
	f, from, asJSON := c.flags()
	if code := c.parse(f, args, c.Help()); code >= 0 {
		return code
	}
	if f.NArg() != 1 {
		return c.fail(exitMissing, errors.New("name one task: terrapulse runs [flags] TASK"))
	}
	store, code := c.openStore(from)
	if code >= 0 {
		return code
	}
	defer store.Close()
	runs, err := taskRuns(c.ctx, store, f.Arg(0))
	if err != nil {
		return c.fail(exitError, err)
	}
	if *asJSON {
		return c.printJSON(runs)
	}
	var t table
	t.row(plain, "RUN", "STARTED", "DURATION", "OUTCOME", "ADDED", "CHANGED", "DESTROYED", "WHY")
	for _, r := range runs {
		started := "-"
		if !r.Started.IsZero() {
			started = r.Started.Local().Format(time.DateTime)
		}
		text := fmt.Sprintf("%s: %s", r.Reason.Kind, r.Reason.Text)
		if r.Error != "" {
			text += ": " + strings.SplitN(r.Error, "\n", 2)[0]
		}
		said := string(r.State)
		if r.Inspect && r.State == state.RunSucceeded {
			said = "planned"
		}
		cells := append([]string{r.ID, started, took(r), said}, counts(r.Changes)...)
		t.row(outcome(r.State), append(cells, text)...)
	}
	t.print(c.stdout)
	return exitOK
}

// taskRuns returns the runs of a task, the latest first.
func taskRuns(ctx context.Context, store state.Store, task string) ([]state.Run, error) {
	rec, err := state.Read[state.Task](ctx, store, state.TaskKey(task))
	if err != nil {
		return nil, fmt.Errorf("read task %s: %w", task, err)
	}
	if !rec.Exists() {
		return nil, fmt.Errorf("the store knows no task %q: `terrapulse status` lists those it knows", task)
	}
	stored, err := state.ReadAll[state.Run](ctx, store, state.RunPrefix(task))
	if err != nil {
		return nil, fmt.Errorf("read the runs of task %s: %w", task, err)
	}
	runs := make([]state.Run, len(stored))
	for i, r := range stored {
		runs[i] = r.Data
	}
	slices.Reverse(runs)
	return runs, nil
}

// outcome is what the state of a run means to its reader.
func outcome(s state.RunState) news {
	switch s {
	case state.RunSucceeded:
		return good
	case state.RunFailed, state.RunLost:
		return bad
	}
	return plain
}
