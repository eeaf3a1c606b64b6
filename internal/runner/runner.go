// Package runner carries out one run of one task: it claims the run, reads
// what the task renders fresh from Consul, has Terraform apply it, and records
// the outcome under its own claim.
package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/state"
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

// errTaken ends a run whose claim is no longer its own.
var errTaken = errors.New("the leader has taken the run for lost and given it up")

// errExpired ends a run whose claim has expired, as far as this process knows.
var errExpired = errors.New("the store could not be reached for as long as the claim lasts: another instance may be given the task by now, so Terraform was interrupted")

// errSuperseded ends a run before it begins: its task is not what it was when
// the run was decided.
var errSuperseded = errors.New("the run is superseded")

// cancelledError ends a run that somebody has cancelled.
type cancelledError struct{ by string }

func (e *cancelledError) Error() string { return "cancelled by " + e.by }

// timeoutError ends a run that takes longer than its task allows.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string { return "exceeded run_timeout of " + brief(e.limit) }

// brief is a duration without units that are zero: 1h, not 1h0m0s.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Consul reads what a task renders.
type Consul interface {
	Snapshot(ctx context.Context, t *config.Task) (*consul.Snapshot, error)
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
	// Live is how often the output of a run that goes on is written to the
	// store, where there is something new; 0 writes it only when the run has
	// ended.
	Live time.Duration

	Owner string // of claims; one per process
	// ID is recorded with claims: the container's id where the launcher knows
	// runners by their containers (the ECS task's id), else empty.
	ID string
	// Who is recorded with claims: whom the state locks of this process's
	// Terraform name as their holder, user@host. Leave it empty where somebody
	// else on the host may lock states: a lock under this name is released by a
	// later run once this one is known to be dead.
	Who   string
	Claim time.Duration // how long a claim lasts unless it is renewed
	Now   func() time.Time
	Log   *slog.Logger
	// Yields has Terraform interrupted when the claim has expired by this
	// process's clock: where it may be cut off from a store that others reach,
	// one of them may be given the task then.
	Yields bool
	// Verbose logs what Terraform prints, too, a record for each line.
	Verbose bool
	// Patience is how long an outcome that the store does not take is offered
	// again; two minutes if 0. After that the run is found lost, and run again.
	Patience time.Duration
	// Said are the events that this process has logged; may be nil if nothing
	// else in the process logs events.
	Said *outbox.Said
	// Ended, if set, is called with every run whose outcome, or wait, was recorded.
	Ended func(state.Run)
	// Watch, if set, is called when a run starts. What Terraform prints in it,
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

// result is what was done under a claim.
type result struct {
	applied    bool   // an apply has begun, however it ended
	definition string // of the task, that was worked on
	snap       *consul.Snapshot
	changes    *state.Changes
	plan       driver.Plan // of a run that plans
}

// work is what is done under a claim.
type work func(c *claim, ctx context.Context, launch state.Launch, planned state.PlannedRun, out io.Writer) (result, error)

func (r *Runner) carryOut(ctx context.Context, launch state.Launch, planned state.PlannedRun, do work) error {
	events := outbox.Log{To: r.Log, Said: r.Said}
	log := r.Log.With("task", planned.Task, "run", planned.ID, "launch", launch.ID, "fence", launch.Fence)
	r = r.logging(log)
	c, err := r.claim(ctx, launch, planned)
	if err != nil {
		return fmt.Errorf("claim run %s of task %s: %w", planned.ID, planned.Task, err)
	}
	if c == nil {
		log.Debug("the run is not there to be claimed any more")
		return nil
	}
	log.Info("run started")

	output := r.newOutput(c.run.Data)
	done, err := c.during(ctx, func(ctx context.Context) (result, error) {
		defer output.keepWriting(ctx)()
		return do(c, ctx, launch, planned, output)
	})
	if errors.Is(err, errTaken) {
		return fmt.Errorf("run %s of task %s: %w", planned.ID, planned.Task, c.makeGood(ctx, done, err))
	}
	run := c.ended(r.Now())
	run.Changes = done.changes
	var wait *driver.WaitError
	switch {
	case err == nil:
		run.State = state.RunSucceeded
		switch {
		case run.Kind != state.KindApply:
			run.Digest = "" // after a destroy, nothing is applied
		case !run.AppliedElsewhere(): // else it is what was read before the wait
			run.Digest = done.snap.Condition.Digest
		}
	case errors.Is(err, errSuperseded) && run.Kind.Occupies() && !run.Replaces:
		run.State, run.Error = state.RunSuperseded, state.Cut(err.Error())
	case errors.As(err, new(*cancelledError)):
		run.State, run.Error = state.RunCancelled, state.Cut(err.Error())
	case errors.As(err, &wait) && run.Kind.Occupies():
		run = c.waiting(r.Now(), wait.Wait, done)
	case ctx.Err() != nil && !errors.Is(err, errExpired):
		run.State, run.Error = state.RunInterrupted, state.Cut(err.Error())
	default:
		run.State, run.Error = state.RunFailed, state.Cut(err.Error())
	}

	run, err = r.record(ctx, c, run, done, output)
	if errors.Is(err, errTaken) {
		err = c.makeGood(ctx, done, err)
	}
	if err != nil {
		return fmt.Errorf("record that run %s of task %s %s (it will be taken for lost, and run again): %w",
			planned.ID, planned.Task, said(run), err)
	}
	if r.Ended != nil {
		r.Ended(run)
	}
	if !run.Kind.Occupies() { // it has no event, but a line
		c.events = outbox.NewEvents(outbox.OfRun(run))
	}
	events.Now(ctx, c.events)
	return nil
}

// logging returns a runner that is r but for its log, which names the run.
func (r *Runner) logging(log *slog.Logger) *Runner {
	of := *r
	of.Log = log
	return &of
}

// said is the outcome in words.
func said(run state.Run) string {
	if run.Error == "" {
		return string(run.State)
	}
	return fmt.Sprintf("%s with %q", run.State, run.Error)
}

// during does something as long as the claim stands. That is kept until all is
// done: also while Terraform, once it is interrupted, comes to its end.
func (c *claim) during(ctx context.Context, do func(context.Context) (result, error)) (result, error) {
	keeping, release := context.WithCancel(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		c.keep(keeping, stop)
	}()
	defer func() { release(); <-kept; stop(nil) }()

	done, err := do(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errTaken) {
		err = errTaken // the error that followed from it says less
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
	r := c.Runner
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(out, "\npanic: %v\n%s", p, debug.Stack())
			err = fmt.Errorf("panic: %v; this is a fault of Terrapulse, please report it with the output of this run", p)
		}
	}()
	cfg, task, err := r.task(ctx, launch, planned)
	if err != nil {
		return done, err
	}
	done.definition = planned.Definition
	if limit := task.RunTimeout; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit-c.worked, &timeoutError{limit})
		defer stop()
		defer func() { err = endedBy[*timeoutError](ctx, err) }()
	}
	if done.snap, err = r.Consul.Snapshot(ctx, task); err != nil {
		return done, err
	}
	if warning := done.snap.Warning(); warning != "" {
		r.Log.Warn(warning)
	}
	before, err := state.LoadInputs(ctx, r.Store, task.Name)
	if err != nil && !errors.Is(err, state.ErrTorn) {
		return done, fmt.Errorf("read what the task was applied with: %w", err)
	}
	if err := done.snap.Visibility.Confirm(ctx, before.Sources); err != nil {
		return done, err
	}
	if r.Verbose {
		out = io.MultiWriter(out, lineLog{r.Log})
	}
	job := driver.Job{Config: cfg, Task: task, Snapshot: done.snap, Run: c.claimed, Output: out}
	switch kind := c.claimed.Kind; kind {
	case state.KindPlan, state.KindDrift:
		done.plan, err = r.Driver.Plan(ctx, job)
		done.changes = done.plan.Changes
		return done, err
	case state.KindApply, state.KindDestroy:
		// A process that was frozen since its claim must not apply what it read before.
		if err := c.confirm(ctx); err != nil {
			return done, err
		}
		done.applied = true
		change := r.Driver.Apply
		if kind == state.KindDestroy {
			change = r.Driver.Destroy
		}
		done.changes, err = change(ctx, job)
		return done, err
	default:
		return done, fmt.Errorf("this version of Terrapulse cannot carry out a run of kind %s", kind)
	}
}

// task returns the task of a run as it was when the run was decided, or says
// that it is not that any more.
func (r *Runner) task(ctx context.Context, launch state.Launch, planned state.PlannedRun) (*config.Config, *config.Task, error) {
	effective, err := retry(ctx, func() (*overlay.Effective, error) {
		return r.Source.Read(ctx, r.Store, r.Config())
	}, backoff.WithMaxTries(claimTries))
	if err != nil {
		return nil, nil, err
	}
	cfg := effective.Config
	if launch.Draft != nil {
		if cfg, _, err = effective.Draft(launch.Draft); err != nil {
			return nil, nil, err
		}
	}
	if err := effective.Corrupt[planned.Task]; err != nil {
		return nil, nil, err
	}
	task, ok := cfg.Task(planned.Task)
	if !ok {
		return nil, nil, fmt.Errorf("%w: the task was removed since it was decided", errSuperseded)
	}
	if now := task.Digest(cfg); now != planned.Definition {
		return nil, nil, fmt.Errorf("%w: it was decided on another definition of the task (%.12s) than there is now (%.12s)", errSuperseded, planned.Definition, now)
	}
	return cfg, task, nil
}

// claim is a run that this runner holds.
type claim struct {
	*Runner
	turn chan struct{}           // holds an element while run is being written
	run  state.Stored[state.Run] // as last written

	claimed state.Run     // as it was when it was claimed
	worked  time.Duration // by the run before it was claimed, without its waits
	events  outbox.Events // of the outcome
}

// claim takes the run if nobody else has; otherwise it returns nil. A run of
// another launch is not for this runner.
func (r *Runner) claim(ctx context.Context, launch state.Launch, planned state.PlannedRun) (*claim, error) {
	id := uuid.NewString()
	return retry(ctx, func() (*claim, error) {
		run, err := state.Read[state.Run](ctx, r.Store, state.RunKey(planned.Task, planned.ID))
		if err != nil {
			return nil, err
		}
		c := &claim{Runner: r, turn: make(chan struct{}, 1), run: run}
		if c.holds(run.Data, id) {
			return c.begun(run.Data), nil // by the attempt before, whose answer was lost
		}
		if run.Data.State != state.RunIntended {
			return nil, nil
		}
		if run.Data.Launch != launch.ID {
			return nil, backoff.Permanent(fmt.Errorf("it is a run of launch %s, and this runner was started for launch %s", run.Data.Launch, launch.ID))
		}
		now := r.Now()
		next := run.Data
		next.State, next.Claim, next.Owner, next.Runner, next.Who = state.RunRunning, id, r.Owner, r.ID, r.Who
		next.Expires, next.ClaimFor = now.Add(r.Claim), r.Claim
		if next.Resumed == nil {
			next.Started = now
		} else {
			next.Waited += max(0, now.Sub(next.Wait.Since))
			next.Output = outputName(next)
		}
		err = c.write(ctx, next)
		if errors.Is(err, errTaken) {
			return nil, nil // another runner was faster
		}
		return c.begun(next), err
	}, backoff.WithMaxTries(claimTries))
}

// begun notes the run as it was claimed.
func (c *claim) begun(run state.Run) *claim {
	c.claimed = run
	c.worked = run.Worked(run.Expires.Add(-run.ClaimFor))
	return c
}

// holds reports whether the record says that the run is under way under the
// claim with this id.
func (c *claim) holds(run state.Run, id string) bool {
	return run.State == state.RunRunning && run.Claim == id
}

// write replaces the run's record as it was last written, and makes other
// changes in the same step. An earlier write that turns out to have taken
// place although its answer was lost does not stand in its way. It returns
// errTaken if someone else has changed the record, and a *cancelledError instead
// of recording a wait if the run was cancelled. The caller has its turn or is alone.
func (c *claim) write(ctx context.Context, next state.Run, others ...state.Change) error {
	for {
		if next.State == state.RunWaiting && next.Cancel != "" {
			return &cancelledError{next.Cancel} // nobody would end it while it waits
		}
		change := c.run.Write(next).Until(next.KeptUntil())
		recs, err := c.Store.Apply(ctx, append([]state.Change{change}, others...)...)
		if err == nil {
			c.run = state.Stored[state.Run]{Record: recs[0], Data: next}
			return nil
		}
		var conflict *state.ConflictError
		if !errors.As(err, &conflict) || conflict.Change.Key != c.run.Key {
			return err
		}
		current := conflict.Current
		if current == nil {
			return errTaken
		}
		if bytes.Equal(current.Value, change.Value) {
			c.run = state.Stored[state.Run]{Record: *current, Data: next}
			return nil // this very write, with all that goes with it
		}
		there, err := state.Decode[state.Run](*current)
		if err != nil {
			return err
		}
		if there.Version == c.run.Version || !c.holds(there.Data, c.run.Data.Claim) {
			return errTaken
		}
		c.run = there // a renewal, or the run was cancelled
		next.Cancel = there.Data.Cancel
	}
}

// keep renews the claim until ctx ends, and stops the run if the claim is gone.
func (c *claim) keep(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(c.Claim / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		expired, err := c.renew(ctx)
		if errors.Is(err, errTaken) {
			stop(errTaken)
			return
		}
		if by := c.cancelledBy(); by != "" {
			stop(&cancelledError{by})
		}
		if expired && c.Yields {
			stop(errExpired)
			return
		}
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("a claim was not renewed, trying again", "error", err)
		}
	}
}

// cancelledBy says who has cancelled the run, as far as is known; "" if nobody has.
func (c *claim) cancelledBy() string {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
		return c.run.Data.Cancel
	default: // it is being written: the next renewal tells
		return ""
	}
}

// renew makes the claim last longer. Where that fails, expired says whether it
// has come to its end meanwhile.
func (c *claim) renew(ctx context.Context) (expired bool, err error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	next, until, now := c.run.Data, c.run.Data.Expires, c.Now()
	// The monotonic clock stops while a machine sleeps, and the other may be set.
	left := min(until.Sub(now), until.Round(0).Sub(now.Round(0)), c.Claim)
	next.Expires, next.ClaimFor = now.Add(c.Claim), c.Claim
	if c.Yields { // a store that does not answer must not hide that the time is up
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(left, c.Claim/20))
		defer cancel()
	}
	err = c.write(ctx, next)
	return err != nil && (ctx.Err() != nil || c.Now().Sub(now) >= left), err
}

// confirm renews the claim, so that no apply begins after the run was given to
// another runner. A store that fails is retried for as long as the claim lasts.
func (c *claim) confirm(ctx context.Context) error {
	_, err := retry(ctx, func() (struct{}, error) {
		_, err := c.renew(ctx) // also one that has expired: nobody may have taken the run
		if errors.Is(err, errTaken) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(max(c.Claim, firstRetry*8)))
	if err != nil && !errors.Is(err, errTaken) {
		return fmt.Errorf("renew the claim of the run before Terraform is started, so that no other runner has the task (nothing was applied): %w", err)
	}
	return err
}

// makeGood has the task run again if this run, which another runner may have
// overtaken, has applied something: that may be older than what the other applied.
func (c *claim) makeGood(ctx context.Context, done result, taken error) error {
	if !done.applied {
		return taken
	}
	patience := c.patience()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	run := c.run.Data
	_, err := retry(ctx, func() (struct{}, error) {
		return struct{}{}, state.Doubt(ctx, c.Store, run.Task, fmt.Sprintf("run %s was given up and went on: it may have applied older values", run.ID), c.Now())
	}, backoff.WithMaxElapsedTime(patience))
	if err != nil {
		return fmt.Errorf("%w; it has applied something, and the task could not be marked to run again (run the task once by hand): %w", taken, err)
	}
	return fmt.Errorf("%w; it has applied something, so the task runs again", taken)
}

// ended returns the run as it is when it ends now. The claim is not renewed any more.
func (c *claim) ended(now time.Time) state.Run {
	run := c.run.Data
	run.Ended, run.Expires, run.ClaimFor = now, time.Time{}, 0
	return run
}

// waiting returns the run as it is when it begins to wait: without a claim.
func (c *claim) waiting(now time.Time, wait state.Wait, done result) state.Run {
	if wait.ID == "" {
		wait.ID = uuid.NewString()
	}
	wait.Since, wait.Text = now, state.Cut(wait.Text)
	run := c.run.Data
	run.State, run.Wait, run.Resumed = state.RunWaiting, &wait, nil
	run.Claim, run.Owner, run.Runner, run.Who, run.Expires, run.ClaimFor = "", "", "", "", time.Time{}, 0
	run.Digest, run.Changes = done.snap.Condition.Digest, done.changes
	return run
}

// patience is how long a write that must not be lost is retried.
func (r *Runner) patience() time.Duration {
	if r.Patience == 0 {
		return recordFor
	}
	return r.Patience
}

// record writes the outcome: the run and, in the same step, what it means for
// its task. It goes on for a while when the store does not take it, also after
// ctx has ended: an apply that happened must not be forgotten.
func (r *Runner) record(ctx context.Context, c *claim, run state.Run, done result, output *output) (state.Run, error) {
	patience := r.patience()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()

	r.keepForPeople(ctx, &run, done, output, patience/4)
	_, err := retry(ctx, func() (struct{}, error) {
		err := r.settle(ctx, c, run, done.definition)
		if cancelled := new(cancelledError); errors.As(err, &cancelled) {
			run = c.ended(r.Now())
			run.State, run.Cancel, run.Error = state.RunCancelled, cancelled.by, state.Cut(cancelled.Error())
			err = r.settle(ctx, c, run, done.definition)
		}
		if errors.Is(err, errTaken) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(patience), backoff.WithNotify(func(err error, wait time.Duration) {
		r.Log.Warn("an outcome was not recorded, trying again", "in", wait, "error", err)
	}))
	return run, err
}

// settle records the outcome, or that the run waits. If the leader has just
// written the task's record, that is read again.
func (r *Runner) settle(ctx context.Context, c *claim, run state.Run, definition string) error {
	if !run.Kind.Occupies() {
		return c.write(ctx, run)
	}
	for {
		task, err := state.Read[state.Task](ctx, r.Store, state.TaskKey(run.Task))
		if err != nil {
			return fmt.Errorf("read task %s: %w", run.Task, err)
		}
		if task.Data.Run == nil || task.Data.Run.ID != run.ID {
			return c.recorded(ctx, run)
		}
		var next state.Task
		var forgotten []string
		if run.State == state.RunWaiting {
			next = task.Data.BeginWait(run)
		} else {
			next, forgotten = task.Data.Conclude(run, definition)
		}
		c.events = c.events.Again(outbox.Number(&next, outbox.OfRun(run)))
		if err := state.Forget(ctx, r.Store, run.Task, forgotten); err != nil {
			r.Log.Warn("an old run was not removed, it will be with the next one", "error", err)
			next.History = append(forgotten, next.History...)
		}
		err = c.write(ctx, run, append(c.events.Changes(), task.Write(next))...)
		var conflict *state.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
	}
}

// recorded looks whether the outcome is in the store already, which is so when
// an answer was lost. It returns errTaken if something else is.
func (c *claim) recorded(ctx context.Context, run state.Run) error {
	there, err := c.Store.Get(ctx, c.run.Key)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return fmt.Errorf("read run %s: %w", run.ID, err)
	}
	if err != nil || !bytes.Equal(there.Value, state.Encode(run)) {
		return errTaken
	}
	return nil
}

// retry calls do until it succeeds, as long as the options and ctx allow. The
// error is that of the last attempt.
func retry[T any](ctx context.Context, do func() (T, error), opts ...backoff.RetryOption) (T, error) {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = firstRetry, longestRetry
	waits.RandomizationFactor = 0 // runs come to their ends apart as it is, and a history can be repeated
	var last error
	got, err := backoff.Retry(ctx, func() (T, error) {
		got, err := do()
		if errors.As(err, new(*state.NewerError)) {
			err = backoff.Permanent(err)
		}
		last = err
		return got, err
	}, append(opts, backoff.WithBackOff(waits))...)
	if err == nil {
		return got, nil
	}
	if permanent := new(backoff.PermanentError); errors.As(last, &permanent) {
		return got, permanent.Unwrap()
	}
	return got, last
}
