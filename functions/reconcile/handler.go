package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/fault"
	"github.com/terrapulse/terrapulse/internal/inforce"
	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/launch"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/metrics"
	"github.com/terrapulse/terrapulse/internal/notify"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/runner"
	"github.com/terrapulse/terrapulse/internal/state"
)

const (
	// leaseTTL and skew: a killed tick blocks the next ones for at most 50 seconds, so at most one
	// of the ticks of every minute. The clocks of Lambda and Fargate differ by seconds at worst.
	leaseTTL = 20 * time.Second
	skew     = 30 * time.Second

	// reserve is the part of the invocation's time that a tick keeps to release the lease and to
	// answer. launchReserve is the maximum time, with retries, to write and start the launches of
	// one step.
	reserve       = 3 * time.Second
	launchReserve = 10 * time.Second

	// heldWait is the interval at which an invocation that a caller waits for tries to lead while
	// another one leads.
	heldWait = time.Second

	// maxOthers limits how often a tick starts again because another bundle is in force. Each time,
	// another process has written the record meanwhile.
	maxOthers = 5
)

// handler answers invocations, one at a time. It lives as long as the function's process, so that
// the next invocations reuse the bundle and the secrets.
type handler struct {
	store       state.Store
	launcher    *launcher
	cloud       reconcile.Remote // HCP Terraform
	runner      *runner.Runner   // of the runs that need no container; execute adds the rest
	consulOf    func(ctx context.Context, cfg config.Consul) (runner.Consul, error)
	bundles     *inforce.Follower
	keep        func(digest string) // removes the files of all other bundles
	connect     func(ctx context.Context, cfg config.Consul) (consulClient, error)
	checks      []doctor.Check // of the mode doctor, besides those of bundle and Consul
	owner       string
	window      time.Duration
	maxLaunches int
	linger      time.Duration
	definition  string // family:revision of the containers that it starts
	// printed returns what HCP Terraform has printed of a run that goes on there.
	printed func(ctx context.Context, cfg *config.Config, run state.Run) (string, error)
	// beginsPaused pauses a stack in which nothing was decided yet.
	beginsPaused bool
	now          func() time.Time
	log          *slog.Logger
	metrics      *metrics.Writer
	notify       *notify.Set
	bus          []outbox.Sink // the event bus, if there is one
	stack        string        // name of the deployment
	links        func(runner string) *outbox.Links

	said    outbox.Said
	source  overlay.Source
	current *inforce.Loaded // the bundle of engine; nil at first
	engine  *reconcile.Reconciler
	client  consulClient
}

// invocation is an invocation in progress.
type invocation struct {
	*handler
	log      *slog.Logger
	deadline time.Time // time limit of a tick
	end      time.Time // of the invocation
}

// handle answers one invocation. It returns an error if the invocation could not be executed at
// all; a tick that was skipped for a transient reason is not an error.
func (h *handler) handle(ctx context.Context, payload json.RawMessage) (invoke.Answer, error) {
	req, err := parse(payload)
	if err != nil {
		h.log.Error("invocation refused", "error", err)
		return invoke.Answer{}, err
	}
	end, ok := ctx.Deadline()
	if !ok {
		end = h.now().Add(time.Minute)
	}
	inv := &invocation{handler: h, log: h.log, end: end}
	inv.deadline = inv.limit()
	if call, ok := lambdacontext.FromContext(ctx); ok {
		inv.log = h.log.With("tick", call.AwsRequestID)
	}
	if h.keep != nil && h.current != nil {
		h.keep(h.current.Digest)
	}
	work, interrupt := context.WithDeadline(ctx, end.Add(-stopReserve))
	defer interrupt()
	h.launcher.here = launch.NewLocal(work, atOnce, inv.log, inv.execute)
	defer h.launcher.here.Wait()
	answer, err := inv.do(ctx, req)
	if err == nil {
		answer, err = inv.finish(ctx, req, answer)
	}
	if err == nil && req.Wait {
		answer, err = inv.await(ctx, req, answer)
	}
	return answer, err
}

// do does what the request says, in the time of a tick.
func (i *invocation) do(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	ctx, stop := context.WithDeadline(ctx, i.deadline.Add(-reserve))
	defer stop()
	switch req.Mode {
	case invoke.Doctor:
		return i.examine(ctx), nil
	case invoke.Inspect:
		return i.inspect(ctx, req)
	case invoke.Once:
		return i.once(ctx, req)
	case invoke.Output:
		return i.output(ctx, req), nil
	}
	return i.reconcile(ctx, req)
}

// parse parses a request. An event of the bucket about the bundle's pointer becomes a request to
// check for a new bundle.
func parse(payload json.RawMessage) (invoke.Request, error) {
	var event struct {
		Source     string `json:"source"`
		DetailType string `json:"detail-type"`
	}
	if json.Unmarshal(payload, &event) == nil && event.Source == "aws.s3" && event.DetailType == "Object Created" {
		return invoke.Request{Mode: invoke.Reconcile, Refresh: true}, nil
	}
	return invoke.Parse(payload)
}

// reconcile executes one tick, or ticks until the end of the window. Only the schedule's
// invocations request the window: invocations for an event end after one tick, however many there
// are.
func (i *invocation) reconcile(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	if req.Refresh {
		i.bundles.Forget()
	}
	opts := reconcile.TickOptions{Ended: req.Ended, Hint: req.Hint}
	if i.window == 0 || !req.Window {
		if !mustTick(req) {
			report, err := i.tick(ctx, opts)
			return i.answer(req, report, err)
		}
		report, err := i.tickInTurn(ctx, opts, !req.Refresh && !req.Hint)
		return i.answer(req, report, err)
	}
	until := i.now().Add(i.window)
	if latest := i.deadline.Add(-launchReserve - reserve); until.After(latest) {
		until = latest
	}
	var all invoke.Answer
	again := true
	for others := 0; again; others++ {
		again = false
		r, client, err := i.prepare(ctx)
		if err != nil {
			return i.answer(req, reconcile.Report{}, err)
		}
		opts.Until, opts.Replaces, opts.Ends = i.deadline.Add(-launchReserve), i.bundles.Replaces, i.launcher.here.Ended()
		r.Window(ctx, client.Watch, opts, until, func(report reconcile.Report, tickErr error) bool {
			if again = i.bundles.IsOther(tickErr) && others < maxOthers; again {
				return false
			}
			var answer invoke.Answer
			answer, err = i.answer(req, report, tickErr)
			all = merge(all, answer)
			return err == nil
		})
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// once starts runs of the tasks now. It waits for a tick in progress.
func (i *invocation) once(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	names, err := i.chosen(ctx, req)
	if err != nil {
		return i.answer(req, reconcile.Report{}, err)
	}
	force := map[string]string{}
	for _, name := range names {
		force[name] = "an invocation of the function"
	}
	report, err := i.tickInTurn(ctx, reconcile.TickOptions{Force: force, All: len(req.Tasks) == 0}, false)
	replaced := report.Replaced("an invocation of the function")
	maps.DeleteFunc(replaced, func(task, _ string) bool { return force[task] == "" })
	if err == nil && len(replaced) > 0 {
		var next reconcile.Report
		next, err = i.tick(ctx, reconcile.TickOptions{Force: replaced})
		report.Include(next)
	}
	return i.answer(req, report, err)
}

// inspect launches plan runs.
func (i *invocation) inspect(ctx context.Context, req invoke.Request) (invoke.Answer, error) {
	if req.Launch != "" {
		return i.begin(ctx, req)
	}
	planner, names, err := i.planned(ctx, req)
	if err != nil {
		return i.answer(req, reconcile.Report{}, err)
	}
	launches, err := planner.Start(ctx, names, req.Draft, "an invocation of the function")
	answer := invoke.Answer{Mode: req.Mode, Bundle: planner.Bundle}
	answer.Launches, answer.Runs = started(launches)
	return answer, err
}

// planned returns what plans the tasks of the request, and their names. A bundle that the request
// names needs no other one in force.
func (i *invocation) planned(ctx context.Context, req invoke.Request) (reconcile.Planner, []string, error) {
	if req.Bundle == "" {
		names, err := i.chosen(ctx, req)
		if err != nil {
			return reconcile.Planner{}, nil, err
		}
		r, _, err := i.prepare(ctx)
		if err != nil {
			return reconcile.Planner{}, nil, err
		}
		return r.Planner(), names, nil
	}
	cfg, err := i.bundles.Source.Load(ctx, req.Bundle)
	if err != nil {
		return reconcile.Planner{}, nil, err
	}
	planner := reconcile.Planner{Store: i.store, Launcher: i.launcher, Config: cfg, Source: new(overlay.Source), Bundle: req.Bundle, Now: i.now}
	effective, err := planner.Source.Read(ctx, i.store, cfg)
	if err != nil {
		return planner, nil, err
	}
	names, err := named(effective.Config, req, req.Bundle)
	return planner, names, err
}

// chosen returns the tasks of the request, all of which exist.
func (i *invocation) chosen(ctx context.Context, req invoke.Request) ([]string, error) {
	i.bundles.Forget() // the caller means the bundle that was pushed last
	if _, _, err := i.prepare(ctx); err != nil {
		return nil, err
	}
	effective, err := i.effective(ctx)
	if err != nil {
		return nil, err
	}
	return named(effective.Config, req, i.current.Digest)
}

// named returns the tasks of the request in a configuration, which is that of a bundle.
func named(cfg *config.Config, req invoke.Request, digest string) ([]string, error) {
	if len(req.Tasks) == 0 {
		return enabled(cfg), nil
	}
	for _, name := range req.Tasks {
		t, ok := cfg.Task(name)
		if !ok {
			return nil, fmt.Errorf("task %q is not in the bundle %.12s, nor was it created through the API", name, digest)
		}
		if !t.Enabled && req.Mode == invoke.Once {
			return nil, fmt.Errorf("task %q is disabled: enable it in its task file, or through the API", name)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(req.Tasks))), nil
}

// effective returns the configuration in force with what was changed through the API.
func (i *invocation) effective(ctx context.Context) (*overlay.Effective, error) {
	if i.current == nil {
		return nil, inforce.ErrNone
	}
	return i.source.Read(ctx, i.store, i.current.Config)
}

// enabled returns the names of the enabled tasks.
func enabled(cfg *config.Config) (names []string) {
	for _, t := range cfg.Tasks {
		if t.Enabled {
			names = append(names, t.Name)
		}
	}
	return names
}

// tick executes a tick with the bundle that is to be in force.
func (i *invocation) tick(ctx context.Context, opts reconcile.TickOptions) (reconcile.Report, error) {
	opts.Until = i.deadline.Add(-launchReserve)
	for others := 0; ; others++ {
		r, _, err := i.prepare(ctx)
		if err != nil {
			return reconcile.Report{}, err
		}
		opts.Replaces = i.bundles.Replaces
		report, err := r.Tick(ctx, opts)
		if !i.bundles.IsOther(err) || others == maxOthers {
			return report, err
		}
	}
}

// prepare returns a Reconciler for the bundle to use. It reads the pointer if it is due.
func (i *invocation) prepare(ctx context.Context) (*reconcile.Reconciler, consulClient, error) {
	if err := i.bundles.Refresh(ctx, i.log); err != nil {
		if errors.Is(err, inforce.ErrNotPushed) {
			err = cmp.Or(i.beginStack(ctx), err)
		}
		return nil, nil, err
	}
	b := i.bundles.Loaded
	client, err := i.connect(ctx, b.Config.Consul)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the connection to Consul: %w", err)
	}
	if i.current != b || i.client != client {
		i.current, i.client, i.launcher.inFunction = b, client, b.Config.Cloud != nil
		i.engine = &reconcile.Reconciler{
			Config: b.Config, Source: &i.source, Bundle: b.Digest, Refused: b.Refused, Store: i.store, Consul: client, Launcher: i.launcher,
			Owner: i.owner, LeaseTTL: leaseTTL, Skew: skew, MaxLaunches: i.maxLaunches, Linger: i.linger, Definition: i.definition, Windowed: i.window > 0, BeginsPaused: i.beginsPaused, Now: i.now, Said: &i.said,
			Sinks: func() []outbox.Sink { return append(i.notify.Sinks(b.Config.Notify), i.bus...) },
			Stack: i.stack, Links: i.links,
		}
		if b.Config.Cloud != nil {
			i.engine.Remote = i.cloud
		}
	}
	i.engine.Log = i.log
	return i.engine, i.client, nil
}

// beginStack pauses a stack to which no bundle was pushed yet, so that everybody sees it.
func (i *invocation) beginStack(ctx context.Context) error {
	if !i.beginsPaused {
		return nil
	}
	people := reconcile.Control{Store: i.store, Now: i.now}
	return people.BeginPaused(ctx)
}

// answer returns the result of a tick, and writes its metrics.
func (i *invocation) answer(req invoke.Request, report reconcile.Report, err error) (invoke.Answer, error) {
	now := i.now()
	answer := invoke.Answer{Mode: req.Mode, Idle: report.Idle, Problem: report.Record.ConsulError, Paused: report.Record.Paused}
	if i.current != nil {
		answer.Bundle = i.current.Digest
	}
	if answer.Problem == "" {
		answer.Problem = i.bundles.Problem
	}
	answer.Launches, answer.Runs = started(report.Launches)
	for _, d := range report.Decisions {
		answer.Decisions = append(answer.Decisions, invoke.Decision{Task: d.Task.Name,
			Run: (d.Action == reconcile.Run || d.Action == reconcile.Resume) && !slices.Contains(report.Postponed, d.Task.Name), Reason: d.Reason})
	}
	values := measure(report, now)
	if i.current != nil && i.current.Refused != nil {
		answer.Problem = i.current.Refused.Error
		values[metrics.BundleRefused] = 1
	}
	if report.Stalled != nil {
		answer.Problem = report.Stalled.Error()
	}
	if err != nil {
		delete(values, metrics.FailuresInARow) // the tick may not have read the tasks
	}
	held := new(lease.HeldError)
	switch {
	case errors.As(err, &held):
		// Another tick has the lease, and does the work.
		values[metrics.LeaseRefused] = 1
		answer.Skipped = held.Error()
		i.log.Info("tick skipped", "reason", answer.Skipped)
		err = nil
	case errors.Is(err, inforce.ErrNotPushed) && req.Mode == invoke.Reconcile:
		// There is nothing to watch yet, and nothing is wrong.
		answer.Skipped, err = err.Error(), nil
		values[metrics.GoodTicks], values[metrics.LastGoodTickAge] = 1, 0
		i.log.Info("tick skipped", "reason", answer.Skipped)
	case fault.IsTransient(err), errors.Is(err, context.DeadlineExceeded) && req.Mode == invoke.Reconcile:
		answer.Skipped = err.Error()
		i.log.Error("tick skipped, the next one tries again", "error", err)
		err = nil
	case err != nil:
		i.log.Error("tick failed", "error", err)
		if errors.Is(err, inforce.ErrNone) {
			values[metrics.BundleRefused] = 1
			if req.Mode == invoke.Reconcile { // nothing failed that a dead letter or a second try could help with
				answer.Problem, err = err.Error(), nil
			}
		}
	case report.Record.ConsulError == "" && report.Stalled == nil:
		values[metrics.GoodTicks], values[metrics.LastGoodTickAge] = 1, 0
	}
	if err := i.metrics.Write(now, values); err != nil {
		i.log.Warn("metrics not written", "error", err)
	}
	return answer, err
}

// measure returns the metrics of a tick.
func measure(report reconcile.Report, now time.Time) metrics.Values {
	record := report.Record
	values := metrics.Values{metrics.Ticks: 1, metrics.FailuresInARow: float64(record.Failing)}
	add := func(m metrics.Metric, n int) {
		if n > 0 {
			values[m] += float64(n)
		}
	}
	count := func(m metrics.Metric, is bool) {
		if is {
			add(m, 1)
		}
	}
	if !record.LastSuccess.IsZero() {
		values[metrics.LastGoodTickAge] = max(now.Sub(record.LastSuccess).Seconds(), 0)
	}
	if record.Unreadable != nil {
		add(metrics.TasksUnreadable, record.Unreadable.Count)
	}
	add(metrics.TasksFailing, record.Tasks.Failing)
	add(metrics.TasksWaiting, record.Tasks.Waiting)
	add(metrics.TasksHeld, record.Tasks.Held)
	add(metrics.TasksApproval, record.Tasks.Approval)
	add(metrics.TasksDrifted, record.Tasks.Drifted)
	add(metrics.LaunchesTaken, report.Taken)
	add(metrics.OffersWithdrawn, report.Withdrawn)
	count(metrics.IdleTicks, report.Idle)
	count(metrics.Paused, record.Paused != nil)
	count(metrics.ConsulErrors, record.ConsulError != "")
	for _, d := range report.Decisions {
		count(metrics.ChangesSeen, d.Reason.Code == state.ReasonChanged && d.Action == reconcile.Run)
		count(metrics.ConsulErrors, d.Reason.Code == state.ReasonUnreadable)
		count(metrics.RunsLost, d.Lost != nil)
	}
	return values
}

// started returns the launches and their runs.
func started(launches []state.Launch) (ids []string, runs []invoke.Run) {
	for _, launch := range launches {
		ids = append(ids, launch.ID)
		for _, run := range launch.Runs {
			runs = append(runs, invoke.Run{Task: run.Task, Run: run.ID, Launch: launch.ID, State: state.RunIntended})
		}
	}
	return ids, runs
}

// merge adds the answer of a later tick of a window.
func merge(all, next invoke.Answer) invoke.Answer {
	if all.Mode == "" {
		return next
	}
	next.Idle = all.Idle && next.Idle
	next.Launches = append(all.Launches, next.Launches...)
	next.Runs = append(all.Runs, next.Runs...)
	if len(next.Decisions) == 0 {
		next.Decisions = all.Decisions
	}
	return next
}
