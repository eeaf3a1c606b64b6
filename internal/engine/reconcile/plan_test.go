package reconcile

import (
	"context"
	"errors"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

func TestPlanner_RunsDoNotOccupyTheirTasks(t *testing.T) {
	b := newBench(t, tasks(30)...)
	b.settle()
	b.launcher.forget()
	before := b.task("task-3")
	var names []string
	for _, task := range b.tasks {
		names = append(names, task.Name)
	}
	launches, err := b.Planner().Start(t.Context(), names, nil, "an invoke")
	if err != nil || len(launches) != 2 || len(b.launcher.launches()) != 2 {
		t.Fatalf("%d launches (%v)", len(launches), err)
	}
	for _, launch := range launches {
		if launch.Kind != state.KindPlan {
			t.Error("a launch that applies")
		}
		for _, planned := range launch.Runs {
			run, err := state.Read[state.Run](t.Context(), b.store, state.RunKey(planned.Task, planned.ID))
			if err != nil || run.Data.Kind != state.KindPlan || run.Data.State != state.RunIntended || run.Data.Launch != launch.ID {
				t.Errorf("%+v, %v", run.Data, err)
			}
		}
	}
	if after := b.task("task-3"); after.Run != nil || len(after.Ended.IDs) != len(before.Ended.IDs) {
		t.Errorf("the task's record knows of it: %+v", after)
	}
	if !b.tick().Idle {
		t.Error("the next tick is not idle")
	}
}

// bounded is a launcher that permits only some launches of plans.
type bounded struct {
	*launcher
	launches int
}

func (b bounded) Admits(_ context.Context, _ string, plans int) (int, error) {
	return b.launches, Fit(plans, b.launches*MaxPlans, "name fewer tasks")
}

func TestPlanner_WhatIfOfManyTasksStartsNoMoreLaunchesThanPermitted(t *testing.T) {
	b := newBench(t, tasks(3000)...)
	planner := b.Planner()
	planner.Launcher = bounded{b.launcher, 40}
	w := condition.WhatIf{Without: []condition.Gone{{Node: "n7"}}}
	q, launches, err := planner.WhatIfAll(t.Context(), w, nil, NewQuestion(), "Ann")
	if err != nil || len(q.Runs) != 3000 || len(launches) != 40 || len(b.launcher.launches()) != 40 {
		t.Fatalf("%d runs in %d launches (%v)", len(q.Runs), len(launches), err)
	}
	for _, launch := range launches {
		stored, err := state.Read[state.Launch](t.Context(), b.store, state.LaunchKey(launch.ID))
		if err != nil || len(stored.Data.Runs) != 75 {
			t.Fatalf("launch %s has %d runs (%v)", launch.ID, len(stored.Data.Runs), err)
		}
		for _, planned := range stored.Data.Runs {
			if run, err := state.Read[state.Run](t.Context(), b.store, state.RunKey(planned.Task, planned.ID)); err != nil || run.Data.Launch != launch.ID {
				t.Fatalf("%+v, %v", run.Data, err)
			}
		}
	}
}

func TestPlanner_RefusedPlansAreNotWritten(t *testing.T) {
	b := newBench(t, tasks(3000)...)
	planner := b.Planner()
	planner.Launcher = bounded{b.launcher, 1}
	w := condition.WhatIf{Without: []condition.Gone{{Node: "n7"}}}
	if _, _, err := planner.WhatIfAll(t.Context(), w, nil, NewQuestion(), "Ann"); !errors.Is(err, ErrBusy) {
		t.Errorf("of 3000 plans in one launch it says %v", err)
	}
	if runs, err := b.store.List(t.Context(), state.RunPrefix("task-0")); err != nil || len(runs) != 0 {
		t.Errorf("%d runs are written (%v)", len(runs), err)
	}
	planner.Launcher = bounded{b.launcher, 0}
	if launches, err := planner.Start(t.Context(), nil, nil, "Ann"); err != nil || len(launches) != 0 {
		t.Errorf("plans of no task: %d launches (%v)", len(launches), err)
	}
}
