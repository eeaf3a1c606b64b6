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
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/state"
)

// recordFor is how long an outcome that the store does not take is offered
// again. After that the run is found lost, and is run once more.
const recordFor = 2 * time.Minute

// errTaken ends a run whose claim is no longer its own.
var errTaken = errors.New("the run was given up by the leader")

// Consul reads what a task renders.
type Consul interface {
	Snapshot(ctx context.Context, t *config.Task) (*consul.Snapshot, error)
}

// Applier makes a task's infrastructure what the snapshot says. It writes what
// Terraform prints, without secrets, to out.
type Applier interface {
	Apply(ctx context.Context, t *config.Task, snap *consul.Snapshot, out io.Writer) (*state.Changes, error)
}

// Runner carries out runs. It is safe for concurrent use.
type Runner struct {
	Config  *config.Config
	Digest  string // of Config
	Store   state.Store
	Consul  Consul
	Applier Applier
	Owner   string        // of claims; one per process
	Claim   time.Duration // how long a claim lasts unless it is renewed
	Now     func() time.Time
	Log     *slog.Logger
	// Output, if set, also receives what Terraform prints for the task.
	Output func(task string) io.Writer
}

// Run carries out one run of the launch. The error says why there is no
// outcome in the store; a run that failed and is recorded as failed is none.
func (r *Runner) Run(ctx context.Context, launch state.Launch, planned state.PlannedRun) error {
	log := r.Log.With("task", planned.Task, "run", planned.ID, "launch", launch.ID, "fence", launch.Fence)
	c, err := r.claim(ctx, planned)
	if err != nil {
		return fmt.Errorf("claim run %s of task %s: %w", planned.ID, planned.Task, err)
	}
	if c == nil {
		log.Debug("the run is not there to be claimed any more")
		return nil
	}
	log.Info("run started", "reason", c.run.Data.Reason.Kind, "detail", c.run.Data.Reason.Text)

	var output bytes.Buffer
	run := c.run.Data
	applied, changes, err := r.apply(ctx, c, launch, &output)
	run = c.ended(r.Now())
	run.Changes = changes
	switch {
	case errors.Is(err, errTaken):
		return fmt.Errorf("run %s of task %s: %w", planned.ID, planned.Task, err)
	case err != nil:
		run.State, run.Error = state.RunFailed, state.Cut(err.Error())
	default:
		run.State, run.Digest = state.RunSucceeded, applied.Condition.Digest
	}

	if err := r.record(ctx, c, run, applied, output.Bytes()); err != nil {
		log.Error("the outcome of a run could not be recorded: it will be taken for lost and run again",
			"outcome", run.State, "run_error", run.Error, "error", err)
		return fmt.Errorf("record the outcome of run %s of task %s: %w", planned.ID, planned.Task, err)
	}
	attrs := []any{"duration", run.Ended.Sub(run.Started).Round(time.Millisecond)}
	if run.Changes != nil {
		attrs = append(attrs, "added", run.Changes.Add, "changed", run.Changes.Change, "destroyed", run.Changes.Destroy)
	}
	if !run.Seen.IsZero() {
		attrs = append(attrs, "since_seen", run.Ended.Sub(run.Seen).Round(time.Millisecond))
	}
	if run.State == state.RunFailed {
		log.Error("run failed", append(attrs, "error", run.Error)...)
	} else {
		log.Info("run succeeded", attrs...)
	}
	return nil
}

// apply reads and applies, as long as the claim stands.
func (r *Runner) apply(ctx context.Context, c *claim, launch state.Launch, output io.Writer) (*consul.Snapshot, *state.Changes, error) {
	task, ok := r.Config.Task(c.run.Data.Task)
	if launch.Config != r.Digest || !ok {
		return nil, nil, fmt.Errorf("the run was decided on another configuration (%.12s) than this runner has (%.12s)", launch.Config, r.Digest)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		c.keep(ctx, stop)
	}()
	defer func() { stop(nil); <-kept }()

	snap, err := r.Consul.Snapshot(ctx, task)
	if err != nil {
		return nil, nil, cause(ctx, err)
	}
	if r.Output != nil {
		output = io.MultiWriter(output, r.Output(task.Name))
	}
	changes, err := r.Applier.Apply(ctx, task, snap, output)
	return snap, changes, cause(ctx, err)
}

// cause replaces the error that follows from a lost claim by that fact.
func cause(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errTaken) {
		return errTaken
	}
	return err
}

// claim is a run that this runner holds.
type claim struct {
	*Runner
	mu  sync.Mutex
	run state.Stored[state.Run]
}

// claim takes the run if nobody else has; otherwise it returns nil.
func (r *Runner) claim(ctx context.Context, planned state.PlannedRun) (*claim, error) {
	run, err := state.Read[state.Run](ctx, r.Store, state.RunKey(planned.Task, planned.ID))
	if err != nil {
		return nil, err
	}
	if run.Data.State != state.RunIntended {
		return nil, nil
	}
	c := &claim{Runner: r, run: run}
	now := r.Now()
	next := run.Data
	next.State, next.Owner, next.Started, next.Expires = state.RunRunning, r.Owner, now, now.Add(r.Claim)
	if err := c.write(ctx, next); err != nil {
		if conflict := new(state.ConflictError); errors.As(err, &conflict) {
			return nil, nil
		}
		return nil, err
	}
	return c, nil
}

// write replaces the run's record as it was last written. The caller holds mu
// or is alone.
func (c *claim) write(ctx context.Context, next state.Run) error {
	recs, err := c.Store.Apply(ctx, c.run.Write(next))
	if err != nil {
		return err
	}
	c.run = state.Stored[state.Run]{Record: recs[0], Data: next}
	return nil
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
		c.mu.Lock()
		next := c.run.Data
		next.Expires = c.Now().Add(c.Claim)
		err := c.write(ctx, next)
		c.mu.Unlock()
		if conflict := new(state.ConflictError); errors.As(err, &conflict) {
			stop(errTaken)
			return
		}
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("a claim was not renewed, trying again", "task", next.Task, "run", next.ID, "error", err)
		}
	}
}

// ended returns the run as it is when it ends now.
func (c *claim) ended(now time.Time) state.Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.run.Data
	run.Ended, run.Expires = now, time.Time{}
	return run
}

// record writes the outcome: the run and, in the same step, what it means for
// its task. It goes on for a while when the store does not take it, also after
// ctx has ended: an apply that happened must not be forgotten.
func (r *Runner) record(ctx context.Context, c *claim, run state.Run, applied *consul.Snapshot, output []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordFor)
	defer cancel()

	// What is only there to be read by people may fail.
	if err := state.SaveLog(ctx, r.Store, run.Task, run.ID, output); err != nil {
		r.Log.Warn("the output of a run was not kept", "task", run.Task, "run", run.ID, "error", err)
	} else {
		run.Logs = len(output)
	}
	if run.State == state.RunSucceeded {
		if err := state.SaveInputs(ctx, r.Store, run.Task, applied.Condition.Elements); err != nil {
			r.Log.Warn("the elements of a condition were not kept", "task", run.Task, "run", run.ID, "error", err)
		}
	}

	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, r.settle(ctx, c, run)
	}, backoff.WithMaxElapsedTime(recordFor), backoff.WithNotify(func(err error, wait time.Duration) {
		r.Log.Warn("an outcome was not recorded, trying again", "task", run.Task, "run", run.ID, "in", wait, "error", err)
	}))
	return err
}

// settle records the outcome. Where the leader has just written the task's
// record, that is read again.
func (r *Runner) settle(ctx context.Context, c *claim, run state.Run) error {
	for {
		err := r.settleOn(ctx, c, run)
		var conflict *state.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		if conflict.Change.Key == c.run.Key {
			return backoff.Permanent(errTaken)
		}
	}
}

// settleOn makes one attempt, on the task's record as it is now.
func (r *Runner) settleOn(ctx context.Context, c *claim, run state.Run) error {
	task, err := state.Read[state.Task](ctx, r.Store, state.TaskKey(run.Task))
	if err != nil {
		return fmt.Errorf("read task %s: %w", run.Task, err)
	}
	next := task.Data
	if next.Run == nil || next.Run.ID != run.ID {
		return backoff.Permanent(errTaken)
	}
	definition := ""
	if def, ok := r.Config.Task(run.Task); ok {
		definition = def.Digest(r.Config)
	}
	next, forgotten := next.Conclude(run, definition)
	if err := state.Forget(ctx, r.Store, run.Task, forgotten); err != nil {
		r.Log.Warn("an old run was not removed", "task", run.Task, "error", err)
	}
	_, err = r.Store.Apply(ctx, c.run.Write(run), task.Write(next))
	return err
}
