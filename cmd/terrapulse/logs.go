package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// followEvery is how often -follow reads new output.
const followEvery = time.Second

// logsCommand prints what Terraform printed.
func (a *app) logsCommand() command {
	var from doorFlags
	var follow bool
	f := a.flagSet("logs")
	from.register(f)
	f.BoolVar(&follow, "follow", false, "Print the output of a run under way as it comes, until the run has ended.")
	f.Lookup("json").Usage = "Print JSON, for scripts: the run and its output."
	return command{flags: f, synopsis: "Print Terraform's output of a run",
		examples: []string{onFile + " load-balancer", "-stack=network -follow load-balancer", onFile + " 01a20044-4426-70ba"},
		codes:    codesOfStore, args: a.tasks(f, from.taskNames),
		help: `Usage: terrapulse logs [flags] RUN|TASK

  Prints what Terraform printed in a run, without secrets. RUN is an id that
  ` + "`terrapulse runs`" + ` lists, or the beginning of one. TASK means the latest run
  of a task. The output of a run under way is written every few seconds.
`,
		run: func(arguments []string) int {
			switch {
			case len(arguments) != 1:
				return a.fail(exitMissing, errors.New("no run: name one run, or one task for its latest run: terrapulse logs [flags] RUN|TASK"))
			case follow && a.json:
				return a.fail(exitFlags, errors.New("-follow prints text as it comes: leave out -json"))
			}
			records, code := from.open(a, stores.Place.Read)
			if code >= 0 {
				return code
			}
			defer records.Close()
			run, err := findRun(a.ctx, records.Client, arguments[0], follow)
			if err != nil {
				return a.fail(exitError, err)
			}
			var text strings.Builder
			out := io.Writer(a.stdout)
			if a.json {
				out = &text
			}
			last, err := copyOutput(a.ctx, records.Client, run, out, follow)
			switch {
			case err != nil && a.ctx.Err() != nil:
				return exitOK // Ctrl-C ends the command, and not the run
			case err != nil:
				return a.fail(exitError, err)
			case a.json:
				return a.printJSON(map[string]any{"run": run, "output": text.String()})
			case follow && last.State == apispec.RunStateWaiting:
				fmt.Fprintf(a.stderr, "Run %s of task %s waits: `terrapulse plan show %s` shows for what\n", shortened(run.ID), run.Task, run.Task)
			case follow:
				fmt.Fprintf(a.stderr, "Run %s of task %s: %s\n", shortened(run.ID), run.Task, last.State)
			case !last.Ended:
				fmt.Fprintf(a.stderr, "Run %s of task %s is under way: -follow prints what comes\n", shortened(run.ID), run.Task)
			case last.NextOffset == 0:
				why := ""
				if run.Error != nil {
					why = ": " + *run.Error
				}
				return a.fail(exitError, fmt.Errorf("there is no output of run %s, which ended as %s before Terraform printed anything%s", run.ID, run.State, why))
			}
			return exitOK
		},
	}
}

// followTries is how many reads in a row may fail while -follow waits for output: a
// connection may be interrupted during a long run.
const followTries = 5

// copyOutput prints the output of a run. If it follows, it returns when the run has
// ended, or waits for a person or a window.
func copyOutput(ctx context.Context, from *apiclient.Client, run apispec.Run, out io.Writer, follow bool) (last apispec.RunOutputResponse, err error) {
	for failed := 0; ; {
		next, err := from.Output(ctx, run.Task, run.ID, last.NextOffset)
		if err != nil {
			if failed++; follow && failed < followTries && delay.For(ctx, followEvery) {
				continue
			}
			return last, err
		}
		last, failed = next, 0
		if _, err := io.WriteString(out, last.Output); err != nil {
			return last, fmt.Errorf("print the output: %w", err)
		}
		switch {
		case last.Ended:
			return last, nil
		case last.Output != "" && last.NextOffset > last.Offset:
			continue // there may be more at once
		case !follow, last.State == apispec.RunStateWaiting && !apispec.Deref(last.Remote):
			return last, nil
		}
		if !delay.For(ctx, followEvery) {
			return last, ctx.Err()
		}
	}
}
