package control

import (
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Cancel ends the task's run that has not ended, and returns its id. If a runner
// has claimed it, the run ends when the runner renews the claim and sees the
// request. The error is ErrNoRun.
func (c *Control) Cancel(ctx context.Context, task, by string) (id string, err error) {
	err = c.edit(ctx, task, acts(audit.Cancel, task, by), func(e *Edit) error {
		if e.Next.Run == nil {
			return ErrNoRun
		}
		id = e.Next.Run.ID
		e.does.Run = id
		run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(task, id))
		switch {
		case err != nil:
			return fmt.Errorf("read run %s: %w", id, err)
		case !run.Exists() || run.Data.State.Ended():
			return ErrNoRun // the next tick updates its task
		}
		next := run.Data
		next.Cancel = someone(by)
		if run.Data.State != state.RunRunning && run.Data.Verifying == nil { // which has applied everything
			when := "before it began"
			switch {
			case run.Data.State == state.RunWaiting:
				when = "while it waited for " + run.Data.Wait.For.Text()
			case run.Data.Resumed != nil:
				when = "before it went on"
			}
			next.State, next.Ended = state.RunCancelled, e.Now
			next.Error = state.Cut(fmt.Sprintf("cancelled by %s %s", next.Cancel, when))
			return c.conclude(ctx, e, run, next)
		}
		e.Others = append(e.Others, run.Write(next))
		return nil
	})
	return id, err
}

// conclude adds to the edit that the run of the task has ended as next says.
func (c *Control) conclude(ctx context.Context, e *Edit, run state.Stored[state.Run], next state.Run) error {
	var forgotten []string
	e.Next, forgotten = e.Next.Conclude(next, "")
	if err := state.Forget(ctx, c.Store, next.Task, forgotten); err != nil {
		return err
	}
	e.Others, e.events = append(e.Others, run.Write(next)), append(e.events, outbox.OfRun(next))
	if !run.Data.EndsTrace() {
		e.ended = append(e.ended, next)
	}
	return nil
}
