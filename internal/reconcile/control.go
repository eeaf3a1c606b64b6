package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/outbox"
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
	// ErrWaits is what AwaitRun returns of a run that does not begin before a person or
	// a window lets it.
	ErrWaits   = errors.New("the run is requested and waits")
	ErrGivenUp = errors.New("the run is given up") // that somebody waits for
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
	// RemoteOutput returns what the remote run of a waiting run has printed since the run
	// began to wait; nil if no run goes on in another system.
	RemoteOutput func(ctx context.Context, cfg *config.Config, run state.Run) (string, error)
	// Poll is how often a run is looked at that is waited for.
	Poll time.Duration
	Now  func() time.Time

	once  sync.Once
	turns chan struct{} // one place: who writes through this process waits here, not in the store
	ended atomic.Int64  // how many turns have ended
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
func someone(by string) string { return cmp.Or(oneLine(by), "somebody") }

// oneLine is a text that somebody sends without line breaks and control characters:
// terminals and chats show it.
func oneLine(text string) string {
	return state.Cut(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " "))
}

// errNoChange is returned by the functions that say what to write if nothing has
// to change: then nothing is written, and no tick is requested.
var errNoChange = errors.New("there is nothing to change")

// edit is one change of the records of a task. A verb sets what it changes.
type edit struct {
	*overlay.Effective // nil unless change has read it
	now                time.Time
	rec                *state.Reconcile // written with the edit
	record             state.Stored[state.Task]
	next               state.Task     // the task's record from now on
	others             []state.Change // of other records
	events             []outbox.Event // of the task
}

// edit writes what decide changes about a task, and requests a tick. The task's
// record is always written, so that a tick that has read it before does not act.
func (c *Control) edit(ctx context.Context, task string, decide func(*edit) error) error {
	if len(state.TaskKey(task)) > state.MaxKey {
		return ErrNoTask
	}
	return c.write(ctx, func(rec *state.Reconcile) ([]state.Change, error) {
		record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
		if err != nil {
			return nil, fmt.Errorf("read task %s: %w", task, err)
		}
		e := &edit{now: c.Now(), rec: rec, record: record, next: record.Data}
		if err := decide(e); err != nil {
			return nil, err
		}
		changes, _ := e.changes()
		return changes, nil
	})
}

// change is edit for what also depends on the effective configuration.
func (c *Control) change(ctx context.Context, task string, decide func(*edit) error) error {
	return c.edit(ctx, task, func(e *edit) error {
		base, err := c.Base(ctx)
		if err != nil {
			return err
		}
		if e.Effective, err = c.Source.At(ctx, c.Store, base, e.rec.Overrides); err != nil {
			return err
		}
		return decide(e)
	})
}

// changes returns everything that the edit writes, but for the reconcile record.
func (e *edit) changes() ([]state.Change, outbox.Events) {
	events := outbox.NewEvents(number(&e.next, *e.rec, e.events)...)
	return slices.Concat(e.others, []state.Change{e.record.Write(e.next)}, events.Changes()), events
}

// override adds the change of an override, and its event. A process that reads the
// reconcile record sees that the overrides have changed.
func (e *edit) override(change state.Change, event outbox.Event) {
	e.rec.Overrides = uuid.NewString()
	e.others, e.events = append(e.others, change), append(e.events, event)
}

// overridden is override for a request, with the event that follows from it.
func (e *edit) overridden(change state.Change, o state.Override) {
	kind := map[state.Op]outbox.Kind{state.OpCreate: outbox.OverrideCreated, state.OpReplace: outbox.OverrideChanged, state.OpDelete: outbox.OverrideRemoved}[change.Op]
	e.override(change, outbox.Event{Kind: kind, At: o.At, Task: o.Task, By: o.By, Detail: o.String()})
}

// write writes changes, of which there may be none, and requests a tick. If
// another process was faster, decide is called again.
func (c *Control) write(ctx context.Context, decide func(*state.Reconcile) ([]state.Change, error)) error {
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
		next.Due = earlier(next.Due, c.Now())
		_, err = c.Store.Apply(ctx, append(changes, rec.Write(next))...)
		if errors.As(err, new(*state.ConflictError)) && try < changeTries && pause.For(ctx, time.Duration(try)*5*time.Millisecond) {
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
