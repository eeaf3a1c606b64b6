package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// runFlags are which runs the command runs lists.
type runFlags struct {
	limit int
	after string
}

func (r *runFlags) register(f *flag.FlagSet) {
	f.IntVar(&r.limit, "limit", 50, fmt.Sprintf("List at most this `number` of runs, up to %d.", apiclient.MaxRuns))
	f.StringVar(&r.after, "after", "", "List only the runs that were decided after the run with this `ID`, or its beginning.")
}

func (r *runFlags) check() error {
	if r.limit < 1 || r.limit > apiclient.MaxRuns {
		return fmt.Errorf("-limit is %d: give a number from 1 to %d", r.limit, apiclient.MaxRuns)
	}
	return nil
}

// of returns the runs of a task that the flags select, or those of all tasks, the latest first.
func (r *runFlags) of(ctx context.Context, records *apiclient.Client, task string) ([]apispec.Run, error) {
	if task == "" {
		runs, err := records.LatestRuns(ctx, r.limit)
		return r.behind(runs), err
	}
	runs, err := records.Runs(ctx, task)
	if apiclient.Missing(err) {
		return nil, fmt.Errorf("there is no task %q%s: `terrapulse status` lists the tasks", task, meant(ctx, records, task))
	}
	runs = r.behind(runs)
	return runs[:min(len(runs), r.limit)], err
}

// behind leaves out runs that are not after the one that the flags name. Ids sort by time.
func (r *runFlags) behind(runs []apispec.Run) []apispec.Run {
	after := strings.ToLower(r.after)
	return slices.DeleteFunc(runs, func(run apispec.Run) bool { return run.ID <= after || after != "" && strings.HasPrefix(run.ID, after) })
}

// runsCommand lists the runs of a task, or the latest of all tasks.
func (a *app) runsCommand() command {
	var from doorFlags
	var selected runFlags
	f := a.flagSet("runs")
	from.register(f)
	selected.register(f)
	return command{flags: f, synopsis: "List the runs of a task, or of all tasks",
		examples: []string{onFile + " load-balancer", "-stack=network -limit 200", "-http-addr http://localhost:8558 -json load-balancer"},
		codes:    codesOfStore, args: a.tasks(f, from.taskNames),
		help: fmt.Sprintf(`Usage: terrapulse runs [flags] [TASK]

  Lists the newest runs of a task, or of all tasks, the latest first.
  The latest %d runs of each task are kept.
`, state.History),
		run: func(arguments []string) int {
			if len(arguments) > 1 {
				return a.oneTask("runs", arguments)
			}
			if err := selected.check(); err != nil {
				return a.fail(exitFlags, err)
			}
			records, code := from.open(a, stores.Place.Read)
			if code >= 0 {
				return code
			}
			defer records.Close()
			task := strings.Join(arguments, "")
			runs, err := selected.of(a.ctx, records.Client, task)
			if err != nil {
				return a.fail(exitError, err)
			}
			if a.json {
				return a.printJSON(runs)
			}
			a.printRuns(runs, task == "")
			return exitOK
		},
	}
}

// printRuns prints a row for each run, with the name of its task if they are of several.
func (a *app) printRuns(runs []apispec.Run, several bool) {
	var t table
	header := []string{"RUN", "STARTED", "DURATION", "OUTCOME", "CHANGES"}
	if several {
		header = append(header, "TASK") // the last column: a name may be long
	}
	t.row(plain, header...)
	for _, r := range runs {
		cells := []string{shortened(r.ID), at(r.Started), tookOf(r), apiview.Outcome(r), changesOf(r.Changes)}
		if several {
			cells = append(cells, r.Task)
		}
		t.row(outcome(r), cells...)
		printAbout(&t, r)
	}
	t.print(a.stdout)
}

// printAbout adds lines about why a run was, and what came of it.
func printAbout(t *table, r apispec.Run) {
	text := fmt.Sprintf("why: %s: %s", r.Reason.Code, r.Reason.Text)
	if r.Kind != apispec.RunKindApply {
		text = string(r.Kind) + ", " + text
	}
	if r.Error != nil {
		text += ": " + strings.SplitN(*r.Error, "\n", 2)[0]
	}
	t.line(text)
	if v := apiview.VerificationOf(r.Verification); !v.Passed() {
		t.line("not verified: " + v.String())
	}
	if r.Remote != nil {
		t.line("in HCP Terraform: " + r.Remote.URL)
	}
	if e := r.Entries; e != nil && !strings.Contains(text, e.Text) {
		t.line("changed in Consul: " + e.Text)
	}
}

// tookOf is the cell of how long a run worked.
func tookOf(r apispec.Run) string {
	worked, ended := apiview.Worked(r)
	if !ended {
		return "-"
	}
	return rounded(worked).String()
}

// changesOf is the cell of what an apply did.
func changesOf(ch *apispec.Changes) string {
	switch {
	case ch == nil:
		return "-"
	case apispec.Deref(ch.Unknown):
		return "unknown"
	}
	return fmt.Sprintf("+%d ~%d -%d", ch.Add, ch.Change, ch.Destroy)
}

// outcome is what the outcome of a run means to its reader.
func outcome(r apispec.Run) news {
	switch r.State {
	case apispec.RunStateSucceeded:
		if apiview.Outcome(r) == apiview.NotVerified {
			return bad
		}
		return good
	case apispec.RunStateFailed, apispec.RunStateLost, apispec.RunStateCancelled:
		return bad
	}
	return plain
}
