package reconcile

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestTick_InAClusterEachRunHasALaunchOfItsOwn(t *testing.T) {
	b := newBench(t, tasks(3)...)
	b.Apart = true
	report := b.tick()
	if len(report.Launches) != 3 || len(b.launcher.launches()) != 3 {
		t.Fatalf("%d launches, %d started", len(report.Launches), len(b.launcher.launches()))
	}
	for _, launch := range report.Launches {
		if len(launch.Runs) != 1 || b.task(launch.Runs[0].Task).Run.Launch != launch.ID {
			t.Errorf("launch %s has the runs %+v, the task has %+v", launch.ID, launch.Runs, b.task(launch.Runs[0].Task).Run)
		}
	}
}

func TestTick_ManyRunsWithLaunchesOfTheirOwnFitIntoTheStore(t *testing.T) {
	b := newBench(t, tasks(3*runsPerLaunch)...)
	b.Apart = true
	if report := b.tick(); len(report.Launches) != 3*runsPerLaunch {
		t.Errorf("%d launches", len(report.Launches))
	}
	b.end(state.RunFailed, "")
	b.now = b.now.Add(time.Hour)
	if report := b.tick(); len(report.Launches) != 3*runsPerLaunch {
		t.Errorf("%d launches after failures", len(report.Launches))
	}
}

// The instance has taken the launch from the leader's queue.
func TestTick_LaunchOfAnInstanceThatDiedBeforeItClaimedTheRunIsStartedAgain(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.Apart, b.Skew = true, 5*time.Second
	launch := b.tick().Launches[0]
	b.launcher.forget()
	b.launcher.status = map[string]LaunchStatus{}
	b.now = b.now.Add(liveCheck)
	b.tick()
	if got := b.launcher.launches(); len(got) != 1 || got[0].ID != launch.ID || b.run(launch.Runs[0]).Data.State != state.RunIntended || b.task("task-0").Failing.Count != 0 {
		t.Errorf("started %+v, the run is %s, the task %+v", got, b.run(launch.Runs[0]).Data.State, b.task("task-0"))
	}
}

// The run was decided on with what the former Consul showed. Its instance dies. No other one gets the run before
// a person has decided.
func TestTick_ConsulIsReplacedWhileAnInstanceHasTheRun(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.Apart, b.Skew = true, 5*time.Second
	b.catalog.identity = oldConsul
	b.settle()
	for _, name := range []string{"task-0", "task-1"} {
		b.must(state.SaveInputs(t.Context(), b.store, name, state.Inputs{Elements: map[string]string{"A": "1"}}))
	}
	b.catalog.set("B", nil)
	launch := b.tick().Launches[0]
	run := launch.Runs[0]
	b.launcher.forget()
	b.launcher.status = map[string]LaunchStatus{}
	b.claimed(run, "cts-02")
	b.catalog.identity = newConsul
	b.catalog.set("C", nil)
	b.now = b.now.Add(liveCheck)
	b.tick()
	if rec := b.record(); rec.Replaced == nil || !rec.Replaced.HoldsAll() || b.run(run).Data.State != state.RunRunning {
		t.Fatalf("%+v, the run is %s", rec.Replaced, b.run(run).Data.State)
	}
	for range 5 {
		b.now = b.now.Add(10 * time.Minute)
		b.tick()
	}
	if got := b.run(run).Data; got.State != state.RunLost || b.task(run.Task).Run != nil {
		t.Fatalf("the run is %s, the task has %+v", got.State, b.task(run.Task).Run)
	}
	for _, launch := range b.launcher.launches() {
		if launch.Runs[0].Task == run.Task {
			t.Errorf("launch %s is for another run of %s", launch.ID, run.Task)
		}
	}
	b.approveAll()
	b.tick()
	if live := b.task(run.Task).Run; live == nil {
		t.Errorf("after the approval it does not run: %+v", b.task(run.Task).Reason)
	}
}
