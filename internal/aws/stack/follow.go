package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// followEvery is how often the store is read while runs go on. A container takes
// about half a minute to start.
const followEvery = time.Second

// Follow returns when all runs have ended that the function has started, which
// was invoked at a time. It also waits for a requested task (all tasks if none
// is named) whose run could not start yet. It calls changed each time the state
// of a run has changed.
func Follow(ctx context.Context, store state.Store, invoked time.Time, answer invoke.Answer, tasks []string, changed func(state.Run)) ([]reconcile.Outcome, error) {
	outcomes := make([]reconcile.Outcome, 0, len(answer.Runs))
	ids := map[string]string{} // of runs, by task
	for _, r := range answer.Runs {
		ids[r.Task] = r.Run
		outcomes = append(outcomes, reconcile.Outcome{Task: r.Task})
	}
	if answer.Mode == invoke.Once {
		for _, d := range answer.Decisions {
			if len(tasks) > 0 && !slices.Contains(tasks, d.Task) {
				continue
			}
			if _, ok := ids[d.Task]; !ok && !lifecycle.RowOf(d.Reason.Code).Off {
				outcomes = append(outcomes, reconcile.Outcome{Task: d.Task, Reason: d.Reason})
			}
		}
	}
	seen := map[string]state.RunState{}
	for {
		open := 0
		for i := range outcomes {
			o := &outcomes[i]
			if o.Run != nil && !o.Run.State.Active() {
				continue
			}
			if err := readRun(ctx, store, invoked, o, ids); err != nil {
				return outcomes, err
			}
			if o.Run == nil {
				if ids[o.Task] != "" || o.Reason.Code == state.ReasonRunning || o.Reason.Code == state.ReasonQueued {
					open++
				}
				continue
			}
			if seen[o.Task] != o.Run.State {
				seen[o.Task] = o.Run.State
				changed(*o.Run)
			}
			if o.Run.State.Active() {
				open++
			}
		}
		if open == 0 {
			return outcomes, nil
		}
		if !delay.For(ctx, followEvery) {
			return outcomes, errors.New("stopped waiting; the runs go on, see `terrapulse status`")
		}
	}
}

// readRun reads the run of one task.
func readRun(ctx context.Context, store state.Store, invoked time.Time, o *reconcile.Outcome, ids map[string]string) error {
	if ids[o.Task] == "" {
		task, err := state.Read[state.Task](ctx, store, state.TaskKey(o.Task))
		if err != nil {
			return fmt.Errorf("read task %s: %w", o.Task, err)
		}
		o.Reason = task.Data.Reason
		if run := task.Data.Run; run != nil && task.Data.Forced.By == "" && (run.Created.After(invoked) || run.Wait != nil) {
			ids[o.Task] = run.ID
		} else if last := task.Data.Ended.Last; run == nil && last != nil && last.Started.After(invoked) {
			ids[o.Task] = last.Run
		} else {
			return nil
		}
	}
	run, err := state.Read[state.Run](ctx, store, state.RunKey(o.Task, ids[o.Task]))
	if err != nil {
		return fmt.Errorf("read run %s of task %s: %w", ids[o.Task], o.Task, err)
	}
	if run.Exists() {
		o.Run, o.Reason = &run.Data, run.Data.Reason
	}
	return nil
}
