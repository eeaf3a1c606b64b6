package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/state"
)

// runsCommand lists a task's runs.
type runsCommand struct{ *app }

func (c *runsCommand) Synopsis() string { return "List the runs of a task" }

func (c *runsCommand) Help() string {
	return fmt.Sprintf(`Usage: terrapulse runs [flags] TASK

  Lists the newest runs of a task, at most %d, the latest first.
`, state.History) + describe(c.about())
}

func (c *runsCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{onFile + " load-balancer", "-http-addr http://localhost:8558 -json load-balancer"},
		codes: codesOfStore, args: knownTasks}
}

func (c *runsCommand) flags() (*flag.FlagSet, *recordFlags, *bool) {
	f := newFlags("runs")
	return f, registerRecords(f), f.Bool("json", false, "Print JSON, for scripts.")
}

func (c *runsCommand) Run(args []string) int {
	f, from, asJSON := c.flags()
	if code := c.parse(f, args); code >= 0 {
		return code
	}
	if f.NArg() != 1 {
		return c.fail(exitMissing, errors.New("name one task: terrapulse runs [flags] TASK"))
	}
	records, code := from.open(c.app)
	if code >= 0 {
		return code
	}
	defer records.Close()
	runs, err := records.runs(c.ctx, f.Arg(0))
	if errors.Is(err, errNoTask) {
		return c.fail(exitError, fmt.Errorf("there is no task %q: `terrapulse status` lists the tasks", f.Arg(0)))
	}
	if err != nil {
		return c.fail(exitError, err)
	}
	if *asJSON {
		return c.printJSON(runs)
	}
	var t table
	t.row(plain, "RUN", "STARTED", "DURATION", "OUTCOME", "CHANGES")
	for _, r := range runs {
		t.row(outcome(r.State), shortened(r.ID), at(r.Started), tookOf(r), string(r.State), changesOf(r.Changes))
		text := fmt.Sprintf("why: %s: %s", r.Reason.Code, r.Reason.Text)
		if r.Kind != apispec.RunKindApply {
			text = string(r.Kind) + ", " + text
		}
		if r.Error != nil {
			text += ": " + strings.SplitN(*r.Error, "\n", 2)[0]
		}
		t.line(text)
	}
	t.print(c.stdout)
	return exitOK
}

// tookOf is the cell of how long a run took.
func tookOf(r apispec.Run) string {
	if r.Started == nil || r.Ended == nil {
		return "-"
	}
	return rounded(r.Ended.Sub(*r.Started)).String()
}

// changesOf is the cell of what an apply did.
func changesOf(ch *apispec.Changes) string {
	if ch == nil {
		return "-"
	}
	return fmt.Sprintf("+%d ~%d -%d", ch.Add, ch.Change, ch.Destroy)
}

// outcome is what the state of a run means to its reader.
func outcome(s apispec.RunState) news {
	switch s {
	case apispec.RunStateSucceeded:
		return good
	case apispec.RunStateFailed, apispec.RunStateLost, apispec.RunStateCancelled:
		return bad
	}
	return plain
}
