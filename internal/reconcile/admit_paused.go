package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

// holdPaused refuses every run while everything is paused. It is the last rule: its
// reason says what would run at once after a resume.
func holdPaused(d *decider, t trigger) *hold {
	if d.Paused == nil || !t.run || d.elsewhere() {
		return nil
	}
	return refuse(state.ReasonPaused, time.Time{}, "%s; `terrapulse resume` lets it run: %s", d.Paused, t.reason.Text)
}

// Who pauses a deployment that begins paused, and why.
const (
	pausedByDeployment = "the deployment"
	pausedAtFirst      = "it is new: check the plans with `terrapulse invoke -inspect -wait`, then run `terrapulse resume`"
)

// PauseAll keeps every task from running until somebody resumes, whatever requests a run.
// Runs that have begun go on. It returns the pause that counts: if everything is paused
// already, that is the earlier one.
func (c *Control) PauseAll(ctx context.Context, by, reason string) (state.Paused, error) {
	var paused state.Paused
	err := c.write(ctx, func(rec *state.Reconcile) ([]state.Change, error) {
		if rec.Paused != nil {
			paused = *rec.Paused
			return nil, errNoChange
		}
		paused = state.Paused{By: someone(by), Since: c.Now(), Reason: oneLine(reason)}
		return notePause(rec, paused).Changes(), nil
	})
	return paused, err
}

// BeginPaused pauses a deployment in which nothing was decided yet. To repeat it is
// harmless.
func (c *Control) BeginPaused(ctx context.Context) error {
	return c.write(ctx, func(rec *state.Reconcile) ([]state.Change, error) {
		if !rec.Undecided() {
			return nil, errNoChange
		}
		return notePause(rec, state.Paused{By: pausedByDeployment, Since: c.Now(), Reason: pausedAtFirst}).Changes(), nil
	})
}

// ResumeAll lets tasks run again after a pause. It returns the pause that it has ended; nil
// if nothing was paused. A deployment in which nothing was decided yet does not begin
// paused then.
func (c *Control) ResumeAll(ctx context.Context, by, reason string) (*state.Paused, error) {
	var ended *state.Paused
	err := c.write(ctx, func(rec *state.Reconcile) ([]state.Change, error) {
		ended = rec.Paused
		if ended == nil && !rec.Undecided() {
			return nil, errNoChange
		}
		rec.Paused, rec.Resumed = nil, c.Now()
		if ended == nil {
			return nil, nil
		}
		resumed := outbox.Event{Kind: outbox.Resumed, At: rec.Resumed, By: someone(by), Since: ended.Since, Detail: oneLine(reason)}
		return outbox.NewEvents(outbox.NumberShared(rec, resumed)).Changes(), nil
	})
	return ended, err
}

// notePause writes a pause into the reconcile record, and returns its event.
func notePause(rec *state.Reconcile, p state.Paused) outbox.Events {
	rec.Paused = &p
	return outbox.NewEvents(outbox.NumberShared(rec, outbox.Event{Kind: outbox.Paused, At: p.Since, By: p.By, Detail: p.Reason}))
}

// beginPaused pauses a deployment that begins paused, before its first decision. Somebody
// else may do so at the same time, or resume: then that counts.
func (t *tick) beginPaused(ctx context.Context, rec state.Stored[state.Reconcile]) (state.Stored[state.Reconcile], error) {
	for rec.Data.Undecided() {
		next := rec.Data
		events := notePause(&next, state.Paused{By: pausedByDeployment, Since: t.Now(), Reason: pausedAtFirst})
		written, err := t.opts.Lease.Apply(ctx, append(events.Changes(), rec.Write(next))...)
		if conflict := new(state.ConflictError); errors.As(err, &conflict) && conflict.Change.Key == state.ReconcileKey {
			if rec, err = state.ReadReconcile(ctx, t.Store); err != nil {
				return rec, err
			}
			t.noteVersion(rec.Version)
			continue
		}
		if err != nil {
			return rec, fmt.Errorf("pause the deployment before its first run: %w", err)
		}
		t.eventLog().Now(ctx, events)
		t.noteVersion(written[len(written)-1].Version)
		return state.Stored[state.Reconcile]{Record: written[len(written)-1], Data: next}, nil
	}
	return rec, nil
}
