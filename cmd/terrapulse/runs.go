package main

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// runsCommand lists a task's runs.
func (a *app) runsCommand() command {
	var from recordFlags
	f := a.flagSet("runs")
	from.register(f)
	return command{flags: f, synopsis: "List the runs of a task",
		examples: []string{onFile + " load-balancer", "-stack=network load-balancer", "-http-addr http://localhost:8558 -json load-balancer"},
		codes:    codesOfStore, args: a.tasks(f, from.taskNames),
		help: fmt.Sprintf(`Usage: terrapulse runs [flags] TASK

  Lists the newest runs of a task, at most %d, the latest first.
`, state.History),
		run: func(arguments []string) int {
			if code := a.oneTask("runs", arguments); code >= 0 {
				return code
			}
			records, code := from.open(a)
			if code >= 0 {
				return code
			}
			defer records.Close()
			runs, err := records.Runs(a.ctx, arguments[0])
			if apiclient.Missing(err) {
				return a.fail(exitError, fmt.Errorf("there is no task %q: `terrapulse status` lists the tasks", arguments[0]))
			}
			if err != nil {
				return a.fail(exitError, err)
			}
			if a.json {
				return a.printJSON(runs)
			}
			var t table
			t.row(plain, "RUN", "STARTED", "DURATION", "OUTCOME", "CHANGES")
			for _, r := range runs {
				t.row(outcome(r), shortened(r.ID), at(r.Started), tookOf(r), apiview.Outcome(r), changesOf(r.Changes))
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
			t.print(a.stdout)
			return exitOK
		},
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
