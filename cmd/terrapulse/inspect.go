package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/suggest"
	"github.com/terrapulse/terrapulse/internal/driver/preview"
	"github.com/terrapulse/terrapulse/internal/process/examine"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const detailedExitCode = "With -inspect: exit code 0 means no changes, 2 changes, 11 an error."

// inspectOptions are the flags of start that inspect.
type inspectOptions struct {
	all      bool
	tasks    []string
	exitCode bool
}

func (o *inspectOptions) register(f *flag.FlagSet) {
	f.BoolVar(&o.all, "inspect", false, "Show what every task would change, change nothing, and end.")
	f.Func("inspect-task", "Show what this `task` would change, change nothing, and end. Repeatable.", func(s string) error {
		o.tasks = append(o.tasks, s)
		return nil
	})
	f.BoolVar(&o.exitCode, "detailed-exitcode", false, detailedExitCode)
}

func (o *inspectOptions) wanted() bool { return o.all || len(o.tasks) > 0 }

// inspectCommand shows what runs would change: `start -inspect` by a shorter name. With
// -without or -with it shows what they would change if Consul showed other data.
func (a *app) inspectCommand() command {
	var o startOptions
	var w whatIfOptions
	var markdown bool
	f := a.flagSet("inspect")
	base := f.String("base", "", "With a running instance: a `folder` with the current folder's files before the change. Says which settings and which code of local modules differ.")
	o.config.register(f)
	o.log.register(f)
	parallelFlag(f, &o.parallel, "are planned")
	f.BoolVar(&o.inspect.exitCode, "detailed-exitcode", false, detailedExitCode)
	f.BoolVar(&markdown, "markdown", false, "Print Markdown, as for a comment on a pull request.")
	w.register(f)
	return command{flags: f, synopsis: "Show what tasks would change, and change nothing",
		examples: []string{onFile, onFile + " -detailed-exitcode load-balancer", onFile + " -without node=n7", "-http-addr http://localhost:8558 -without service=web", "-http-addr http://cts-1:8558 -config-dir tasks -markdown"},
		codes:    codesOfPlan, args: a.tasks(f, o.config.taskNames),
		help: `Usage: terrapulse inspect [flags] [TASK...]

  Plans all tasks, or those that are named, with what Consul says now. Nothing
  is changed, no workspace is made and no file is left behind.

  With -without or -with it answers a what-if: it plans the tasks whose data
  would differ if something were gone from Consul, or there besides, and says
  what would happen to them: whether they would be applied, held or would wait,
  and why. Nothing is applied, and no record of a task changes. Without an
  instance it compares with the records in the store, if there is one. With
  -http-addr, -port or -stack a running instance or deployment answers.

  With task files and -http-addr or -port, a running instance plans each task
  whose definition in the files differs from the one with which it works, with
  its own Terraform, and says what would happen to it. The definitions are only
  planned: nothing is kept. Modules with relative paths are those of the
  instance. A token needs the role administer for each task that differs; tasks
  that it may not view are left out.

  A datacenter that is gone differs from one that cannot be reached: Consul
  then gives no answer, tasks that read it wait, and nothing is applied.
`,
		run: func(arguments []string) int {
			if code := w.check(a); code >= 0 {
				return code
			}
			o.inspect.tasks = arguments
			if markdown && (w.asked() || a.json) {
				return a.fail(exitFlags, errors.New("-markdown is for plans: not with -without, -with or -json"))
			}
			if !w.asked() && w.named() {
				return a.inspectChanged(&o, *base, &w, markdown)
			}
			if w.asked() && w.elsewhere() {
				return a.askWhatIf(&w, &o)
			}
			shown, end := a.showProgress()
			defer end()
			cfg, log, code := o.load(a)
			if code >= 0 {
				return code
			}
			defer o.flush()
			if w.asked() {
				return a.printWhatIf(cfg, log, &o, &w, shown)
			}
			return a.printPlans(cfg, log, &o, shown, markdown)
		},
	}
}

// printPlans plans tasks and prints the plans in the order of the configuration.
func (a *app) printPlans(cfg *config.Config, log *slog.Logger, opts *startOptions, shown *progress, markdown bool) int {
	o := opts.inspect
	began := time.Now()
	planner, tasks, stop, code := a.planner(cfg, log, opts, shown)
	defer stop()
	if code >= 0 {
		return code
	}
	shown.set(log, "being planned", len(tasks))
	results := planner.Plan(a.ctx, tasks)
	shown.clear()
	code = exitOK
	for _, r := range results {
		switch {
		case r.Err != nil:
			code = exitError
		case o.exitCode && code == exitOK && r.Plan.Changes.Any():
			code = exitChanges
		}
	}
	if a.json {
		return cmp.Or(a.printPlansAsJSON(results), code)
	}
	if markdown {
		fmt.Fprint(a.stdout, asMarkdown(list.Map(results, reported), comparison{tasks: len(results)}))
		return code
	}
	for _, r := range results {
		task, text := r.Task, strings.TrimSpace(r.Plan.Text)
		if !task.Enabled {
			text = "The task is disabled: it was not planned."
		}
		if r.Err == nil && a.ctsInspected(task, text) {
			continue
		}
		fmt.Fprintf(a.stdout, "### Task %s\n", task.Name)
		if r.Err != nil {
			a.fail(exitError, fmt.Errorf("inspect task %s: %w", task.Name, r.Err))
			continue
		}
		if before := cfg.Order().Predecessors(task.Name); len(before) > 0 && task.Enabled && !a.isCTS() {
			fmt.Fprintf(a.stdout, "It runs after %s; this plan reads what these have made until now.\n", state.Some(before, "and"))
		}
		fmt.Fprintf(a.stdout, "%s\n\n", text)
	}
	if code != exitError {
		a.ctsEnded()
	}
	if !a.isCTS() {
		fmt.Fprintln(a.stdout, planned(results, time.Since(began)))
	}
	return code
}

// planner returns what plans tasks, and the tasks to plan. The exit code is -1 if all is well.
func (a *app) planner(cfg *config.Config, log *slog.Logger, opts *startOptions, shown *progress) (p preview.Planner, tasks []*config.Task, stop func(), code int) {
	named := opts.inspect.tasks
	for _, name := range named {
		if _, ok := cfg.Task(name); !ok {
			return p, nil, func() {}, a.fail(exitConfig, unknownTask(cfg, name))
		}
	}
	for i := range cfg.Tasks {
		if len(named) == 0 || slices.Contains(named, cfg.Tasks[i].Name) {
			tasks = append(tasks, &cfg.Tasks[i])
		}
	}
	search, stop := instance.Carry(a.ctx, cfg, opts.parallel, log)
	client, code := a.connect(cfg)
	if code >= 0 {
		return p, tasks, stop, code
	}
	instance.WarnAccess(a.ctx, client, log)
	for _, warning := range examine.Misspelt(a.ctx, client, tasks) {
		log.Warn(warning)
	}
	carrier, err := search()
	if err != nil {
		return p, tasks, stop, a.unready(exitTerraform, err)
	}
	return preview.Planner{
		Config: cfg, Consul: client, Driver: carrier, Parallel: carrier.Parallel, Log: log, Begin: shown.begin, End: shown.end,
	}, tasks, stop, -1
}

// planned is one line about all plans.
func planned(results []preview.Result, took time.Duration) string {
	var all state.Changes
	changing, failed := 0, 0
	for _, r := range results {
		switch {
		case r.Err != nil:
			failed++
		case r.Plan.Changes.Any():
			changing++
			all.Include(r.Plan.Changes)
		}
	}
	return fmt.Sprintf("%s in %s: %d with changes, %d failed; %s", tasksOf(len(results)), rounded(took), changing, failed, all.ToDo())
}

// unknownTask returns an error that says which tasks there are.
func unknownTask(cfg *config.Config, name string) error {
	names := namesOf(cfg)
	meant := suggest.Meant(name, names)
	if len(names) > 10 {
		names = append(names[:10], "…")
	}
	return fmt.Errorf("task not found: %s%s; the configuration has %q", name, meant, names)
}

// namesOf returns the names of the tasks.
func namesOf(cfg *config.Config) []string {
	return list.Map(cfg.Tasks, func(t config.Task) string { return t.Name })
}
