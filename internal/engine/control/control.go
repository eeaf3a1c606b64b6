// Package control is what people request: runs, changes of tasks, approvals, holds and pauses.
// Control writes that to the store, in any process, and the leader acts on it.
package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/spans"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// What Control refuses.
var (
	ErrNoTask   = errors.New("there is no such task")
	ErrExists   = errors.New("there is a task of this name already")
	ErrActive   = errors.New("the task is active and cannot be changed at this time")
	ErrDisabled = errors.New("the task is disabled")
	ErrNoRun    = errors.New("the task has no run under way")
	// ErrConfigured is what Forget returns of a task that there is.
	ErrConfigured = errors.New("the task is in the configuration")
	// ErrWaits is what AwaitRun returns of a run that does not begin before a person or
	// a window lets it.
	ErrWaits = errors.New("the run is requested and waits")
	// ErrNotWaiting is what Resume returns of a run that does not wait, or not any
	// more for what was meant.
	ErrNotWaiting = errors.New("the run does not wait for this")
	ErrGivenUp    = errors.New("the run is given up") // that somebody waits for
)

// changeTries is how often a change is written whose records others write, too.
const changeTries = 20

// turnWait is how long a change waits for its turn while no other turn ends. While the
// store answers, each takes milliseconds.
const turnWait = 3 * time.Second

// Control is what people ask of the engine, through whichever process serves
// them: it writes to the store, and the leader acts on it.
type Control struct {
	Store state.Store
	// Base returns what the files, or the bundle in force, say. The error is *UnknownError where that is not known.
	Base func(context.Context) (*config.Config, error)
	// Source is the cache of the effective configuration; may be nil.
	Source *overlay.Source
	// Plan starts a plan run of a task or, if a definition is given, of a
	// task that is not there.
	Plan func(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error)
	// PlanReplacing starts a plan run of a task as the definition has it, which may be another one of a task
	// that there is; nil where that is not possible.
	PlanReplacing func(ctx context.Context, definition json.RawMessage) (state.PlannedRun, error)
	// WhatIf starts the plan runs that say what tasks would do under a what-if; nil where it
	// cannot be started.
	WhatIf func(ctx context.Context, w condition.WhatIf, tasks []string, by string) (state.Question, error)
	// Wake has the leader look at once, where that is possible; nil where it
	// looks by itself before long.
	Wake func(context.Context)
	// Output loads what is kept elsewhere than in the store, by its URL; nil
	// where nothing is.
	Output func(ctx context.Context, url string) ([]byte, error)
	// RemoteOutput returns what the remote run of a waiting run has printed since the run
	// began to wait; nil if no run goes on in another system.
	RemoteOutput func(ctx context.Context, cfg *config.Config, run state.Run) (string, error)
	// Spans exports the spans of runs that people end; may be nil.
	Spans spans.Recorder
	// Poll is how often a run is looked at that is waited for.
	Poll time.Duration
	Now  func() time.Time

	once  sync.Once
	turns chan struct{} // one place: who writes through this process waits here, not in the store
	ended atomic.Int64  // how many turns have ended
}

// UnknownError says why what the files say is not known to this process, and what to do about it. What is in
// the store is known all the same.
type UnknownError struct{ Why string }

func (e *UnknownError) Error() string { return e.Why }

// Known returns the effective configuration or, where that is not known, what the store says without it.
func (c *Control) Known(ctx context.Context) (*overlay.Effective, error) {
	effective, err := c.Config(ctx)
	if errors.As(err, new(*UnknownError)) {
		return overlay.Unconfigured(ctx, c.Store, err)
	}
	return effective, err
}

// Config returns the effective configuration.
func (c *Control) Config(ctx context.Context) (*overlay.Effective, error) {
	base, err := c.Base(ctx)
	if err != nil {
		return nil, err
	}
	return c.Source.Read(ctx, c.Store, base)
}

// AuditRetention is how long entries of the audit record are kept. If the configuration cannot be
// read, it is the default: people can still pause and hold then.
func (c *Control) AuditRetention(ctx context.Context) time.Duration {
	base, err := c.Base(ctx)
	if err != nil || base.AuditRetention <= 0 {
		return audit.Retention
	}
	return base.AuditRetention
}

// someone is who asks, also where nobody has said who.
func someone(by string) string { return cmp.Or(state.Line(by), "somebody") }

// accountOf returns the account of who sends the request, if that is this name.
func accountOf(ctx context.Context, by string) string {
	if of := audit.Of(ctx); of.Proven() && of.Name == by {
		return of.Account
	}
	return ""
}

// act is what somebody does, for the audit record.
type act struct {
	audit.Entry
	by string
}

// acts returns what somebody does with a task, or with all of them.
func acts(action audit.Action, task, by string) *act {
	return &act{audit.Entry{Action: action, Task: task}, by}
}

// write writes changes, of which there may be none, and requests a tick. If
// another process was faster, decide is called again. The entry of what somebody does, if any,
// is written with the changes.
func (c *Control) write(ctx context.Context, does *act, decide func(*state.Reconcile) ([]state.Change, error)) error {
	defer c.acquireTurn(ctx)()
	for try := 1; ; try++ {
		rec, err := state.ReadReconcile(ctx, c.Store)
		if err != nil {
			return err
		}
		next := rec.Data
		changes, err := decide(&next)
		if errors.Is(err, errNoChange) {
			return nil
		}
		if err != nil {
			return err
		}
		if does != nil {
			changes = append(changes, audit.Write(ctx, does.Entry, does.by, c.Now()))
		}
		next.Due = clock.Earlier(next.Due, c.Now())
		_, err = c.Store.Apply(ctx, append(changes, rec.Write(next))...)
		if errors.As(err, new(*state.ConflictError)) && try < changeTries && delay.For(ctx, time.Duration(try)*5*time.Millisecond) {
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
// what ends the turn. Turns only save attempts: if none ends within turnWait, the caller
// goes on without one, because the store may not answer the others.
func (c *Control) acquireTurn(ctx context.Context) (end func()) {
	c.once.Do(func() { c.turns = make(chan struct{}, 1) })
	for {
		before := c.ended.Load()
		select {
		case c.turns <- struct{}{}:
			return func() { <-c.turns; c.ended.Add(1) }
		case <-ctx.Done():
			return func() {}
		case <-time.After(turnWait):
			if c.ended.Load() == before {
				return func() {}
			}
		}
	}
}
