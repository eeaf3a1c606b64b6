package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// claim is a run that this runner holds.
type claim struct {
	*Runner
	turn chan struct{}           // holds an element while run is being written
	run  state.Stored[state.Run] // as last written

	claimed   state.Run                     // as it was when it was claimed
	before    state.Kept                    // output of the earlier steps of a run with a remote run; zero if there is none
	continued bool                          // the output begins with before
	planned   atomic.Pointer[time.Time]     // when it was known what the run would change
	begun     atomic.Pointer[state.Begun]   // its apply, as the guards count it
	unsaved   atomic.Pointer[state.Unsaved] // the state that the backend has not got
	events    outbox.Events                 // of the outcome
	since     time.Time                     // when that was, by the clock of this process
}

// claim takes the run unless somebody else has; then it returns nil.
func (r *Runner) claim(ctx context.Context, launch state.Launch, planned state.PlannedRun) (*claim, error) {
	id := uuid.NewString()
	var before state.Kept
	return retry(ctx, func() (*claim, error) {
		run, err := state.Read[state.Run](ctx, r.Store, state.RunKey(planned.Task, planned.ID))
		if err != nil {
			return nil, err
		}
		c := &claim{Runner: r, turn: make(chan struct{}, 1), run: run, since: r.Now()}
		if c.holds(run.Data, id) {
			c.claimed, c.before = run.Data, before // by the attempt before, whose answer was lost
			c.unsaved.Store(run.Data.Unsaved)
			return c, nil
		}
		if run.Data.State != state.RunIntended {
			return nil, nil
		}
		if run.Data.Launch != launch.ID {
			return nil, backoff.Permanent(fmt.Errorf("it is a run of launch %s, and this runner was started for launch %s", run.Data.Launch, launch.ID))
		}
		now := r.Now()
		next := run.Data
		next.State, next.Claim, next.Owner, next.Runner, next.Who = state.RunRunning, id, r.Owner, cmp.Or(r.ID, r.Instance), r.Who
		next.Version = buildinfo.Version
		next.Expires, next.ClaimFor = now.Add(r.Claim), r.Claim
		if next.Resumed == nil {
			next.Launched, next.Started = launch.Begun, now
		} else {
			next.Waited += max(0, now.Sub(next.Wait.Since))
			if next.Remote.Created() {
				before = next.PrintedTo()
			}
			next.Output = state.Kept{Name: outputName(next)}
		}
		c.claimed, c.before = next, before
		c.unsaved.Store(next.Unsaved)
		if err = c.write(ctx, next); errors.Is(err, errTaken) {
			return nil, nil // another runner was faster
		}
		return c, err
	}, backoff.WithMaxTries(claimTries))
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
		if current := conflict.Current; current != nil && bytes.Equal(current.Value, change.Value) {
			c.run = state.Stored[state.Run]{Record: *current, Data: next}
			return nil // this very write, with all that goes with it
		}
		if err := c.seen(conflict.Current); err != nil {
			return err
		}
		next.Cancel = c.run.Data.Cancel
	}
}

// claimedStore is the store, in which every write holds only under the claim: a run that
// was given up writes nothing. The caller has its turn or is alone.
type claimedStore struct {
	state.Store
	c *claim
}

// Apply returns no records. The error is errTaken if the run was given up.
func (s claimedStore) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	for {
		_, err := s.Store.Apply(ctx, append([]state.Change{state.Check(s.c.run.Record)}, changes...)...)
		var conflict *state.ConflictError
		if !errors.As(err, &conflict) || conflict.Change.Key != s.c.run.Key {
			return nil, err
		}
		if err := s.c.seen(conflict.Current); err != nil {
			return nil, err
		}
	}
}

// seen takes over the run's record as it is in the store, nil if it is not there. The error is
// errTaken if the run was given up.
func (c *claim) seen(current *state.Record) error {
	if current == nil {
		return errTaken
	}
	there, err := state.Decode[state.Run](*current)
	if err != nil {
		return err
	}
	if there.Version == c.run.Version || !c.holds(there.Data, c.run.Data.Claim) {
		return errTaken
	}
	c.run = there // a renewal, or the run was cancelled
	return nil
}

// Planned implements driver.Notes: it is known what the run would change.
func (c *claim) Planned() { c.planned.Store(new(c.Now())) }

// Saved implements driver.Notes.
func (c *claim) Saved() { c.unsaved.Store(nil) }

// noteState notes whether the backend has the state after an apply that has left this one, and has ended with err.
func (c *claim) noteState(left *state.Unsaved, err error) {
	if err == nil {
		c.unsaved.Store(nil)
	} else if left != nil {
		noted := *left
		noted.Run, noted.Since = c.claimed.ID, c.Now()
		noted.Runner, noted.Instance = c.claimed.Runner, c.ID == "" && c.Instance != "" && left.Place != ""
		if was := c.claimed.Unsaved; was != nil && was.State == noted.State && was.Place == noted.Place {
			noted.Run, noted.Since = was.Run, was.Since // it is still that one
		}
		c.unsaved.Store(&noted)
	}
}

// current is the run as it was last written, with what was noted since.
func (c *claim) current() state.Run {
	run := c.run.Data
	run.Unsaved, run.Begun = c.unsaved.Load(), cmp.Or(c.begun.Load(), run.Begun)
	if at := c.planned.Load(); at != nil {
		run.Planned = *at
	}
	return run
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

// cancelledBy returns who has cancelled the run, as far as is known, else "".
func (c *claim) cancelledBy() string {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
		return c.run.Data.Cancel
	default: // it is being written: the next renewal shows it
		return ""
	}
}

// renew renews the claim. If that fails, expired says whether the claim has expired
// meanwhile.
func (c *claim) renew(ctx context.Context) (expired bool, err error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	next, now := c.current(), c.Now()
	left := c.left(now)
	next.Expires, next.ClaimFor = now.Add(c.Claim), c.Claim
	if c.Yields { // a store that does not answer must not hide that the time is up
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(left, c.Claim/20))
		defer cancel()
	}
	err = c.write(ctx, next)
	return err != nil && (ctx.Err() != nil || c.Now().Sub(now) >= left), err
}

// left is how long the claim lasts. The monotonic clock stops while a machine
// sleeps, and the other clock may be set.
func (c *claim) left(now time.Time) time.Duration {
	until := c.run.Data.Expires
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)), c.Claim)
}

// confirm renews the claim, so that no apply begins after the run was given to
// another runner: half of the claim must be left for the driver to begin. A store that
// fails or answers late is retried for as long as the claim lasts.
func (c *claim) confirm(ctx context.Context) error {
	_, err := retry(ctx, func() (struct{}, error) {
		asked := c.Now()
		_, err := c.renew(ctx) // also one that has expired: nobody may have taken the run
		now := c.Now()
		if took := max(now.Sub(asked), now.Round(0).Sub(asked.Round(0))); err == nil && took > c.Claim/2 {
			err = fmt.Errorf("the store took %s for it, and the runner must report every %s", took.Round(time.Millisecond), c.Claim)
		}
		if errors.Is(err, errTaken) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(max(c.Claim, firstRetry*8)))
	if err != nil && !errors.Is(err, errTaken) {
		return fmt.Errorf("record that the run continues, before its apply begins, so that no other runner has the task (nothing was applied): %w", err)
	}
	return err
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
