package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/pause"
	"github.com/terrapulse/terrapulse/internal/state"
)

// What Control refuses.
var (
	ErrNoTask   = errors.New("there is no such task")
	ErrExists   = errors.New("there is a task of this name already")
	ErrActive   = errors.New("the task is active and cannot be changed at this time")
	ErrDisabled = errors.New("the task is disabled")
	ErrNoRun    = errors.New("the task has no run under way")
	ErrNoRetry  = errors.New("the task's latest run did not fail")
	// ErrConfigured is what Forget returns of a task that there is.
	ErrConfigured = errors.New("the task is in the configuration")
	ErrGivenUp    = errors.New("the run is given up") // that somebody waits for
)

// changeTries is how often a change is written whose records others write, too.
const changeTries = 20

// turnWait is how long a change waits for earlier ones at most. While the store
// answers, each takes milliseconds.
const turnWait = 3 * time.Second

// Control is what people ask of the engine, through whichever process serves
// them: it writes to the store, and the leader acts on it.
type Control struct {
	Store state.Store
	// Base returns what the files, or the bundle in force, say.
	Base func(context.Context) (*config.Config, error)
	// Source is the cache of the effective configuration; may be nil.
	Source *overlay.Source
	// Plan starts a plan run of a task or, if a definition is given, of a
	// task that is not there.
	Plan func(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error)
	// Wake has the leader look at once, where that is possible; nil where it
	// looks by itself before long.
	Wake func(context.Context)
	// Output loads what is kept elsewhere than in the store, by its URL; nil
	// where nothing is.
	Output func(ctx context.Context, url string) ([]byte, error)
	// Poll is how often a run is looked at that is waited for.
	Poll time.Duration
	Now  func() time.Time

	once  sync.Once
	turns chan struct{} // one place: who writes through this process waits here, not in the store
}

// Config returns the effective configuration.
func (c *Control) Config(ctx context.Context) (*overlay.Effective, error) {
	base, err := c.Base(ctx)
	if err != nil {
		return nil, err
	}
	return c.Source.Read(ctx, c.Store, base)
}

// someone is who asks, also where nobody has said who.
func someone(by string) string { return cmp.Or(by, "somebody") }

// idle returns the record of a task that no run is under way of.
func (c *Control) idle(ctx context.Context, task string) (state.Stored[state.Task], error) {
	record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
	if err == nil && record.Data.Run != nil {
		err = ErrActive
	}
	return record, err
}

// errNoChange is returned by the functions that say what to write if everything
// is as it should be: nothing is written then, and no tick is requested.
var errNoChange = errors.New("there is nothing to change")

// change writes changes of overrides, which decide derives from the effective
// configuration.
func (c *Control) change(ctx context.Context, decide func(*overlay.Effective, *state.Reconcile) ([]state.Change, error)) error {
	return c.write(ctx, true, func(rec *state.Reconcile) ([]state.Change, error) {
		e, err := c.Config(ctx)
		if err != nil {
			return nil, err
		}
		return decide(e, rec)
	})
}

// write writes changes, of which there may be none, and requests a tick. If
// another process was faster, decide is called again. Each change of an override
// writes the reconcile record too, so that it is read before anything else.
func (c *Control) write(ctx context.Context, overrides bool, decide func(*state.Reconcile) ([]state.Change, error)) error {
	defer c.acquireTurn(ctx)()
	for try := 1; ; try++ {
		rec, err := state.Read[state.Reconcile](ctx, c.Store, state.ReconcileKey)
		if err != nil {
			return fmt.Errorf("read the reconcile record: %w", err)
		}
		next := rec.Data
		changes, err := decide(&next)
		if errors.Is(err, errNoChange) {
			return nil
		}
		if err != nil {
			return err
		}
		next.Due = earlier(next.Due, c.Now())
		if overrides {
			next.Overrides = uuid.NewString()
		}
		_, err = c.Store.Apply(ctx, append(changes, rec.Write(next))...)
		conflict := new(state.ConflictError)
		if errors.As(err, &conflict) && try < changeTries && pause.For(ctx, time.Duration(try)*5*time.Millisecond) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write the change: %w", err)
		}
		if c.Wake != nil {
			c.Wake(ctx)
		}
		return nil
	}
}

// acquireTurn waits until no other goroutine of this process writes, and returns
// what ends the turn. Turns only save attempts: after turnWait the caller goes on
// without one, because the store may not answer the others.
func (c *Control) acquireTurn(ctx context.Context) (end func()) {
	c.once.Do(func() { c.turns = make(chan struct{}, 1) })
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	select {
	case c.turns <- struct{}{}:
		return func() { <-c.turns }
	case <-ctx.Done():
		return func() {}
	}
}
