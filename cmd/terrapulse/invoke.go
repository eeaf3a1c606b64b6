package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/pause"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// followEvery is how often runs under way are looked at. A container takes
// about half a minute to start.
const followEvery = time.Second

// invokeCommand starts runs in AWS by hand.
type invokeCommand struct{ *app }

func (c *invokeCommand) Synopsis() string {
	return "Start runs of a deployment in AWS by hand, and follow them"
}

func (c *invokeCommand) Help() string {
	return `Usage: terrapulse invoke -stack=NAME [flags]

  Invokes the function of a deployment in AWS: without -once and -inspect for
  one look at Consul, as the schedule does every minute. With -wait it follows
  the runs that were started, prints a summary, and ends with the exit codes of
  once-mode: 0 if all is well, 11 if a run failed.
`
}

func (c *invokeCommand) about() about {
	f, _ := c.flags()
	return about{flags: f, examples: []string{"-stack=network", "-stack=network -once -task=firewall -wait"},
		codes: codesOfStore}
}

type invokeOptions struct {
	stack         string
	once, inspect bool
	tasks         []string
	wait, json    bool
}

func (c *invokeCommand) flags() (*flag.FlagSet, *invokeOptions) {
	f, o := newFlags("invoke"), &invokeOptions{}
	stackFlag(f, &o.stack)
	f.BoolVar(&o.once, "once", false, "Run the tasks now, whatever has changed.")
	f.BoolVar(&o.inspect, "inspect", false, "Say what an apply of the tasks would do, and apply nothing.")
	f.Func("task", "The `name` of a task to run or inspect. Repeatable. Default: every enabled task.", func(s string) error {
		o.tasks = append(o.tasks, s)
		return nil
	})
	f.BoolVar(&o.wait, "wait", false, "Wait for the runs to end, and tell how each is going.")
	f.BoolVar(&o.json, "json", false, "Print JSON, for scripts: the function's answer or, with -wait, what came of the runs.")
	return f, o
}

func stackFlag(f *flag.FlagSet, name *string) {
	f.StringVar(name, "stack", "", "The `name` of the CloudFormation stack.")
}

func (c *invokeCommand) Run(args []string) int {
	f, o := c.flags()
	if code := c.parseAll(f, args); code >= 0 {
		return code
	}
	switch {
	case o.stack == "":
		return c.fail(exitMissing, errors.New("name the stack with -stack"))
	case o.once && o.inspect:
		return c.fail(exitFlags, errors.New("-once and -inspect exclude each other: an inspection applies nothing"))
	case len(o.tasks) > 0 && !o.once && !o.inspect:
		return c.fail(exitFlags, errors.New("-task goes with -once or -inspect"))
	}
	req := invoke.Request{Mode: invoke.Reconcile, Tasks: o.tasks, Refresh: true}
	switch {
	case o.once:
		req.Mode = invoke.Once
	case o.inspect:
		req.Mode = invoke.Inspect
	}
	st, err := findStack(c.ctx, o.stack)
	if err != nil {
		return c.fail(exitConfig, err)
	}
	asked := time.Now()
	answer, err := st.ask(c.ctx, req)
	if err != nil {
		return c.fail(exitError, err)
	}
	if o.json && !o.wait {
		return c.printJSON(answer)
	}
	c.explain(answer)
	if answer.Skipped != "" && req.Mode != invoke.Reconcile {
		return c.fail(exitError, errors.New("nothing was started: try again in a moment"))
	}
	if !o.wait {
		return exitOK
	}
	store, code := c.openStackStore(st)
	if code >= 0 {
		return code
	}
	defer store.Close()
	outcomes, err := c.follow(store, answer, o.tasks, asked)
	if err != nil {
		return c.fail(exitError, err)
	}
	plans := map[string]string{}
	if o.inspect {
		plans = c.plans(store, outcomes)
	}
	if o.json {
		return c.printReport(outcomes, plans, time.Since(asked))
	}
	for _, out := range outcomes {
		if plan, ok := plans[out.Task]; ok {
			fmt.Fprintf(c.stdout, "### Task %s\n%s\n\n", out.Task, plan)
		}
	}
	return c.summarise(outcomes, time.Since(asked))
}

// explain says what the function has decided.
func (a *app) explain(answer invoke.Answer) {
	switch {
	case answer.Skipped != "":
		fmt.Fprintf(a.stderr, "Skipped: %s\n", answer.Skipped)
	case answer.Idle:
		fmt.Fprintln(a.stderr, "Nothing has changed and nothing is due.")
	}
	if answer.Problem != "" {
		fmt.Fprintf(a.stderr, "Problem: %s\n", answer.Problem)
	}
	started := map[string]invoke.Run{}
	for _, r := range answer.Runs {
		started[r.Task] = r
		fmt.Fprintf(a.stderr, "%s: run %s was asked for\n", r.Task, r.Run)
	}
	for _, d := range answer.Decisions {
		if _, ok := started[d.Task]; !ok && d.Reason.Code != state.ReasonUnchanged {
			fmt.Fprintf(a.stderr, "%s: %s: %s\n", d.Task, d.Reason.Code, d.Reason.Text)
		}
	}
}

// follow tells how the runs are going until all have ended. A task that was
// asked for, which are all if none is named, and could not be run yet is waited
// for, too.
func (a *app) follow(store state.Store, answer invoke.Answer, tasks []string, asked time.Time) ([]reconcile.Outcome, error) {
	outcomes := make([]reconcile.Outcome, 0, len(answer.Runs))
	ids := map[string]string{} // of runs, by task
	for _, r := range answer.Runs {
		ids[r.Task] = r.Run
		outcomes = append(outcomes, reconcile.Outcome{Task: r.Task})
	}
	if answer.Mode == invoke.Once {
		for _, d := range answer.Decisions {
			if len(tasks) > 0 && !slices.Contains(tasks, d.Task) {
				continue
			}
			if _, ok := ids[d.Task]; !ok && d.Reason.Code != state.ReasonDisabled && d.Reason.Code != state.ReasonRemoved {
				outcomes = append(outcomes, reconcile.Outcome{Task: d.Task, Reason: d.Reason})
			}
		}
	}
	told := map[string]state.RunState{}
	for {
		open := 0
		for i := range outcomes {
			o := &outcomes[i]
			if o.Run != nil && o.Run.State.Ended() {
				continue
			}
			if err := a.look(store, o, ids, asked); err != nil {
				return outcomes, err
			}
			if o.Run == nil {
				if ids[o.Task] != "" || o.Reason.Code == state.ReasonRunning || o.Reason.Code == state.ReasonQueued {
					open++
				}
				continue
			}
			if told[o.Task] != o.Run.State {
				told[o.Task] = o.Run.State
				a.progress(*o.Run)
			}
			if !o.Run.State.Ended() {
				open++
			}
		}
		if open == 0 {
			return outcomes, nil
		}
		if !pause.For(a.ctx, followEvery) {
			return outcomes, errors.New("stopped waiting; the runs go on, see `terrapulse status`")
		}
	}
}

// look reads how the run of one task is going.
func (a *app) look(store state.Store, o *reconcile.Outcome, ids map[string]string, asked time.Time) error {
	if ids[o.Task] == "" {
		task, err := state.Read[state.Task](a.ctx, store, state.TaskKey(o.Task))
		if err != nil {
			return fmt.Errorf("read task %s: %w", o.Task, err)
		}
		o.Reason = task.Data.Reason
		if run := task.Data.Run; run != nil && task.Data.Forced == "" && run.Created.After(asked) {
			ids[o.Task] = run.ID
		} else if last := task.Data.Last; run == nil && last != nil && last.Started.After(asked) {
			ids[o.Task] = last.Run
		} else {
			return nil
		}
	}
	run, err := state.Read[state.Run](a.ctx, store, state.RunKey(o.Task, ids[o.Task]))
	if err != nil {
		return fmt.Errorf("read run %s of task %s: %w", ids[o.Task], o.Task, err)
	}
	if run.Exists() {
		o.Run, o.Reason = &run.Data, run.Data.Reason
	}
	return nil
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
	fmt.Fprintf(a.stderr, "%s %s: %s\n", time.Now().Format(clock), run.Task, said)
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
