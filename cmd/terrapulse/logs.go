package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/pause"
)

// followEvery is how often -follow reads new output.
const followEvery = time.Second

// logsCommand prints what Terraform printed.
type logsCommand struct {
	*app
	from   recordFlags
	follow bool
}

func (c *logsCommand) about() about {
	f := c.flagSet("logs")
	c.from.register(f)
	f.BoolVar(&c.follow, "follow", false, "Print the output of a run under way as it comes, until the run has ended.")
	f.Lookup("json").Usage = "Print JSON, for scripts: the run and its output."
	return about{flags: f, synopsis: "Print Terraform's output of a run",
		examples: []string{onFile + " load-balancer", onFile + " -follow load-balancer", onFile + " 01a20044-4426-70ba"},
		codes:    codesOfStore, args: c.tasks(f, c.from.taskNames),
		help: `Usage: terrapulse logs [flags] RUN|TASK

  Prints what Terraform printed in a run, without secrets. RUN is an id that
  ` + "`terrapulse runs`" + ` lists, or the beginning of one. TASK means the latest run
  of a task. The output of a run under way is written every few seconds.
`}
}

func (c *logsCommand) run(arguments []string) int {
	switch {
	case len(arguments) != 1:
		return c.fail(exitMissing, errors.New("no run: name one run, or one task for its latest run: terrapulse logs [flags] RUN|TASK"))
	case c.follow && c.json:
		return c.fail(exitFlags, errors.New("-follow prints text as it comes: leave out -json"))
	}
	records, code := c.from.open(c.app)
	if code >= 0 {
		return code
	}
	defer records.Close()
	run, err := findRun(c.ctx, records, arguments[0], c.follow)
	if err != nil {
		return c.fail(exitError, err)
	}
	var text strings.Builder
	out := io.Writer(c.stdout)
	if c.json {
		out = &text
	}
	last, err := c.copyOutput(records, run, out, c.follow)
	switch {
	case err != nil && c.ctx.Err() != nil:
		return exitOK // Ctrl-C ends the command, and not the run
	case err != nil:
		return c.fail(exitError, err)
	case c.json:
		return c.printJSON(map[string]any{"run": run, "output": text.String()})
	case c.follow:
		fmt.Fprintf(c.stderr, "Run %s of task %s: %s\n", shortened(run.ID), run.Task, last.State)
	case !last.Ended:
		fmt.Fprintf(c.stderr, "Run %s of task %s is under way: -follow prints what comes\n", shortened(run.ID), run.Task)
	case last.NextOffset == 0:
		why := ""
		if run.Error != nil {
			why = ": " + *run.Error
		}
		return c.fail(exitError, fmt.Errorf("there is no output of run %s, which ended as %s before Terraform printed anything%s", run.ID, run.State, why))
	}
	return exitOK
}

// copyOutput prints the output of a run. If it follows, it returns when the run
// has ended.
func (a *app) copyOutput(from records, run apispec.Run, out io.Writer, follow bool) (last apispec.RunOutputResponse, err error) {
	for {
		if last, err = from.Output(a.ctx, run.Task, run.ID, last.NextOffset); err != nil {
			return last, err
		}
		if _, err := io.WriteString(out, last.Output); err != nil {
			return last, fmt.Errorf("print the output: %w", err)
		}
		switch {
		case last.Ended:
			return last, nil
		case last.Output != "" && last.NextOffset > last.Offset:
			continue // there may be more at once
		case !follow:
			return last, nil
		}
		if !pause.For(a.ctx, followEvery) {
			return last, a.ctx.Err()
		}
	}
}
