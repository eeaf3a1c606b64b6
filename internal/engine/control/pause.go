package control

import (
	"context"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// FirstPause is the pause of a deployment that begins paused. Its stack is in the commands to run.
func FirstPause(now time.Time, stack string) state.Paused {
	if stack != "" {
		stack = " -stack=" + stack
	}
	return state.Paused{By: "the deployment", Since: now,
		Reason: fmt.Sprintf("it is new: check the plans with `terrapulse invoke%[1]s -inspect -wait`, then run `terrapulse resume%[1]s`", stack)}
}

// PauseAll keeps every task from running until somebody resumes, whatever requests a run.
// Runs that have begun go on. It returns the pause that counts: if everything is paused
// already, that is the earlier one.
func (c *Control) PauseAll(ctx context.Context, by, reason string) (state.Paused, error) {
	var paused state.Paused
	does := acts(audit.Pause, "", by)
	does.Comment = reason
	err := c.write(ctx, does, func(rec *state.Reconcile) ([]state.Change, error) {
		if rec.Paused != nil {
			paused = *rec.Paused
			return nil, errNoChange
		}
		paused = state.Paused{By: someone(by), Since: c.Now(), Reason: state.Line(reason)}
		return outbox.Pause(rec, paused).Changes(), nil
	})
	return paused, err
}

// BeginPaused pauses the deployment of a stack in which nothing was decided yet. To repeat it is
// harmless.
func (c *Control) BeginPaused(ctx context.Context, stack string) error {
	return c.write(ctx, nil, func(rec *state.Reconcile) ([]state.Change, error) {
		if !rec.Undecided() {
			return nil, errNoChange
		}
		return outbox.Pause(rec, FirstPause(c.Now(), stack)).Changes(), nil
	})
}

// ResumeAll lets tasks run again after a pause. It returns the pause that it has ended; nil
// if nothing was paused. A deployment in which nothing was decided yet does not begin
// paused then.
func (c *Control) ResumeAll(ctx context.Context, by, reason string) (*state.Paused, error) {
	var ended *state.Paused
	does := acts(audit.Resume, "", by)
	does.Comment = reason
	err := c.write(ctx, does, func(rec *state.Reconcile) ([]state.Change, error) {
		ended = rec.Paused
		if ended == nil && !rec.Undecided() {
			return nil, errNoChange
		}
		rec.Paused, rec.Resumed = nil, c.Now()
		if ended == nil {
			return nil, nil
		}
		resumed := outbox.Event{Kind: outbox.Resumed, At: rec.Resumed, By: someone(by), Since: ended.Since, Detail: state.Line(reason)}
		return outbox.NewEvents(outbox.NumberShared(rec, resumed)).Changes(), nil
	})
	return ended, err
}
