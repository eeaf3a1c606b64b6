// Package runner carries out one run of one task: it claims the run, reads
// what the task renders fresh from Consul, has the driver apply it, and records
// the outcome under its own claim.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/spans"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

const (
	// recordFor is the default of Runner.Patience: long enough to free a full
	// disk or to sit out a failover.
	recordFor = 2 * time.Minute

	// claimTries is how often a claim is offered to a store that fails, about
	// two seconds in all. After that the run is left to be launched again.
	claimTries = 4

	// firstRetry and longestRetry are the waits between two attempts to write.
	firstRetry   = 200 * time.Millisecond
	longestRetry = 10 * time.Second
)

// errTaken ends a run that has lost its claim.
var errTaken = errors.New("the leader has taken the run for lost and given it up")

// errExpired ends a run whose claim has expired, as far as this process knows.
var errExpired = errors.New("the store could not be reached for so long that another instance may be given the task by now, so the run was interrupted")

// errSuperseded ends a run before it begins: its task has changed since the run was
// decided.
var errSuperseded = errors.New("the run is superseded")

// errPaused ends a run before it begins: somebody has paused since the run was decided.
var errPaused = errors.New("the run has not begun, and everything is paused")

// cancelledError ends a run that somebody has cancelled.
type cancelledError struct{ by string }

func (e *cancelledError) Error() string { return "cancelled by " + e.by }

// timeoutError ends a run that takes longer than its task allows.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string {
	return "exceeded run_timeout of " + block.Brief(e.limit)
}

// Consul reads what a task renders.
type Consul interface {
	Snapshot(ctx context.Context, t *config.Task) (*consul.Snapshot, error)
	Identify(ctx context.Context, datacenter string) (state.Identity, error)
}

// Runner carries out runs. It is safe for concurrent use.
type Runner struct {
	// Config returns what the files say now, or the bundle of the launch does;
	// what was changed through the API comes from the store.
	Config func() *config.Config
	// Source is the cache of the effective configuration; may be nil.
	Source *overlay.Source
	Store  state.Store
	Consul Consul
	Driver driver.Driver
	Logs   Logs // the store if nil
	// Printed loads what Logs has saved; nil if this is not possible.
	Printed func(ctx context.Context, url string) ([]byte, error)
	// Bundle returns the configuration in an earlier bundle, with the files of its
	// modules; the error is a *bundle.InvalidError if the bundle is gone. Nil where the
	// configuration is read from files.
	Bundle func(ctx context.Context, digest string) (*config.Config, error)
	// Live is how often the output of a run that goes on is written to the
	// store, where there is something new; 0 writes it only when the run has
	// ended.
	Live time.Duration

	Owner string // of claims; one per process
	// ID is recorded with claims: the container's id where the launcher knows
	// runners by their containers (the ECS task's id), else empty.
	ID string
	// Instance is recorded with claims where there is no ID: that of the instance in its cluster.
	Instance string
	// Who is recorded with claims: the holder (user@host) that this process's driver
	// writes into locks of states. Leave it empty where somebody else on the host may
	// lock states: a later run releases a lock under this name once this one is known
	// to be dead.
	Who   string
	Claim time.Duration // how long a claim lasts unless it is renewed
	Now   func() time.Time
	Log   *slog.Logger
	// Yields interrupts the driver when the claim has expired by this process's
	// clock: where it may be cut off from a store that others reach, one of them may
	// be given the task then.
	Yields bool
	// Spans exports the spans of traced runs; may be nil.
	Spans spans.Recorder
	// Environ returns the environment of checks and verifications.
	Environ func() []string
	// Verify carries out verifications.
	Verify func(ctx context.Context, all []verify.Spec, applied verify.Applied) []state.Verified
	// Patience is how long an outcome that the store does not take is offered
	// again; two minutes if 0. After that the run is found lost, and run again.
	Patience time.Duration
	// Background, if set, does work that a run has left, such as a write that the
	// store did not take, beside the runs. Its context ends when the process is told
	// to stop, and the process waits for the work. The error says what a person has
	// to do. Without it such work is given up after Patience.
	Background func(run state.Run, work func(context.Context) error)
	// Suppose answers what-ifs; without it their runs fail.
	Suppose *Supposer
	// Said are the events that this process has logged; may be nil if nothing
	// else in the process logs events.
	Said *outbox.Said
	// Ended, if set, is called with every run whose outcome, or wait, was recorded.
	Ended func(state.Run)
	// Watch, if set, is called when a run starts. What the driver prints in it,
	// without secrets and in whole lines, goes to what it returns, too.
	Watch func(state.Run) io.Writer
}

// Run carries out one run of the launch. The error says why there is no
// outcome in the store; a run that failed and is recorded as failed is none.
func (r *Runner) Run(ctx context.Context, launch state.Launch, planned state.PlannedRun) error {
	return r.carryOut(ctx, launch, planned, (*claim).work)
}

// Refuse records of one run of the launch that this runner cannot carry it out
// for a reason that no run of the launch is at fault for. Only Store, Owner,
// Claim, Now, Log, Patience and Ended are used.
func (r *Runner) Refuse(ctx context.Context, launch state.Launch, planned state.PlannedRun, reason error) error {
	return r.carryOut(ctx, launch, planned, func(*claim, context.Context, state.Launch, state.PlannedRun, io.Writer) (result, error) {
		return result{}, reason
	})
}

// work is what is done under a claim.
type work func(c *claim, ctx context.Context, launch state.Launch, planned state.PlannedRun, out io.Writer) (result, error)

func (r *Runner) carryOut(ctx context.Context, launch state.Launch, planned state.PlannedRun, do work) error {
	events := outbox.Log{To: r.Log, Said: r.Said}
	log := r.Log.With("task", planned.Task, "run", planned.ID, "fence", launch.Fence)
	var began time.Time
	if trace := tracing.Parse(planned.Trace); trace.Valid() {
		log, began = log.With("trace_id", trace.ID()), r.Now()
	}
	r = r.logging(log)
	c, err := r.claim(ctx, launch, planned)
	switch {
	case err != nil && ctx.Err() != nil:
		log.Debug("the process was told to stop before the run was claimed")
		return nil // the next leader launches it again
	case err != nil:
		return fmt.Errorf("claim run %s of task %s: %w", planned.ID, planned.Task, err)
	case c == nil:
		log.Debug("the run is not there to be claimed any more")
		return nil
	}
	log.Info("run started")
	if !began.IsZero() && r.Spans != nil {
		r.Spans.Claimed(c.claimed, launch, began, r.Now())
	}

	output := r.newOutput(c.run.Data)
	c.continued = r.carryOver(ctx, c, output)
	done, err := c.during(ctx, func(ctx context.Context) (result, error) {
		defer output.keepWriting(ctx)()
		return do(c, ctx, launch, planned, output)
	})
	if errors.Is(err, errTaken) {
		return fmt.Errorf("run %s of task %s: %w", planned.ID, planned.Task, c.makeGood(ctx, done, err))
	}
	ended := r.Now()
	overtaken := done.applied && c.left(ended) <= 0 // perhaps: another run may have begun before this one ended
	recorded := c.step("record")
	run, err := r.record(ctx, c, c.outcome(ctx, ended, done, err), done, output)
	recorded(err)
	switch {
	case errors.Is(err, errTaken):
		err = c.makeGood(ctx, done, err)
	case err != nil && overtaken && r.ID == "": // of a container, Settle marks the task when it stops
		err = c.markLater(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("record that run %s of task %s %s (it will be taken for lost, and run again): %w",
			planned.ID, planned.Task, said(run), err)
	}
	if r.Spans != nil {
		r.Spans.Ended(r.Now(), run)
	}
	if r.Ended != nil {
		r.Ended(run)
	}
	switch run.Kind {
	case state.KindPlan: // it has no event, but a line
		c.events = outbox.NewEvents(outbox.OfRun(run))
	case state.KindDrift:
		if len(c.events.All()) == 0 {
			log.Info("checked for drift: nothing new", "state", run.State, "detail", run.Error)
		}
	}
	events.Now(ctx, c.events)
	return nil
}

// outcome returns the record of the run after its work has returned err.
func (c *claim) outcome(ctx context.Context, at time.Time, done result, err error) state.Run {
	run := c.ended(at)
	run.Changes = done.Changes
	run.InState = cmp.Or(done.plan.InState, run.InState)
	if run.WhatIf != nil {
		run.WhatIf = &state.WhatIf{ID: run.WhatIf.ID, Supposed: run.WhatIf.Supposed, Verdict: done.verdict}
	}
	if run.WhatIf == nil {
		run.Verdict = done.verdict
	}
	if url := done.plan.URL; url != "" && run.Remote == nil {
		run.Remote = &state.RemoteRun{URL: url, Phase: state.RemoteEnded}
	}
	readNow := !run.AppliedElsewhere() && !run.Staged // else it is about what was read before
	if done.entries != nil && readNow {
		run.Entries = done.entries
	}
	var wait *driver.WaitError
	var decided *driver.EndedError
	switch {
	case err == nil:
		run.State, run.Verification, run.Verifying = state.RunSucceeded, state.NewVerification(done.verified), nil
		if run.Kind != state.KindApply {
			run.Digest = "" // after a destroy, nothing is applied
		} else if readNow {
			run.Digest = done.snap.Condition.Digest
		}
		return run
	case superseded(run, err):
		run.State = state.RunSuperseded
	case errors.As(err, new(*cancelledError)):
		run.State = state.RunCancelled
	case errors.As(err, &wait) && run.Kind.Occupies():
		return c.waiting(c.Now(), *wait, done)
	case errors.As(err, &decided):
		run.State, run.Cancel, run.Rejected, err = state.RunCancelled, decided.By, decided.Action == audit.Reject, decided
	case ctx.Err() != nil && !errors.Is(err, errExpired):
		run.State = state.RunInterrupted
	default:
		run.State = state.RunFailed
	}
	run.Error = state.Cut(err.Error())
	return run
}

// superseded reports whether the run ends because it is to be replaced, or waits for a pause to end.
func superseded(run state.Run, err error) bool {
	return errors.Is(err, errSuperseded) && run.Kind != state.KindPlan && !run.Replaces || errors.Is(err, errPaused)
}

// logging returns a runner that is r but for its log, which names the run.
func (r *Runner) logging(log *slog.Logger) *Runner {
	of := *r
	of.Log = log
	return &of
}

// said describes the outcome.
func said(run state.Run) string {
	if run.Error == "" {
		return string(run.State)
	}
	return fmt.Sprintf("%s with %q", run.State, run.Error)
}

// during calls do and renews the claim until it returns, also while an interrupted
// driver ends. If the claim is lost, it cancels the context.
func (c *claim) during(ctx context.Context, do func(context.Context) (result, error)) (result, error) {
	alive := context.WithoutCancel(ctx)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer background.Run(alive, func(ctx context.Context) { c.keep(ctx, stop) })()

	done, err := do(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errTaken) {
		err = errTaken // the error that follows from it says less
	}
	if err != nil && errors.Is(context.Cause(ctx), errExpired) {
		err = fmt.Errorf("%w: %w", errExpired, err)
	}
	return done, endedBy[*cancelledError](ctx, err)
}

// endedBy returns the error of failed work. If the cause of the end of ctx is
// an E, the error names it.
func endedBy[E error](ctx context.Context, err error) error {
	var cause E
	if err == nil || errors.As(err, &cause) || !errors.As(context.Cause(ctx), &cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// work reads what the task renders, and plans or applies it. A panic becomes an
// error of this run: it must not end the runs of other tasks.
func (c *claim) work(ctx context.Context, launch state.Launch, planned state.PlannedRun, out io.Writer) (done result, err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(out, "\npanic: %v\n%s", p, debug.Stack())
			err = fmt.Errorf("panic: %v; this is a fault of Terrapulse, please report it with the output of this run", p)
		}
	}()
	if c.claimed.Verifying != nil {
		return c.continueVerifying(ctx, out)
	}
	cfg, task, err := c.task(ctx, launch, planned)
	if err != nil {
		return done, err
	}
	done.definition = planned.Definition
	unlimited, limit := ctx, task.RunTimeout
	if limit == 0 && c.claimed.Kind == state.KindDrift {
		limit = checkTimeout
	}
	if limit > 0 {
		// A run that waited has the whole time again, because it plans again.
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, &timeoutError{limit})
		defer stop()
		defer func() { err = endedBy[*timeoutError](ctx, err) }()
	}
	wasRead := c.step("read")
	before, unknown, err := c.read(ctx, launch, task, &done)
	wasRead(err)
	if err != nil {
		return done, err
	}
	if done.verdict != nil {
		return done, nil
	}
	if d := cfg.Driver(); d.Verbose() {
		out = io.MultiWriter(out, lineLog{c.Log, d.Kind().Name})
	}
	job := c.job(cfg, task, before, unknown, &done, out)
	switch kind := c.claimed.Kind; kind {
	case state.KindPlan, state.KindDrift:
		if kind == state.KindDrift {
			if err := sameInput(done.snap, before, unknown); err != nil {
				return done, err
			}
		}
		if done.plan, err = c.plan(ctx, job); err == nil {
			c.Planned()
		}
		done.Changes, done.Decided = done.plan.Changes, driver.DecidedBy(err)
		if c.claimed.WhatIf != nil || kind == state.KindPlan && c.Suppose != nil {
			err = cmp.Or(c.judgePlanned(ctx, cfg, task, &done, unknown, launch.Draft != nil, err, out), err)
		}
		return done, err
	case state.KindApply, state.KindDestroy:
		j, err := c.judge(ctx, task, nil, &done, unknown, out)
		if err != nil {
			return done, err
		}
		if err := j.judgeConsul(ctx, launch, planned); err != nil {
			return done, err
		}
		// A process that was frozen since its claim must not apply what it read before.
		if err := c.confirm(ctx); err != nil {
			return done, err
		}
		done.applied = true
		change := c.Driver.Apply
		if kind == state.KindDestroy {
			change = c.Driver.Destroy
		}
		done.Outcome, err = j.run(ctx, job, c.traced(change))
		done.Decided = append(done.Decided, driver.DecidedBy(err)...)
		c.noteState(done.Unsaved, err)
		if err == nil && kind == state.KindApply {
			err = c.verify(unlimited, task, &done, job.Config.Dir(), out)
		}
		return done, err
	default:
		return done, fmt.Errorf("this version of Terrapulse cannot carry out a run of kind %s", kind)
	}
}

// read reads what the task renders, and what it was applied with: unknown says that the
// record of that is incomplete.
func (c *claim) read(ctx context.Context, launch state.Launch, task *config.Task, done *result) (before state.Inputs, unknown bool, err error) {
	destroys := c.claimed.Kind == state.KindDestroy
	if done.snap, err = c.snapshot(ctx, launch, task, done); err != nil && destroys && ctx.Err() == nil {
		c.Log.Warn("what the task reads cannot be read from Consul: its module gets empty data for the destroy", "error", err)
		done.snap, err = consul.EmptySnapshot(task), nil
	}
	if err != nil {
		return before, false, err
	}
	if warning := done.snap.Warning(); warning != "" {
		c.Log.Warn(warning)
	}
	before, err = state.LoadInputs(ctx, c.Store, task.Name)
	if unknown = errors.Is(err, state.ErrTorn); err != nil && !unknown {
		return before, false, fmt.Errorf("read what the task was applied with: %w", err)
	}
	if !destroys {
		if err := done.snap.Visibility.Confirm(ctx, before.Sources); err != nil {
			return before, unknown, err
		}
	}
	done.compare(before)
	return before, unknown, nil
}

// job returns what the driver is to do, given what the task was applied with.
func (c *claim) job(cfg *config.Config, task *config.Task, before state.Inputs, unknown bool, done *result, out io.Writer) driver.Job {
	done.backend = cfg.BackendDigest()
	job := driver.Job{
		Config: cfg, Task: task, Snapshot: done.snap, Run: c.claimed, Output: out, Continued: c.continued, Notes: c, Remote: remote{c, cfg.Driver().Kind(), done},
		Applied:        len(before.Sources) > 0 || len(before.Elements) > 0,
		BackendChanged: before.Backend != "" && done.backend != "" && before.Backend != done.backend,
	}
	if kind := c.claimed.Kind; kind == state.KindApply || kind == state.KindPlan {
		job.Changes = consul.AllNames(done.differences)
		if !unknown {
			done.count()
		}
	}
	if c.claimed.Kind == state.KindApply {
		job.ChecksRequired = verify.RequiresChecks(task.Verify)
	}
	return job
}
