package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Stopped is a runner that is known to have stopped.
type Stopped struct {
	Launch string // that it was started for
	// Runner is the Runner of every claim that it made. If it is empty, the
	// launch has only this runner.
	Runner string
	Why    string // in words
}

// Settle marks the runs lost that a stopped runner has left unfinished, and
// tells their tasks, so that they are decided anew. It returns the runs that it
// marked, also with an error; to settle once more is harmless, as is to settle
// what Terrapulse does not know.
//
// No lease is needed. Nothing is decided here: that a run has ended is a fact,
// and is written as its runner would have written it, by a step that holds only
// for the run and the task as they were read. A runner that claims an intent at
// the same moment, or records an outcome, and a tick that finds the run lost,
// too, come first or find it changed. What another runner of the same launch
// has claimed is left to that one: there are two when ECS has forgotten that it
// was asked before, and this one's stop may be told late.
func Settle(ctx context.Context, store state.Store, stopped Stopped, now time.Time) ([]state.Run, error) {
	launch, err := state.Read[state.Launch](ctx, store, state.LaunchKey(stopped.Launch))
	if err != nil {
		return nil, fmt.Errorf("read launch %s: %w", stopped.Launch, err)
	}
	var lost []state.Run
	for _, planned := range launch.Data.Runs {
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

// settleRun marks one run lost, if the stopped runner has left it unfinished.
func settleRun(ctx context.Context, store state.Store, stopped Stopped, planned state.PlannedRun, now time.Time) (*state.Run, error) {
	for {
		run, err := state.Read[state.Run](ctx, store, state.RunKey(planned.Task, planned.ID))
		if err != nil {
			return nil, err
		}
		if stopped.overtaken(run.Data) {
			return nil, doubt(ctx, store, run, stopped, now)
		}
		if !run.Data.State.Active() || run.Data.Launch != stopped.Launch || !stopped.leftBy(run.Data) {
			return nil, nil
		}
		lost := run.Data
		lost.State, lost.Ended, lost.Expires, lost.Error = state.RunLost, now, time.Time{}, state.Cut(stopped.Why)
		lost.Dead = true

		changes := []state.Change{run.Write(lost).Until(lost.KeptUntil())}
		if lost.Kind.Occupies() {
			told, err := concludeTask(ctx, store, lost)
			if err != nil {
				return nil, err
			}
			changes = append(changes, told...)
		}
		_, err = store.Apply(ctx, changes...)
		if conflict := new(state.ConflictError); errors.As(err, &conflict) {
			continue // someone has written meanwhile: it may have ended otherwise
		}
		if err != nil {
			return nil, err
		}
		return &lost, nil
	}
}

// left reports whether an unfinished run is one that the runner has left: one
// that it claimed, or that nobody has. An intent is taken from whoever may
// still come to claim it: that claim is refused then.
func (s Stopped) leftBy(run state.Run) bool {
	return run.State == state.RunIntended || s.Runner == "" || run.Runner == s.Runner
}

// overtaken reports whether the runner claimed a run that was given up while
// nobody could say whether the runner was alive.
func (s Stopped) overtaken(run state.Run) bool {
	return run.State == state.RunLost && !run.Dead && run.Kind.Applies() && run.Launch == s.Launch &&
		s.Runner != "" && run.Runner == s.Runner
}

// doubt has the task of a run that was given up run again, now that its runner
// has stopped: that may have applied something until now.
func doubt(ctx context.Context, store state.Store, run state.Stored[state.Run], stopped Stopped, now time.Time) error {
	why := fmt.Sprintf("run %s was given up, and its runner went on until it stopped: %s", run.Data.ID, stopped.Why)
	if err := state.Doubt(ctx, store, run.Data.Task, why, now); err != nil {
		return err
	}
	dead := run.Data
	dead.Dead = true // noted, so that the same event later does not do it again
	_, err := store.Apply(ctx, run.Write(dead))
	if conflict := new(state.ConflictError); errors.As(err, &conflict) {
		return nil
	}
	return err
}

// tell returns the change that tells a run's task how the run has ended.
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
	events := outbox.NewEvents(outbox.Number(&next, outbox.OfRun(run)))
	return append([]state.Change{task.Write(next)}, events.Changes()...), nil
}
