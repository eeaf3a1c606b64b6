package reconcile

import (
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Cancel ends the task's run that has not ended, and returns its id. If a runner
// has claimed it, the run ends when the runner renews the claim and sees the
// request. The error is ErrNoRun.
func (c *Control) Cancel(ctx context.Context, task, by string) (id string, err error) {
	err = c.write(ctx, false, func(*state.Reconcile) ([]state.Change, error) {
		record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task))
		if err != nil {
			return nil, err
		}
		if record.Data.Run == nil {
			return nil, ErrNoRun
		}
		id = record.Data.Run.ID
		run, err := state.Read[state.Run](ctx, c.Store, state.RunKey(task, id))
		switch {
		case err != nil:
			return nil, fmt.Errorf("read run %s: %w", id, err)
		case !run.Exists() || run.Data.State.Ended():
			return nil, ErrNoRun // the next tick tells its task
		}
		next := run.Data
		next.Cancel = someone(by)
		if run.Data.State == state.RunRunning {
			return []state.Change{run.Write(next)}, nil
		}
		when := "before it began"
		switch {
		case run.Data.State == state.RunWaiting:
			when = "while it waited for " + string(run.Data.Wait.For)
		case run.Data.Resumed != nil:
			when = "before it went on"
		}
		next.State, next.Ended = state.RunCancelled, c.Now()
		next.Error = state.Cut(fmt.Sprintf("cancelled by %s %s", next.Cancel, when))
		concluded, forgotten := record.Data.Conclude(next, "")
		if err := state.Forget(ctx, c.Store, task, forgotten); err != nil {
			return nil, err
		}
		events := outbox.NewEvents(outbox.Number(&concluded, outbox.OfRun(next)))
		return append([]state.Change{run.Write(next), record.Write(concluded)}, events.Changes()...), nil
	})
	return id, err
}

// Retry has a task whose latest run failed, was lost or was cancelled run at
// once, without its backoff. AwaitRun waits for that run.
// The error is ErrNoTask, ErrDisabled, ErrActive or ErrNoRetry.
func (c *Control) Retry(ctx context.Context, task, by string) (earlier Earlier, err error) {
	if err := c.runnable(ctx, task); err != nil {
		return Earlier{}, err
	}
	err = c.write(ctx, false, func(*state.Reconcile) ([]state.Change, error) {
		record, err := c.idle(ctx, task)
		if err != nil {
			return nil, err
		}
		next := record.Data
		if !next.Unfinished() {
			return nil, ErrNoRetry
		}
		earlier = earlierThan(next)
		next.Forced, next.Replaces = someone(by), false
		return []state.Change{record.Write(next)}, nil
	})
	return earlier, err
}

// runnable says why the task cannot be run: ErrNoTask or ErrDisabled.
func (c *Control) runnable(ctx context.Context, task string) error {
	e, err := c.Config(ctx)
	if err != nil {
		return err
	}
	t, ok := e.Config.Task(task)
	switch {
	case !ok:
		return ErrNoTask
	case !t.Enabled:
		return ErrDisabled
	}
	return nil
}
