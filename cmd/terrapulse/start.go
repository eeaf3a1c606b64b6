package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
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

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/memory"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/reload"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/syslog"
)

// startCommand runs tasks when Consul changes, or once.
type startCommand struct{ *app }

func (c *startCommand) Synopsis() string {
	return "Run tasks whenever Consul changes, or once with -once"
}

func (c *startCommand) Help() string {
	return `Usage: terrapulse start [flags]

  Watches Consul and applies a task's Terraform module whenever its condition
  is met. Each enabled task runs once at the start. Several instances may share
  one store: one of them leads, the others take over when it ends.

  -once runs every enabled task one time and ends: exit code 0 when all were
  applied, 11 when any was not. -inspect shows what would be changed.
`
}

func (c *startCommand) about() about {
	f, _ := c.flags()
	return about{flags: f, examples: []string{onFile, "-once " + onFile, "-config-dir /etc/terrapulse -log-format json"},
		codes: []int{exitOK, exitError, exitInterrupted, exitMissing, exitFlags, exitConfig, exitTerraform}}
}

// startOptions are the flags of start.
type startOptions struct {
	config   configFlags
	log      logFlags
	store    *string
	parallel int
	once     bool
	wait     time.Duration // for a lease that another holds
	address  string        // of the API of the instance that leads
	json     bool
	reset    bool
	// allowOrigin lets web pages of this origin use the API.
	allowOrigin string
	inspect     inspectOptions
	cts         ctsFlags
	flush       func() // hands on the last of what is logged
}

func (c *startCommand) flags() (*flag.FlagSet, *startOptions) {
	f, o := newFlags("start"), &startOptions{flush: func() {}}
	o.config.register(f)
	o.log.register(f)
	o.store = storeURLFlag(f)
	parallelFlag(f, &o.parallel, "run")
	f.BoolVar(&o.once, "once", false, "Run every enabled task one time and end.")
	f.DurationVar(&o.wait, "wait", 5*time.Minute, "With -once, how long to wait for another instance that leads on the store and cannot be requested to run the tasks. 0: not at all.")
	f.StringVar(&o.address, "http-addr", "", "With -once, the `address` of the HTTP API of an instance that leads on the store. Default: the address that it has recorded there.")
	f.BoolVar(&o.json, "json", false, "With -once or -inspect: print JSON, for scripts.")
	f.BoolVar(&o.reset, "reset-storage", false, "Forget which tasks were made, enabled, disabled or deleted through the API, and say which, before anything else.")
	f.StringVar(&o.allowOrigin, "allow-origin", "", "Let web pages of this `origin` use the HTTP API from a browser, such as https://ops.example.com, or * for any.")
	o.inspect.register(f)
	f.StringVar(&o.cts.clientType, "client-type", "", "")
	f.BoolVar(&o.cts.implied, "deprecated-start-up", false, "")
	return f, o
}

// load reads the configuration and says what in it deserves a word.
func (o *startOptions) load(a *app) (*config.Config, *slog.Logger, int) {
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
	announce(log, cfg)
	return cfg, log, -1
}

func (c *startCommand) Run(args []string) int {
	f, o := c.flags()
	if code := c.parseAll(f, args); code >= 0 {
		return code
	}
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
		return c.inspect(cfg, log, o, shown)
	}

	// Where nobody reads the output any more, such as a tee that Ctrl-C has ended,
	// writing fails, and must not end the program while Terraform is at work. What
	// it starts knows nothing of that, as it would if the signal were ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	e, code := c.newEngine(c.ctx, cfg, log, engineOptions{
		store: *o.store, parallel: o.parallel, reach: o.once, progress: shown})
	switch {
	case code >= 0 && c.ctx.Err() != nil && !o.once:
		return exitOK // as told
	case code >= 0 && o.once:
		c.saysUnrun(cfg)
		return code
	case code >= 0:
		return code
	}
	defer e.store.Close()
	if o.reset {
		said := c.stdout
		if o.json {
			said = c.stderr
		}
		if code := c.reset(e, said); code >= 0 {
			return code
		}
	}
	if o.once {
		shown.set(log, "running", enabled(cfg))
		e.reconciler.Patience = o.wait
		if o.wait <= 0 {
			e.reconciler.Patience = -1
		}
		e.reconciler.Elsewhere = c.elsewhere(e, cfg, o.address, log)
		code := c.once(e, read, shown, o.json)
		c.ctsOnce(code)
		return code
	}

	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	member, left := e.join(ctx, cfg, log)
	server, err := c.listen(o, e, member, cfg, log)
	if err != nil {
		return c.fail(exitError, err)
	}
	served := make(chan error, 1)
	go func() {
		defer stop() // without its API it ends
		served <- server.Serve(ctx)
	}()
	withdrawn, err := c.register(ctx, e, cfg, server.Addr(), log)
	if err != nil {
		return c.fail(exitConfig, err)
	}
	go memory.Release(ctx, e.launcher.Busy)
	reloads := make(chan reconcile.Reload)
	go c.reload(files, read, o, e, reloads, log)
	loop := &reconcile.Loop{Reconciler: e.reconciler, Ended: e.launcher.Ended(), Asked: e.asked, Reload: reloads, Observer: e.metrics,
		Watch: func(ctx context.Context, gates consul.GateSet, since consul.Marks) reconcile.Watch {
			return e.consul.Watch(ctx, gates, since)
		}}
	loop.Leads = func(ctx context.Context, fence uint64) {
		if member != nil {
			member.Leads(ctx, fence)
		}
		e.announceLeader(ctx, cfg, server.Addr(), log)
	}
	err = loop.Run(ctx)
	stop()
	log.Info("stopping, waiting for Terraform where it runs")
	e.launcher.Wait()
	withdrawn()
	left()
	if err = errors.Join(err, <-served); err != nil {
		return c.fail(exitError, err)
	}
	log.Info("stopped")
	return exitOK
}

// saysUnrun prints which tasks were not run, as the set-up has failed.
func (c *startCommand) saysUnrun(cfg *config.Config) {
	for i := range cfg.Tasks {
		if cfg.Tasks[i].Enabled {
			fmt.Fprintf(c.stderr, "Task %s was not run.\n", cfg.Tasks[i].Name)
		}
	}
}

// reset forgets what was changed through the API, and says what.
func (c *startCommand) reset(e *engine, said io.Writer) int {
	forgotten, err := e.control().Reset(c.ctx)
	for _, o := range forgotten {
		fmt.Fprintf(said, "forgotten: task %s (%s)\n", o.Task, o)
	}
	if err != nil {
		return c.fail(exitError, err)
	}
	if len(forgotten) == 0 {
		fmt.Fprintln(said, "nothing was changed through the API: there is nothing to forget")
	}
	return -1
}

// once runs every task one time and sums up.
func (c *startCommand) once(e *engine, began time.Time, shown *progress, asJSON bool) int {
	outcomes, err := e.reconciler.Once(c.ctx, e.launcher.Wait)
	shown.clear()
	for i := range outcomes {
		if o := &outcomes[i]; o.Run != nil && !o.Run.State.Ended() {
			o.Err = cmp.Or(e.launcher.Lost(o.Run.ID), o.Err)
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
		if !o.Run.State.Ended() && o.Err != nil {
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
		case o.Err != nil && !o.Run.State.Ended():
			fmt.Fprintf(a.stderr, "\nTask %s has no outcome in the store, and will be run again: %s\n", o.Task, o.Err)
		case o.Run != nil && (o.Run.State == state.RunInterrupted || o.Run.State == state.RunCancelled):
			fmt.Fprintf(a.stderr, "\nTask %s was %s: %s\n", o.Task, o.Run.State, o.Run.Error)
		case o.Run != nil && o.Run.Error != "":
			fmt.Fprintf(a.stderr, "\nTask %s failed: %s\n", o.Task, o.Run.Error)
		case o.Run != nil && notBegun(o):
			fmt.Fprintf(a.stderr, "\nTask %s was not run: its turn had not come\n", o.Task)
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

// outcomesOf is a run of the API as an outcome.
func outcomesOf(run apispec.Run) []reconcile.Outcome {
	r := &state.Run{ID: run.ID, Task: run.Task, Kind: state.Kind(run.Kind), State: state.RunState(run.State), Created: run.Created}
	if run.Started != nil {
		r.Started = *run.Started
	}
	if run.Ended != nil {
		r.Ended = *run.Ended
	}
	if run.Error != nil {
		r.Error = *run.Error
	}
	if c := run.Changes; c != nil {
		r.Changes = &state.Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy}
	}
	return []reconcile.Outcome{{Task: run.Task, Run: r, Reason: state.Reason{Code: state.ReasonCode(run.Reason.Code), Text: run.Reason.Text}}}
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
		if ch := o.Run.Changes; ch != nil {
			all.Add, all.Change, all.Destroy = all.Add+ch.Add, all.Change+ch.Change, all.Destroy+ch.Destroy
		}
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
	return rounded(r.Ended.Sub(r.Started)).String()
}

// counts are the cells of what an apply did.
func counts(ch *state.Changes) []string {
	if ch == nil {
		return []string{"-", "-", "-"}
	}
	return []string{strconv.Itoa(ch.Add), strconv.Itoa(ch.Change), strconv.Itoa(ch.Destroy)}
}

// announce logs what the configuration holds that deserves a word, without what
// was said before, whichever line it was on.
func announce(log *slog.Logger, cfg *config.Config, before ...config.Diagnostic) {
	for _, w := range cfg.Warnings {
		said := func(b config.Diagnostic) bool { return b.Key == w.Key && b.Problem == w.Problem }
		if !slices.ContainsFunc(before, said) {
			log.Warn("configuration", "finding", w.String())
		}
	}
}
