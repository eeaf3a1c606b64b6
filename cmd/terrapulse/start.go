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

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/logging"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/serve"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/process/reload"
	"github.com/terrapulse/terrapulse/internal/process/syslog"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// startCommand runs tasks when Consul changes, or once.
func (a *app) startCommand() command {
	f, o := a.flagSet("start"), new(startOptions)
	o.config.register(f)
	o.log.register(f)
	storeURLFlag(f, &o.store)
	parallelFlag(f, &o.parallel, "run")
	f.BoolVar(&o.once, "once", false, "Run every enabled task one time and end.")
	f.DurationVar(&o.wait, "wait", 5*time.Minute, "With -once, how long to wait for another instance that leads on the store and cannot be requested to run the tasks. 0: not at all.")
	f.StringVar(&o.address, "http-addr", "", "With -once, the `address` of the HTTP API of an instance that leads on the store. Default: the address that it has recorded there.")
	f.Lookup("json").Usage = "With -once or -inspect: print JSON, for scripts."
	f.BoolVar(&o.reset, "reset-storage", false, "First undo the changes of tasks that were made through the API, and list them.")
	f.StringVar(&o.allowOrigin, "allow-origin", "", "Let web pages of this `origin` use the HTTP API from a browser, such as https://ops.example.com, or * for any.")
	o.inspect.register(f)
	f.StringVar(&o.cts.clientType, "client-type", "", "")
	f.BoolVar(&o.cts.implied, "deprecated-start-up", false, "")
	return command{flags: f, synopsis: "Run tasks whenever Consul changes, or once with -once", examples: []string{onFile, "-once " + onFile, "-config-dir /etc/terrapulse -log-format json"},
		values: map[string]complete.Predictor{"inspect-task": a.tasks(f, o.config.taskNames)},
		codes:  []int{exitOK, exitWaits, exitError, exitInterrupted, exitMissing, exitFlags, exitConfig, exitTerraform},
		help: `Usage: terrapulse start [flags]

  Watches Consul and applies a task's Terraform module whenever its condition
  is met. At the start, tasks run that are new, have changed or have failed.
  Several instances may share one store: one of them leads, the others take
  over when it ends.

  -once runs every enabled task one time and ends: exit code 0 when all were
  applied, 11 when any was not, and 3 when the rest is held, was stopped by a
  person, or waits for an approval or its window. -inspect shows what would be
  changed.
`,
		run: func([]string) int { return a.start(o) },
	}
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
		level, _ := logging.Named(cmp.Or(o.log.level, cfg.LogLevel))
		handler, err := syslog.New(cfg.Syslog, level)
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

func (a *app) start(o *startOptions) int {
	if err := o.cts.check(a); err != nil {
		return a.fail(exitFlags, err)
	}
	if a.json && (o.cts.clientType != "" || !o.once && !o.inspect.wanted()) {
		return a.fail(exitFlags, errors.New("-json goes with -once or -inspect"))
	}
	var files *reload.Watcher
	var shown *progress
	if o.once || o.inspect.wanted() { // before anything is logged
		var end func()
		shown, end = a.showProgress()
		defer end()
	} else { // before the files are read, so that no change falls in between
		signal.Reset(syscall.SIGHUP) // it asks for the files to be read again, and stops nothing
		files = reload.Watch(a.ctx, slog.Default(), list.Map(o.config.paths, func(p config.Path) string { return p.Name })...)
	}
	read := time.Now()
	cfg, log, code := o.load(a)
	if code >= 0 {
		return code
	}
	defer o.flush()
	if o.cts.clientType == development {
		return a.develop(cfg)
	}
	if o.inspect.wanted() {
		return a.printPlans(cfg, log, o, shown, false)
	}

	// Where nobody reads the output any more, such as a tee that Ctrl-C has ended,
	// writing fails, and must not end the program while Terraform is at work. What
	// it starts knows nothing of that, as it would if the signal were ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	if o.once {
		collectLess()
	}
	opts := instance.Options{
		Version: buildinfo.Version, StoreURL: o.store, Joins: o.once, Parallel: o.parallel, NeedsConsul: o.once, RunsHere: o.once, Log: log,
		Files: files, Read: o.config.read, ReadAt: read, AllowOrigin: o.allowOrigin,
	}
	if shown != nil {
		opts.Watch, opts.Ended = func(run state.Run) io.Writer { return shown.begin(run.Task) }, func(run state.Run) { shown.end(run.Task) }
	}
	e, err := instance.New(a.ctx, cfg, opts)
	switch {
	case err != nil && a.ctx.Err() != nil && !o.once:
		fmt.Fprintln(a.stderr, "stopped before anything was run")
		return exitOK // as requested
	case err != nil:
		code = exitConfig
		if errors.Is(err, instance.ErrTerraform) {
			code = exitTerraform
		}
		code = a.unready(code, err)
		for _, t := range cfg.Tasks {
			if o.once && t.Enabled {
				fmt.Fprintf(a.stderr, "Task %s was not run.\n", t.Name)
			}
		}
		return code
	}
	defer e.Close()
	if o.reset {
		if code := a.reset(e); code >= 0 {
			return code
		}
	}
	if o.once {
		shown.set(log, "running", len(slices.DeleteFunc(slices.Clone(cfg.Tasks), func(t config.Task) bool { return !t.Enabled })))
		e.Reconciler.Patience = o.wait
		if o.wait <= 0 {
			e.Reconciler.Patience = -1
		}
		leader := &instance.Leader{Instance: e, Address: o.address, API: environmentAPI, Waits: a.saysWhy}
		e.Reconciler.Elsewhere = leader.Run
		code := a.once(e, read, shown)
		a.ctsOnce(code)
		return code
	}
	err = e.Run(a.ctx)
	code = exitError
	if _, wrong := errors.AsType[*serve.SetupError](err); wrong {
		code = exitConfig
	}
	return max(a.fail(code, err), exitOK)
}

// reset removes the changes that were made through the API, and prints them.
func (a *app) reset(e *instance.Instance) int {
	out := a.stdout
	if a.json {
		out = a.stderr
	}
	forgotten, err := e.Control().Reset(audit.With(a.ctx, audit.Actor{Via: audit.Command, Keep: e.Control().AuditRetention}))
	for _, o := range forgotten {
		fmt.Fprintf(out, "forgotten: task %s (%s)\n", o.Task, cmp.Or(o.String(), "its record could not be decoded"))
	}
	if err == nil && len(forgotten) == 0 {
		fmt.Fprintln(out, "nothing was changed through the API: there is nothing to undo")
	}
	return a.fail(exitError, err)
}

// once runs every task one time and sums up.
func (a *app) once(e *instance.Instance, began time.Time, shown *progress) int {
	outcomes, err := e.Reconciler.Once(a.ctx, e.Launcher.Wait)
	shown.clear()
	for i := range outcomes {
		if o := &outcomes[i]; o.Run != nil && o.Run.State.Active() {
			o.Err = cmp.Or(e.Launcher.Lost(o.Run.ID), o.Err)
		}
	}
	code := exitOK
	switch {
	case a.json:
		code = a.printReport(outcomes, nil, time.Since(began))
	case len(outcomes) > 0:
		code = a.summarise(outcomes, time.Since(began))
	}
	switch {
	case err == nil && len(outcomes) == 0 && !a.json:
		fmt.Fprintln(a.stdout, "no tasks configured")
	case a.ctx.Err() == nil && slices.ContainsFunc(outcomes, func(o reconcile.Outcome) bool { return o.Err != nil }):
		return exitError // it was said which tasks were concerned
	case err != nil && a.ctx.Err() != nil:
		return a.fail(exitError, errors.New("stopped before every task had its run"))
	case err != nil:
		return a.fail(exitError, err)
	}
	return code
}

// summarise prints a line for each task and, if it is known how long they took
// together, one for all.
func (a *app) summarise(outcomes []reconcile.Outcome, elapsed time.Duration) int {
	var t table
	t.row(plain, "TASK", "OUTCOME", "DURATION", "ADDED", "CHANGED", "DESTROYED")
	for _, o := range outcomes {
		n, word := good, wordOf(o)
		cells := []string{"-", "-", "-", "-"}
		switch {
		case o.Failed():
			n = bad
		case o.Waits(), word == wordDisabled:
			n = plain
		}
		switch {
		case notBegun(o):
		case o.Run.State.Active() && o.Err != nil:
			word = "not recorded"
		default:
			cells[0] = took(*o.Run)
			if ch := o.Run.Changes; ch != nil {
				cells = []string{cells[0], strconv.Itoa(ch.Add), strconv.Itoa(ch.Change), strconv.Itoa(ch.Destroy)}
			}
		}
		t.row(n, append([]string{o.Task, word}, cells...)...)
	}
	t.print(a.stdout)
	if elapsed > 0 {
		fmt.Fprintf(a.stdout, "\n%s\n", summaryOf(outcomes, elapsed))
	}
	unrun := map[string][]string{} // tasks that were not run, by the reason
	for _, o := range outcomes {
		if o.Err != nil && notBegun(o) {
			unrun[o.Err.Error()] = append(unrun[o.Err.Error()], o.Task)
		} else if text := explanation(o); text != "" {
			fmt.Fprintf(a.stderr, "\nTask %s %s\n", o.Task, text)
			if o.Run != nil && o.Waits() && o.Run.Wait.For == state.WaitApproval {
				fmt.Fprintf(a.stderr, "`terrapulse plan show %s` shows the plan, `%s` approves it.\n", o.Task, o.Run.Wait.Command("approve", "", o.Task))
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(unrun)) {
		who := "Task %s was"
		if len(unrun[why]) > 1 {
			who = "Tasks %s were"
		}
		fmt.Fprintf(a.stderr, "\n"+who+" not run: %s\n", strings.Join(unrun[why], ", "), why)
	}
	return exitCodeOf(outcomes)
}

// exitCodeOf is the exit code of a command that ran tasks: a failure counts more than
// what is held or waits.
func exitCodeOf(outcomes []reconcile.Outcome) int {
	switch {
	case slices.ContainsFunc(outcomes, reconcile.Outcome.Failed):
		return exitError
	case slices.ContainsFunc(outcomes, reconcile.Outcome.Waits):
		return exitWaits
	}
	return exitOK
}

// explanation says why a task was not applied; "" if there is nothing to say.
func explanation(o reconcile.Outcome) string {
	run := o.Run
	switch {
	case run == nil && (o.Failed() || o.Waits()):
		return "was not run: " + o.Reason.Text
	case run == nil:
		return ""
	case o.Err != nil && run.State.Active():
		return "has no outcome in the store, and will be run again: " + o.Err.Error()
	case run.State == state.RunInterrupted, run.State == state.RunCancelled:
		return fmt.Sprintf("was %s: %s", run.State, run.Error)
	case run.State == state.RunWaiting:
		return run.Wait.String()
	case run.Error != "":
		return "failed: " + run.Error
	case !run.Verification.Passed():
		return "was applied, and is not verified: " + run.Verification.String()
	case notBegun(o):
		return "was not run: it never started"
	}
	return ""
}

// summaryOf is one line about all tasks.
func summaryOf(outcomes []reconcile.Outcome, took time.Duration) string {
	counted := map[string]int{}
	var all state.Changes
	inspected := false
	for _, o := range outcomes {
		counted[wordOf(o)]++
		if !notBegun(o) {
			inspected = inspected || o.Run.Kind == state.KindPlan
			all.Include(o.Run.Changes)
		}
	}
	parts := list.Map(slices.Sorted(maps.Keys(counted)), func(word string) string { return fmt.Sprintf("%d %s", counted[word], word) })
	changes := all.String()
	if inspected {
		changes = all.ToDo()
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

const wordDisabled = "disabled"

// wordOf is the state of the task's run, or why it has none.
func wordOf(o reconcile.Outcome) string {
	switch {
	case o.Stopped():
		return "stopped"
	case o.Waits():
		return "waiting"
	case !notBegun(o) && !o.Run.Verification.Passed():
		return apiview.NotVerified
	case !notBegun(o):
		return string(o.Run.State)
	case o.Reason.Code == state.ReasonDisabled:
		return wordDisabled
	}
	return "not run"
}

// took is the cell of how long a run took.
func took(r state.Run) string {
	if r.Started.IsZero() || r.Ended.IsZero() {
		return "-"
	}
	return rounded(r.Worked(r.Ended)).String()
}
