package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/terrapulse/terrapulse/internal/state"
)

// Inspect launches runs that say what an apply of the tasks would do, and
// apply nothing. They are no part of the tasks' histories and hold up nothing,
// so that no lease is needed. It returns the launches that were written, also
// with an error.
func (r *Reconciler) Inspect(ctx context.Context, tasks []string, who string) ([]state.Launch, error) {
	r.prepare()
	now := r.Now()
	var launches []state.Launch
	for chunk := range slices.Chunk(tasks, runsPerLaunch) {
		launch := state.Launch{ID: newID(), Config: r.digest, Bundle: r.Bundle, Inspect: true, Created: now}
		var changes []state.Change
		for _, task := range chunk {
			run := state.Run{ID: newID(), Task: task, Launch: launch.ID, Inspect: true, Created: now, State: state.RunIntended,
				Reason: state.Reason{Kind: state.ReasonForced, Text: "inspection, asked for by " + who}}
			launch.Runs = append(launch.Runs, state.PlannedRun{ID: run.ID, Task: task})
			changes = append(changes, state.Create(state.RunKey(task, run.ID), state.Encode(run)).Until(now.Add(state.KeptInspects)))
		}
		changes = append(changes, state.Create(state.LaunchKey(launch.ID), state.Encode(launch)).Until(now.Add(keptLaunches)))
		if _, err := r.Store.Apply(ctx, changes...); err != nil {
			return launches, fmt.Errorf("write the runs of an inspection: %w", err)
		}
		launches = append(launches, launch)
		if err := r.Launcher.Start(ctx, launch); err != nil {
			return launches, fmt.Errorf("start launch %s: %w", launch.ID, err)
		}
	}
	return launches, nil
}
