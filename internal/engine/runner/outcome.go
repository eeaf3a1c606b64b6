package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// makeGood marks the task to run again if this run has applied something although
// another run may have been given the task: this one's values may be older. The
// process retries that for as long as it lives (Runner.Background), but longer than
// the patience only if it was not told to stop.
func (c *claim) makeGood(ctx context.Context, done result, taken error) error {
	if !done.applied {
		return taken
	}
	patience := c.patience()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := c.mark(limited, backoff.WithMaxElapsedTime(patience)); err != nil {
		return c.markLater(ctx, fmt.Errorf("%w; it has applied something, and the task could not be marked to run again: %w", taken, err))
	}
	return fmt.Errorf("%w; it has applied something, so the task runs again", taken)
}

// mark marks the task to run again if the run was given up.
func (c *claim) mark(ctx context.Context, opts ...backoff.RetryOption) error {
	_, err := retry(ctx, func() (struct{}, error) {
		run, err := state.Read[state.Run](ctx, c.Store, c.run.Key)
		if err != nil {
			return struct{}{}, err
		}
		lost := run.Data
		switch {
		case !run.Exists():
			lost = c.ended(c.Now())
		case lost.State != state.RunLost:
			return struct{}{}, nil // if it is found lost from now on, the next run begins after this one has ended
		}
		why := fmt.Sprintf("run %s was given up and went on: it may have applied older values", c.run.Data.ID)
		if left := c.unsaved.Load(); left != nil {
			why += "; " + left.String()
		}
		err = state.Doubt(ctx, c.Store, lost, why)
		if err == nil && c.ID == "" { // the stop of a container starts a tick; its role may not write the leader's record
			err = state.WakeLeader(ctx, c.Store, c.Now())
		}
		return struct{}{}, err
	}, opts...)
	return err
}

// markLater has mark retried without a slot for runs. If that is not possible, the
// error says what a person has to do.
func (c *claim) markLater(ctx context.Context, failed error) error {
	const byHand = "%w (run the task once by hand)"
	if c.Background == nil || ctx.Err() != nil {
		return fmt.Errorf(byHand, failed)
	}
	c.Background(c.run.Data, func(ctx context.Context) error {
		limited, cancel := delay.Outlive(ctx, c.patience())
		defer cancel()
		if err := c.mark(limited, backoff.WithMaxElapsedTime(0)); err != nil {
			return fmt.Errorf(byHand, fmt.Errorf("mark task %s to run again after run %s, which was given up and has applied something: %w",
				c.run.Data.Task, c.run.Data.ID, err))
		}
		c.Log.Info("the store answers again: a task is run again if its run was given up")
		return nil
	})
	return fmt.Errorf("%w; the task is marked as soon as the store answers", failed)
}

// ended returns the run as it is when it ends now. The claim is not renewed any more.
func (c *claim) ended(now time.Time) state.Run {
	run := c.current()
	run.Ended, run.Expires, run.ClaimFor = now, time.Time{}, 0
	return run
}

// waiting returns the run as it is when it begins to wait: without a claim.
func (c *claim) waiting(now time.Time, waits driver.WaitError, done result) state.Run {
	wait := waits.Wait
	if wait.ID == "" {
		wait.ID = uuid.NewString()
	}
	wait.Since, wait.Text = now, state.Cut(wait.Text)
	run := c.current()
	run.State, run.Wait, run.Resumed = state.RunWaiting, &wait, nil
	run.Claim, run.Owner, run.Runner, run.Who, run.Expires, run.ClaimFor = "", "", "", "", time.Time{}, 0
	switch r := run.Remote; {
	case r == nil:
	case r.Phase == state.RemoteEnded && wait.For.ForPeople():
		run.Remote, run.Staged = nil, false // the run begins another one when it goes on
	default:
		waits := *r
		waits.Phase = wait.For.RemotePhase()
		run.Remote = &waits
	}
	run.Changes, run.Verifying, run.InState = done.Changes, done.verifying, cmp.Or(done.plan.InState, run.InState)
	if !run.Staged { // else they are of what the remote run applies
		run.Digest, run.Entries = done.snap.Condition.Digest, done.entries
	}
	if d := waits.Confirmed; d != nil {
		given := state.Given{By: d.By, Authenticated: true, At: cmp.Or(d.At, now).UTC().Truncate(time.Second), Comment: d.Comment}
		run.Approval = &state.Approval{Given: given, Content: state.Content{Definition: done.definition, Input: done.snap.Digest()}}
		if w := c.claimed.Wait; w != nil && w.Content != nil {
			run.Approval.Content = *w.Content
		}
	}
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

	r.keepForPeople(ctx, &run, done, output, min(patience/2, keepFor))
	kept, claimed := false, claimedStore{r.Store, c}
	_, err := retry(ctx, func() (struct{}, error) {
		var err error
		if !kept {
			if done.toKeep, err = keepInputs(ctx, claimed, run, done); err == nil && run.FromRemote && run.State == state.RunSucceeded {
				err = state.EraseRemote(ctx, claimed, run.Task)
			}
			kept, run.Cancel = err == nil, cmp.Or(run.Cancel, c.run.Data.Cancel)
		}
		if err == nil {
			err = r.settle(ctx, c, run, done)
		}
		if cancelled := new(cancelledError); errors.As(err, &cancelled) {
			if v := done.verifying; v != nil { // everything is applied: the next attempt records that
				logs, output := run.Logs, run.Output
				done.verifying, done.verified, kept = nil, v.Cancelled(), false
				run = c.outcome(ctx, r.Now(), done, nil)
				run.Logs, run.Output = logs, output
				return struct{}{}, err
			}
			run = c.ended(r.Now())
			run.State, run.Cancel, run.Error = state.RunCancelled, cancelled.by, state.Cut(cancelled.Error())
			err = r.settle(ctx, c, run, done)
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
func (r *Runner) settle(ctx context.Context, c *claim, run state.Run, done result) error {
	switch run.Kind {
	case state.KindPlan, state.KindDrift: // the leader takes over what a check has found
		if run.Kind == state.KindDrift && run.State == state.RunSucceeded {
			run.Found = driftOf(done.plan)
		}
		audited, err := c.audited(ctx, run, done)
		if err != nil {
			return err
		}
		return c.write(ctx, run, audited...)
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
			next, forgotten = task.Data.Conclude(run, done.definition)
		}
		before := next.Applied.Counts
		next.Applied.Counts = done.counts(run, before)
		next = c.based(next, before, run)
		events := append(append(c.ofPeople(run), outbox.OfEnd(task.Data, next, run)...), outbox.OfDrift(task.Data, next, run.Task, r.Now())...)
		c.events = c.events.Again(numbered(&next, events)...)
		if err := state.Forget(ctx, r.Store, run.Task, forgotten); err != nil {
			r.Log.Warn("an old run was not removed, it will be with the next one", "error", err)
			next.Ended.IDs = append(forgotten, next.Ended.IDs...)
		}
		changes := []state.Change{task.Write(next)}
		if done.toKeep != nil {
			inputs, err := done.toKeep.Changes(ctx, r.Store)
			if err != nil {
				return err
			}
			changes = append(changes, inputs...)
		}
		audited, err := c.audited(ctx, run, done)
		if err != nil {
			return err
		}
		err = c.write(ctx, run, slices.Concat(c.events.Changes(), changes, audited)...)
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
