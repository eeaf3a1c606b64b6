package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/instance"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/reload"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/syslog"
)

// startCommand runs tasks when Consul changes, or once.
type startCommand struct {
	*app
	startOptions
}

func (c *startCommand) about() about {
	f, o := newFlags("start"), &c.startOptions
	o.config.register(f)
	o.log.register(f)
	storeURLFlag(f, &o.store)
	parallelFlag(f, &o.parallel, "run")
	f.BoolVar(&o.once, "once", false, "Run every enabled task one time and end.")
	f.DurationVar(&o.wait, "wait", 5*time.Minute, "With -once, how long to wait for another instance that leads on the store and cannot be requested to run the tasks. 0: not at all.")
	f.StringVar(&o.address, "http-addr", "", "With -once, the `address` of the HTTP API of an instance that leads on the store. Default: the address that it has recorded there.")
	f.BoolVar(&o.json, "json", false, "With -once or -inspect: print JSON, for scripts.")
	f.BoolVar(&o.reset, "reset-storage", false, "First undo the changes of tasks that were made through the API, and list them.")
	f.StringVar(&o.allowOrigin, "allow-origin", "", "Let web pages of this `origin` use the HTTP API from a browser, such as https://ops.example.com, or * for any.")
	o.inspect.register(f)
	f.StringVar(&o.cts.clientType, "client-type", "", "")
	f.BoolVar(&o.cts.implied, "deprecated-start-up", false, "")
	return about{flags: f, synopsis: "Run tasks whenever Consul changes, or once with -once", examples: []string{onFile, "-once " + onFile, "-config-dir /etc/terrapulse -log-format json"},
		values: map[string]complete.Predictor{"inspect-task": c.tasks(f, o.config.taskNames)},
		codes:  []int{exitOK, exitError, exitInterrupted, exitMissing, exitFlags, exitConfig, exitTerraform},
		help: `Usage: terrapulse start [flags]

  Watches Consul and applies a task's Terraform module whenever its condition
  is met. Each enabled task runs once at the start. Several instances may share
  one store: one of them leads, the others take over when it ends.

  -once runs every enabled task one time and ends: exit code 0 when all were
  applied, 11 when any was not. -inspect shows what would be changed.
`}
}

// startOptions are the flags of start.
type startOptions struct {
	config   configFlags
	log      logFlags
	store    string
	parallel int
	once     bool
	wait     time.Duration // for the lease of another instance
	address  string        // of the API of the instance that leads
	json     bool
	reset    bool
	// allowOrigin lets web pages of this origin use the API.
	allowOrigin string
	inspect     inspectOptions
	cts         ctsFlags
	flush       func() // sends the last log lines to syslog
}

// load reads the configuration, sets up the log and logs warnings.
func (o *startOptions) load(a *app) (*config.Config, *slog.Logger, int) {
	o.flush = func() {}
	cfg, code := o.config.load(a)
	if code >= 0 {
		return nil, nil, code
	}
	log, err := o.log.logger(a, cfg.LogLevel)
	if err != nil {
		return nil, nil, a.fail(exitFlags, err)
	}
	if cfg.Syslog.Enabled {
		handler, err := syslog.New(cfg.Syslog, levels[strings.ToUpper(cmp.Or(o.log.level, cfg.LogLevel))])
		if err != nil {
			return nil, nil, a.fail(exitConfig, err)
		}
		o.flush = handler.Close
		log = slog.New(slog.NewMultiHandler(log.Handler(), handler))
		slog.SetDefault(log)
	}
	instance.LogWarnings(log, cfg)
	return cfg, log, -1
}

func (c *startCommand) run(arguments []string) int {
	o := &c.startOptions
	if err := o.cts.check(c.app); err != nil {
		return c.fail(exitFlags, err)
	}
	if o.json && (o.cts.clientType != "" || !o.once && !o.inspect.wanted()) {
		return c.fail(exitFlags, errors.New("-json goes with -once or -inspect"))
	}
	var files *reload.Watcher
	if !o.once && !o.inspect.wanted() { // before they are read, so that no change falls in between
		signal.Reset(syscall.SIGHUP) // it asks for the files to be read again, and stops nothing
		files = reload.Watch(c.ctx, slog.Default(), o.config.names()...)
	}
	read := time.Now()
	var shown *progress
	if o.once || o.inspect.wanted() { // before anything is logged
		var end func()
		shown, end = c.showProgress()
		defer end()
	}
	cfg, log, code := o.load(c.app)
	if code >= 0 {
		return code
	}
	defer o.flush()
	if o.cts.clientType == development {
		return c.develop(cfg)
	}
	if o.inspect.wanted() {
		return c.printPlans(cfg, log, o, shown)
	}

	// Where nobody reads the output any more, such as a tee that Ctrl-C has ended,
	// writing fails, and must not end the program while Terraform is at work. What
	// it starts knows nothing of that, as it would if the signal were ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	opts := instance.Options{Version: version, Store: o.store, Parallel: o.parallel, NeedsConsul: o.once, Log: log}
	if shown != nil {
		opts.Watch, opts.Ended = shown.watch, func(run state.Run) { shown.end(run.Task) }
	}
	e, err := instance.New(c.ctx, cfg, opts)
	switch {
	case err != nil && c.ctx.Err() != nil && !o.once:
		fmt.Fprintln(c.stderr, "stopped before anything was run")
		return exitOK // as requested
	case err != nil:
		code = exitConfig
		if errors.Is(err, instance.ErrTerraform) {
			code = exitTerraform
		}
		code = c.unready(code, err)
		if o.once {
			c.printNotRun(cfg)
		}
		return code
	}
	defer e.Close()
	if o.reset {
		out := c.stdout
		if o.json {
			out = c.stderr
		}
		if code := c.reset(e, out); code >= 0 {
			return code
		}
	}
	if o.once {
		shown.set(log, "running", enabled(cfg))
		e.Reconciler.Patience = o.wait
		if o.wait <= 0 {
			e.Reconciler.Patience = -1
		}
		leader := &instance.Leader{Instance: e, Address: o.address, API: environmentAPI, Waits: c.saysWhy}
		e.Reconciler.Elsewhere = leader.Run
		code := c.once(e, read, shown, o.json)
		c.ctsOnce(code)
		return code
	}
	err = e.Run(c.ctx, instance.RunOptions{Files: files, Read: o.config.read, ReadAt: read, Store: o.store, AllowOrigin: o.allowOrigin})
	if err != nil {
		return c.fail(exitError, err)
	}
	return exitOK
}

// printNotRun prints which tasks were not run because the set-up failed.
func (c *startCommand) printNotRun(cfg *config.Config) {
	for i := range cfg.Tasks {
		if cfg.Tasks[i].Enabled {
			fmt.Fprintf(c.stderr, "Task %s was not run.\n", cfg.Tasks[i].Name)
		}
	}
}

// reset removes the changes that were made through the API, and prints them.
func (c *startCommand) reset(e *instance.Instance, out io.Writer) int {
	forgotten, err := e.Control().Reset(c.ctx)
	for _, o := range forgotten {
		fmt.Fprintf(out, "forgotten: task %s (%s)\n", o.Task, cmp.Or(o.String(), "its record could not be decoded"))
	}
	if err != nil {
		return c.fail(exitError, err)
	}
	if len(forgotten) == 0 {
		fmt.Fprintln(out, "nothing was changed through the API: there is nothing to undo")
	}
	return -1
}

// once runs every task one time and sums up.
func (c *startCommand) once(e *instance.Instance, began time.Time, shown *progress, asJSON bool) int {
	outcomes, err := e.Reconciler.Once(c.ctx, e.Launcher.Wait)
	shown.clear()
	for i := range outcomes {
		if o := &outcomes[i]; o.Run != nil && o.Run.State.Active() {
			o.Err = cmp.Or(e.Launcher.Lost(o.Run.ID), o.Err)
		}
	}
	code := exitOK
	switch {
	case asJSON:
		code = c.printReport(outcomes, nil, time.Since(began))
	case len(outcomes) > 0:
		code = c.summarise(outcomes, time.Since(began))
	}
	switch {
	case err == nil && len(outcomes) == 0 && !asJSON:
		fmt.Fprintln(c.stdout, "no tasks configured")
	case c.ctx.Err() == nil && slices.ContainsFunc(outcomes, func(o reconcile.Outcome) bool { return o.Err != nil }):
		return exitError // it was said which tasks were concerned
	case err != nil && c.ctx.Err() != nil:
		return c.fail(exitError, errors.New("stopped before every task had its run"))
	case err != nil:
		return c.fail(exitError, err)
	}
	return code
}

// summarise prints a line for each task and, if it is known how long they took
// together, one for all.
func (a *app) summarise(outcomes []reconcile.Outcome, elapsed time.Duration) int {
	code := exitOK
	var t table
	t.row(plain, "TASK", "OUTCOME", "DURATION", "ADDED", "CHANGED", "DESTROYED")
	for _, o := range outcomes {
		n := good
		if o.Failed() {
			n, code = bad, exitError
		}
		if notBegun(o) {
			word := "not run"
			if o.Reason.Code == state.ReasonDisabled {
				n, word = plain, "disabled"
			}
			t.row(n, o.Task, word, "-", "-", "-", "-")
			continue
		}
		if o.Run.State.Active() && o.Err != nil {
			t.row(n, o.Task, "not recorded", "-", "-", "-", "-")
			continue
		}
		t.row(n, append([]string{o.Task, string(o.Run.State), took(*o.Run)}, counts(o.Run.Changes)...)...)
	}
	t.print(a.stdout)
	if elapsed > 0 {
		fmt.Fprintf(a.stdout, "\n%s\n", summaryOf(outcomes, elapsed))
	}
	unrun := map[string][]string{} // tasks that were not run, by the reason
	for _, o := range outcomes {
		switch {
		case o.Err != nil && notBegun(o):
			unrun[o.Err.Error()] = append(unrun[o.Err.Error()], o.Task)
		case o.Err != nil && o.Run.State.Active():
			fmt.Fprintf(a.stderr, "\nTask %s has no outcome in the store, and will be run again: %s\n", o.Task, o.Err)
		case o.Run != nil && (o.Run.State == state.RunInterrupted || o.Run.State == state.RunCancelled):
			fmt.Fprintf(a.stderr, "\nTask %s was %s: %s\n", o.Task, o.Run.State, o.Run.Error)
		case o.Run != nil && o.Run.State == state.RunWaiting:
			fmt.Fprintf(a.stderr, "\nTask %s %s\n", o.Task, o.Run.Wait)
		case o.Run != nil && o.Run.Error != "":
			fmt.Fprintf(a.stderr, "\nTask %s failed: %s\n", o.Task, o.Run.Error)
		case o.Run != nil && notBegun(o):
			fmt.Fprintf(a.stderr, "\nTask %s was not run: it never started\n", o.Task)
		case o.Run == nil && o.Failed():
			fmt.Fprintf(a.stderr, "\nTask %s was not run: %s\n", o.Task, o.Reason.Text)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(unrun)) {
		switch tasks := unrun[why]; len(tasks) {
		case 1:
			fmt.Fprintf(a.stderr, "\nTask %s was not run: %s\n", tasks[0], why)
		default:
			fmt.Fprintf(a.stderr, "\nTasks %s were not run: %s\n", strings.Join(tasks, ", "), why)
		}
	}
	return code
}

// summaryOf is one line about all tasks.
func summaryOf(outcomes []reconcile.Outcome, took time.Duration) string {
	counted := map[string]int{}
	var all state.Changes
	inspected := false
	for _, o := range outcomes {
		switch {
		case o.Run == nil && o.Reason.Code == state.ReasonDisabled:
			counted["disabled"]++
			continue
		case notBegun(o):
			counted["not run"]++
			continue
		}
		counted[string(o.Run.State)]++
		inspected = inspected || o.Run.Kind == state.KindPlan
		all.Include(o.Run.Changes)
	}
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(counted)) {
		parts = append(parts, fmt.Sprintf("%d %s", counted[word], word))
	}
	changes := all.String()
	if inspected {
		changes = fmt.Sprintf("%d to add, %d to change, %d to destroy", all.Add, all.Change, all.Destroy)
	}
	return fmt.Sprintf("%s in %s: %s; %s", tasksOf(len(outcomes)), rounded(took), strings.Join(parts, ", "), changes)
}

// rounded is a duration as people read it.
func rounded(d time.Duration) time.Duration {
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

// notBegun reports whether the task was not run, although that may have been decided.
func notBegun(o reconcile.Outcome) bool {
	return o.Run == nil || o.Run.State == state.RunIntended
}

// took is the cell of how long a run took.
func took(r state.Run) string {
	if r.Started.IsZero() || r.Ended.IsZero() {
		return "-"
	}
	return rounded(r.Worked(r.Ended)).String()
}

// counts are the cells of what an apply did.
func counts(ch *state.Changes) []string {
	if ch == nil {
		return []string{"-", "-", "-"}
	}
	return []string{strconv.Itoa(ch.Add), strconv.Itoa(ch.Change), strconv.Itoa(ch.Destroy)}
}
