package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/stack"
	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// invokeCommand starts runs in AWS by hand.
func (a *app) invokeCommand() command {
	var stackName string
	var once, inspect, wait bool
	var tasks []string
	var supposed supposeFlags
	f := a.flagSet("invoke")
	stackFlag(f, &stackName)
	f.BoolVar(&once, "once", false, "Run the tasks now, even if nothing has changed.")
	f.BoolVar(&inspect, "inspect", false, "Plan the tasks and apply nothing.")
	f.Func("task", "The `name` of a task to run or inspect. Repeatable. Default: every enabled task.", func(s string) error {
		tasks = append(tasks, s)
		return nil
	})
	f.BoolVar(&wait, "wait", false, "Wait for the runs to end and print their progress.")
	supposed.register(f)
	f.Lookup("json").Usage = "Print JSON, for scripts: the function's answer or, with -wait, the outcomes of the runs."
	return command{flags: f, synopsis: "Start runs of a deployment in AWS and follow them",
		examples: []string{"-stack=network", "-stack=network -once -task=firewall -wait", "-stack=network -inspect -without node=n7 -wait"}, codes: []int{exitOK, exitWaits, exitError, exitMissing, exitFlags, exitConfig},
		help: `Usage: terrapulse invoke -stack=NAME [flags]

  Invokes the function of a deployment in AWS: without -once and -inspect for
  one tick, as the schedule does every minute. With -wait it follows
  the runs that were started, prints a summary, and ends with the exit codes of
  once-mode: 0 if all is well, 3 if a task is stopped or waits for an approval
  or its window, 11 if a run failed.

  With -inspect and -without or -with it plans only the tasks whose data would
  differ if that were so in Consul, and with -wait it says what would happen to
  them, as ` + "`terrapulse inspect`" + ` does.
`,
		run: func([]string) int {
			switch {
			case once && inspect:
				return a.fail(exitFlags, errors.New("-once and -inspect exclude each other: an inspection applies nothing"))
			case supposed.asked() && !inspect:
				return a.fail(exitFlags, errors.New("-without and -with go with -inspect"))
			case len(tasks) > 0 && !once && !inspect:
				return a.fail(exitFlags, errors.New("-task goes with -once or -inspect"))
			}
			req := invoke.Request{Mode: invoke.Reconcile, Tasks: tasks, Refresh: true}
			switch {
			case once:
				req.Mode = invoke.Once
			case inspect:
				req.Mode = invoke.Inspect
			}
			if req.Mode != invoke.Reconcile {
				req.By = userAtHost()
			}
			if supposed.asked() {
				text, err := json.Marshal(supposed.what)
				if err != nil {
					return a.fail(exitError, err)
				}
				req.WhatIf = text
			}
			st, code := a.findStack(stackName)
			if code >= 0 {
				return code
			}
			asked := time.Now()
			answer, err := st.Invoke(a.ctx, req)
			if err != nil {
				return a.fail(exitError, err)
			}
			if a.json && !wait {
				return a.printJSON(answer)
			}
			a.explain(answer)
			if answer.Skipped != "" && req.Mode != invoke.Reconcile {
				return a.fail(exitError, errors.New("nothing was started: try again in a moment"))
			}
			if !wait {
				return exitOK
			}
			return a.followRuns(st, asked, answer, tasks)
		},
	}
}

// followRuns waits for the runs that the function has started, and prints their plans and a summary.
func (a *app) followRuns(st *stack.Stack, asked time.Time, answer invoke.Answer, tasks []string) int {
	store, err := st.Store(a.ctx)
	if err != nil {
		return a.fail(exitConfig, err)
	}
	defer store.Close()
	if q := answer.WhatIf; q != nil && len(q.Runs) == 0 {
		return a.showWhatIf(apiview.Question(*q, nil, time.Now()), false, time.Since(asked))
	}
	outcomes, err := stack.Follow(a.ctx, store, asked, answer, tasks, a.progress)
	if err != nil {
		return a.fail(exitError, err)
	}
	plans := map[string]string{}
	if answer.Mode == invoke.Inspect {
		plans = a.plans(store, outcomes)
	}
	if q := answer.WhatIf; q != nil {
		return a.showWhatIf(answered(*q, outcomes, plans), false, time.Since(asked))
	}
	if a.json {
		return a.printReport(outcomes, plans, time.Since(asked))
	}
	for _, out := range outcomes {
		if plan, ok := plans[out.Task]; ok {
			fmt.Fprintf(a.stdout, "### Task %s\n%s\n\n", out.Task, plan)
		}
	}
	return a.summarise(outcomes, time.Since(asked))
}

// answered is what would happen under a what-if, with the plans of its runs.
func answered(q state.Question, outcomes []reconcile.Outcome, plans map[string]string) apispec.WhatIf {
	runs := map[string]state.Run{}
	for _, o := range outcomes {
		if o.Run != nil {
			runs[o.Run.ID] = *o.Run
		}
	}
	w := apiview.Question(q, runs, time.Now())
	for i := range w.Results {
		w.Results[i].Plan = apiview.Optional(plans[w.Results[i].Task])
	}
	return w
}

// explain prints what the function has decided.
func (a *app) explain(answer invoke.Answer) {
	switch {
	case answer.Skipped != "":
		fmt.Fprintf(a.stderr, "Skipped: %s\n", answer.Skipped)
	case answer.Idle:
		fmt.Fprintln(a.stderr, "Nothing has changed and nothing is due.")
	}
	if answer.Paused != nil {
		fmt.Fprintf(a.stderr, "Everything is %s.\n", answer.Paused)
	}
	if answer.Problem != "" {
		fmt.Fprintf(a.stderr, "Problem: %s\n", answer.Problem)
	}
	started := map[string]invoke.Run{}
	for _, r := range answer.Runs {
		started[r.Task] = r
		fmt.Fprintf(a.stderr, "%s: run %s was requested\n", r.Task, r.Run)
	}
	for _, d := range answer.Decisions {
		if _, ok := started[d.Task]; !ok && d.Reason.Code != state.ReasonUnchanged {
			fmt.Fprintf(a.stderr, "%s: %s: %s\n", d.Task, d.Reason.Code, d.Reason.Text)
		}
	}
}

// progress is a line for each step of a run.
func (a *app) progress(run state.Run) {
	said := string(run.State)
	if run.State == state.RunIntended {
		said = "waiting for its container"
	}
	if run.Changes != nil && run.Kind.Applies() {
		said += " (" + run.Changes.String() + ")"
	}
	fmt.Fprintf(a.stderr, "%s %s: %s\n", clock.Local(time.Now()), run.Task, said)
}

// plans returns what each inspection says, by task.
func (a *app) plans(store *stores.Store, outcomes []reconcile.Outcome) map[string]string {
	plans := map[string]string{}
	for _, o := range outcomes {
		if o.Run == nil || o.Run.State != state.RunSucceeded {
			continue
		}
		text, err := store.Output(a.ctx, *o.Run)
		if err != nil {
			a.fail(exitError, fmt.Errorf("read the plan of task %s: %w", o.Task, err))
			continue
		}
		plans[o.Task] = strings.TrimSpace(string(text))
	}
	return plans
}
