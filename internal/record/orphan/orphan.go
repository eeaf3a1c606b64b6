// Package orphan ends the runs of a runner that is known to have stopped.
package orphan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Stopped is a runner that is known to have stopped.
type Stopped struct {
	Launch string // for which it was started
	Runner string // in its claims; "" if it is the launch's only runner, and does not linger
	Why    string // in words
}

// Runs marks the runs lost that a stopped runner did not finish, so that their
// tasks are decided again. It returns the runs that it marked, also with an error.
// A repeated call and an unknown launch do no harm.
//
// It needs no lease, because it decides nothing: each write holds only for the run
// and the task as they were read. Runs that another runner of the same launch has
// claimed stay: ECS may start two if it has forgotten the first request.
func Runs(ctx context.Context, store state.Store, stopped Stopped, now time.Time) ([]state.Run, error) {
	launch, err := state.Read[state.Launch](ctx, store, state.LaunchKey(stopped.Launch))
	if err != nil {
		return nil, fmt.Errorf("read launch %s: %w", stopped.Launch, err)
	}
	lost, err := settleLaunch(ctx, store, stopped, launch.Data, now)
	if err != nil || launch.Data.Linger == 0 || stopped.Runner == "" {
		return lost, err
	}
	more, err := settleTaken(ctx, store, stopped, now)
	return append(lost, more...), err
}

// settleTaken settles the launch that the runner took while it lingered, if there is one.
func settleTaken(ctx context.Context, store state.Store, stopped Stopped, now time.Time) (lost []state.Run, err error) {
	runner, err := state.Read[state.Runner](ctx, store, state.RunnerKey(stopped.Runner))
	if errors.As(err, new(*state.CorruptError)) {
		return nil, nil // the next tick asks ECS about the runner
	}
	if err != nil {
		return nil, fmt.Errorf("read which launch runner %s has taken: %w", stopped.Runner, err)
	}
	if !runner.Exists() {
		return nil, nil
	}
	if stopped.Launch = runner.Data.Launch; stopped.Launch != "" {
		launch, err := state.Read[state.Launch](ctx, store, state.LaunchKey(stopped.Launch))
		if err != nil {
			return nil, fmt.Errorf("read launch %s: %w", stopped.Launch, err)
		}
		if lost, err = settleLaunch(ctx, store, stopped, launch.Data, now); err != nil {
			return lost, err
		}
	}
	_, err = store.Apply(ctx, state.Delete(runner.Record))
	if err != nil && !errors.As(err, new(*state.ConflictError)) { // else a launch was just offered: the leader withdraws it
		return lost, fmt.Errorf("delete the record of runner %s: %w", stopped.Runner, err)
	}
	return lost, nil
}

// settleLaunch settles one launch of the runner.
func settleLaunch(ctx context.Context, store state.Store, stopped Stopped, launch state.Launch, now time.Time) (lost []state.Run, err error) {
	for _, planned := range launch.Runs {
		run, err := settleRun(ctx, store, stopped, planned, now)
		if errors.As(err, new(*state.CorruptError)) {
			continue // the next tick reports it, and that task alone waits
		}
		if err != nil {
			return lost, fmt.Errorf("settle run %s of task %s: %w", planned.ID, planned.Task, err)
		}
		if run != nil {
			lost = append(lost, *run)
		}
	}
	return lost, nil
}

// settleRun marks one run lost, if the stopped runner did not finish it.
func settleRun(ctx context.Context, store state.Store, stopped Stopped, planned state.PlannedRun, now time.Time) (*state.Run, error) {
	for {
		run, err := state.Read[state.Run](ctx, store, state.RunKey(planned.Task, planned.ID))
		if err != nil {
			return nil, err
		}
		if stopped.overtaken(run.Data) {
			return nil, doubt(ctx, store, run, stopped)
		}
		if !run.Data.State.Active() || run.Data.Launch != stopped.Launch || !LeftBy(run.Data, stopped.Runner) {
			return nil, nil
		}
		lost := run.Data
		lost.State, lost.Ended, lost.Expires, lost.Error = state.RunLost, now, time.Time{}, state.Cut(stopped.Why)
		lost.Dead = true

		changes := []state.Change{run.Write(lost).Until(lost.KeptUntil())}
		if lost.Kind.Occupies() {
			concluded, err := concludeTask(ctx, store, lost)
			if err != nil {
				return nil, err
			}
			changes = append(changes, concluded...)
		}
		_, err = store.Apply(ctx, changes...)
		if conflict := new(state.ConflictError); errors.As(err, &conflict) {
			continue // another process has written: the run may have ended
		}
		if err != nil {
			return nil, err
		}
		return &lost, nil
	}
}

// LeftBy reports whether a stopped runner left an unfinished run: one that it
// claimed, or an intent, which it can then no longer claim. The runner is "" if it
// is the launch's only one.
func LeftBy(run state.Run, runner string) bool {
	return run.State == state.RunIntended || runner == "" || run.Runner == runner
}

// overtaken reports whether the run was given up while nobody knew whether its
// runner, this one, was alive.
func (s Stopped) overtaken(run state.Run) bool {
	return run.State == state.RunLost && !run.Dead && run.Kind.Applies() && run.Launch == s.Launch &&
		s.Runner != "" && run.Runner == s.Runner
}

// doubt makes the task of an overtaken run run again: until the runner stopped, it
// may have applied something.
func doubt(ctx context.Context, store state.Store, run state.Stored[state.Run], stopped Stopped) error {
	why := fmt.Sprintf("run %s was given up, and its runner went on until it stopped: %s", run.Data.ID, stopped.Why)
	if err := state.Doubt(ctx, store, run.Data, why); err != nil {
		return err
	}
	dead := run.Data
	dead.Dead = true // so that the same event later does nothing
	_, err := store.Apply(ctx, run.Write(dead))
	if conflict := new(state.ConflictError); errors.As(err, &conflict) {
		return nil
	}
	return err
}

// concludeTask returns the changes that give the run's outcome to its task.
func concludeTask(ctx context.Context, store state.Store, run state.Run) ([]state.Change, error) {
	task, err := state.Read[state.Task](ctx, store, state.TaskKey(run.Task))
	if err != nil {
		return nil, err
	}
	if task.Data.Run == nil || task.Data.Run.ID != run.ID {
		return nil, nil // it waits for another run, or for none
	}
	next, forgotten := task.Data.Conclude(run, "")
	if err := state.Forget(ctx, store, run.Task, forgotten); err != nil {
		return nil, err
	}
	ends := outbox.OfEnd(task.Data, next, run)
	for i := range ends {
		ends[i] = outbox.Number(&next, ends[i])
	}
	return append([]state.Change{task.Write(next)}, outbox.NewEvents(ends...).Changes()...), nil
}
