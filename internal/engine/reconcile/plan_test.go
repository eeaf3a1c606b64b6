package reconcile

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
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
	if after := b.task("task-3"); after.Run != nil || len(after.History) != len(before.History) {
		t.Errorf("the task's record knows of it: %+v", after)
	}
	if !b.tick().Idle {
		t.Error("the next tick is not idle")
	}
}
