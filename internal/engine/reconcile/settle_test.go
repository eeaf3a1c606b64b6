package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

// claimed has a runner claim the run, and work on it.
func (b *bench) claimed(planned state.PlannedRun, runner string) {
	b.t.Helper()
	b.change(planned, func(run *state.Run) {
		run.State, run.Claim, run.Owner, run.Runner, run.Started = state.RunRunning, "claim of "+runner, "host-1-"+runner, runner, b.now
		run.Expires, run.ClaimFor = b.now.Add(time.Minute), time.Minute
	})
}

func (b *bench) change(planned state.PlannedRun, how func(*state.Run)) {
	b.t.Helper()
	run := b.run(planned)
	next := run.Data
	how(&next)
	if _, err := b.store.Apply(b.t.Context(), run.Write(next)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(planned state.PlannedRun) state.Stored[state.Run] {
	b.t.Helper()
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey(planned.Task, planned.ID))
	if err != nil || !run.Exists() {
		b.t.Fatalf("run of %s: there is none (%v)", planned.Task, err)
	}
	return run
}

// stop settles a launch whose runner has stopped.
func (b *bench) stop(launch state.Launch, runner, why string) []state.Run {
	b.t.Helper()
	lost, err := orphan.Runs(b.t.Context(), b.store, orphan.Stopped{Launch: launch.ID, Runner: runner, Why: why}, b.now)
	if err != nil {
		b.t.Fatal(err)
	}
	return lost
}

// succeed records that one run has succeeded.
func (b *bench) succeed(planned state.PlannedRun, digest string) {
	b.t.Helper()
	run := b.run(planned).Data
	run.State, run.Ended, run.Digest, run.Expires = state.RunSucceeded, b.now, digest, time.Time{}
	def, _ := b.Config.Task(planned.Task)
	next, _ := b.task(planned.Task).Conclude(run, def.Digest(b.Config))
	b.change(planned, func(r *state.Run) { *r = run })
	b.changeTask(planned.Task, func(t *state.Task) { *t = next })
}

func (b *bench) changeTask(name string, how func(*state.Task)) {
	b.t.Helper()
	task, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey(name))
	if err != nil {
		b.t.Fatal(err)
	}
	next := task.Data
	how(&next)
	if _, err := b.store.Apply(b.t.Context(), task.Write(next)); err != nil {
		b.t.Fatal(err)
	}
}

// tickAfterEnd ticks as functions/settle requests it.
func (b *bench) tickAfterEnd() {
	b.t.Helper()
	if _, err := b.Tick(b.t.Context(), TickOptions{Ended: true}); err != nil {
		b.t.Fatal(err)
	}
}

func TestSettle_RunsOfAStoppedRunnerAreLostAndRepeated(t *testing.T) {
	b := newBench(t, tasks(4)...)
	b.tick()
	launch := b.launcher.launches()[0]
	ended, working, intended := launch.Runs[0], launch.Runs[1], launch.Runs[2]
	for _, run := range []state.PlannedRun{ended, working} {
		b.claimed(run, "container")
	}
	b.succeed(ended, "A")

	b.now = b.now.Add(time.Minute)
	lost := b.stop(launch, "container", "out of memory")
	if len(lost) != 3 {
		t.Fatalf("%d runs were lost, want 3 of 4", len(lost))
	}
	if got := b.run(ended).Data; got.State != state.RunSucceeded {
		t.Errorf("a run that had ended is %+v", got)
	}
	for _, planned := range []state.PlannedRun{working, intended} {
		if got := b.run(planned).Data; got.State != state.RunLost || !got.Dead || got.Error != "out of memory" || !got.Ended.Equal(b.now) || !got.Expires.IsZero() {
			t.Errorf("the run of %s is %+v", planned.Task, got)
		}
		task := b.task(planned.Task)
		if task.Run != nil || task.Failing.Count != 1 || task.Ended.Last == nil || task.Ended.Last.Run != planned.ID || task.Ended.Last.State != state.RunLost {
			t.Errorf("%s says %+v", planned.Task, task)
		}
	}

	b.launcher.forget()
	b.tickAfterEnd()
	if again := b.launchedRuns(); len(again) != 3 || again[ended.Task] != 0 {
		t.Errorf("afterwards these are run: %v", again)
	}
}

func TestSettle_RepeatingItIsHarmless(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.tick()
	launch := b.launcher.launches()[0]
	b.stop(launch, "", "out of memory")
	b.tickAfterEnd()
	before := b.task("task-0")
	if before.Run == nil {
		t.Fatal("the task is not run again")
	}
	b.store.Reset()
	if lost := b.stop(launch, "", "told once more"); len(lost) != 0 || b.store.Writes.Load() != 0 {
		t.Errorf("%d runs lost and %d writes", len(lost), b.store.Writes.Load())
	}
	if after := b.task("task-0"); after.Failing.Count != 1 || after.Run == nil || after.Run.ID != before.Run.ID {
		t.Errorf("the task says %+v", after)
	}
}

func TestSettle_UnknownLaunchHasNoRuns(t *testing.T) {
	b := newBench(t, tasks(1)...)
	for _, id := range []string{"0190b5a0-0000-7000-8000-000000000000", "not / an id"} {
		if lost := b.stop(state.Launch{ID: id}, "", "stopped"); len(lost) != 0 {
			t.Errorf("%q lost %+v", id, lost)
		}
	}
}

func TestSettle_RunsOfAnotherRunnerAreNotLost(t *testing.T) {
	b := newBench(t, tasks(3)...)
	b.tick()
	launch := b.launcher.launches()[0]
	b.claimed(launch.Runs[0], "first")
	b.claimed(launch.Runs[1], "second")
	lost := b.stop(launch, "second", "Spot reclaim")
	if len(lost) != 2 || b.run(launch.Runs[0]).Data.State != state.RunRunning {
		t.Errorf("lost are %+v", lost)
	}
	if task := b.task(launch.Runs[0].Task); task.Run == nil {
		t.Error("the task has forgotten the run that goes on")
	}
}

func TestSettle_OutcomeRecordedMeanwhileIsKept(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	launch := b.launcher.launches()[0]
	b.claimed(launch.Runs[0], "container")
	met := false
	store := &statetest.Faulty{Store: b.store, Before: func([]state.Change) error {
		if met {
			return nil
		}
		met = true
		b.succeed(launch.Runs[0], "A")
		return nil
	}}
	lost, err := orphan.Runs(t.Context(), store, orphan.Stopped{Launch: launch.ID, Why: "exited"}, b.now)
	if err != nil || len(lost) != 0 || !met {
		t.Errorf("lost %+v, %v", lost, err)
	}
	if task := b.task("task-0"); task.Applied.Digest != "A" || task.Failing.Count != 0 {
		t.Errorf("the task says %+v", task)
	}
}

func TestSettle_ConflictWithATickIsRepeated(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	launch := b.launcher.launches()[0]
	b.claimed(launch.Runs[0], "container")
	times := 0
	store := &statetest.Faulty{Store: b.store, Before: func([]state.Change) error {
		if times++; times > 1 {
			return nil
		}
		b.changeTask("task-0", func(task *state.Task) { task.Observed.Digest = "B" })
		return nil
	}}
	lost, err := orphan.Runs(t.Context(), store, orphan.Stopped{Launch: launch.ID, Why: "exited"}, b.now)
	if task := b.task("task-0"); err != nil || len(lost) != 1 || task.Observed.Digest != "B" || task.Run != nil {
		t.Errorf("lost %+v, %v; the task says %+v", lost, err, task)
	}
}

func TestSettle_TickAndSettleCountALostRunOnce(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	launch := b.launcher.launches()[0]
	b.launcher.status = map[string]LaunchStatus{launch.ID: {Stopped: "seen by the tick"}}
	b.now = b.now.Add(liveCheck)
	b.store.Store = &statetest.Faulty{Store: b.store.Store, Before: func(changes []state.Change) error {
		for _, c := range changes {
			if c.Op == state.OpReplace && c.Key == state.RunKey("task-0", launch.Runs[0].ID) {
				b.store.Store = b.store.Store.(*statetest.Faulty).Store
				b.stop(launch, "", "told by the event")
			}
		}
		return nil
	}}
	b.tick()
	b.tick()
	if task := b.task("task-0"); task.Failing.Count != 1 || len(task.Ended.IDs) != 1 || task.Ended.Last.Error != "told by the event" {
		t.Errorf("the task says %+v", task)
	}
}

func TestSettle_PlanRunLeavesItsTaskAlone(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	launches, err := b.Planner().Start(t.Context(), []string{"task-0"}, nil, "an invoke")
	if err != nil {
		t.Fatal(err)
	}
	before := b.task("task-0")
	var written []state.Change
	store := &statetest.Faulty{Store: b.store, Before: func(changes []state.Change) error { written = changes; return nil }}
	lost, err := orphan.Runs(t.Context(), store, orphan.Stopped{Launch: launches[0].ID, Why: "image not found"}, b.now)
	if err != nil || len(lost) != 1 || b.run(launches[0].Runs[0]).Data.State != state.RunLost {
		t.Fatalf("lost %+v, %v", lost, err)
	}
	if len(written) != 1 || written[0].Expires.IsZero() {
		t.Errorf("written is %+v: it must be the run alone, and expire", written)
	}
	if after := b.task("task-0"); after.Failing.Count != before.Failing.Count || len(after.Ended.IDs) != len(before.Ended.IDs) {
		t.Errorf("the task says %+v", after)
	}
}

func TestSettle_LostRunReplacesTheOldestInTheHistory(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	launch := b.launcher.launches()[0]
	var old []string
	for i := range state.History {
		id := fmt.Sprintf("old-%02d", i)
		old = append(old, id)
		if _, err := b.store.Apply(t.Context(), state.Create(state.RunKey("task-0", id), state.Encode(state.Run{ID: id, Kind: state.KindApply, State: state.RunSucceeded}))); err != nil {
			t.Fatal(err)
		}
	}
	b.changeTask("task-0", func(task *state.Task) { task.Ended.IDs = old })
	b.stop(launch, "", "stopped")
	history := b.task("task-0").Ended.IDs
	if len(history) != state.History || history[0] != "old-01" || history[state.History-1] != launch.Runs[0].ID {
		t.Errorf("the history is %v", history)
	}
	if _, err := b.store.Get(t.Context(), state.RunKey("task-0", "old-00")); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("the oldest run is still there: %v", err)
	}
}

func TestSettle_NextAttemptSettlesAfterAStoreError(t *testing.T) {
	b := newBench(t, tasks(3)...)
	b.tick()
	launch := b.launcher.launches()[0]
	writes := 0
	store := &statetest.Faulty{Store: b.store, Before: func([]state.Change) error {
		if writes++; writes == 2 {
			return errors.New("throttled")
		}
		return nil
	}}
	lost, err := orphan.Runs(t.Context(), store, orphan.Stopped{Launch: launch.ID, Why: "stopped"}, b.now)
	if len(lost) != 1 || err == nil || !strings.Contains(err.Error(), "settle run "+launch.Runs[1].ID) {
		t.Fatalf("lost %+v, %v", lost, err)
	}
	if lost = b.stop(launch, "", "stopped"); len(lost) != 2 {
		t.Errorf("the next attempt lost %+v", lost)
	}
}

func TestSettle_LostRunIsDeadOnlyIfItsRunnerStopped(t *testing.T) {
	for _, stopped := range []string{"", "Spot reclaim"} {
		b := newBench(t, tasks(1)...)
		b.tick()
		launch := b.launcher.launches()[0]
		b.claimed(launch.Runs[0], "container")
		b.launcher.status = map[string]LaunchStatus{launch.ID: {Stopped: stopped}}
		b.now = b.now.Add(time.Hour)
		b.tick()
		if run := b.run(launch.Runs[0]).Data; run.State != state.RunLost || run.Dead != (stopped != "") {
			t.Errorf("its launcher says %q, the run reads %+v", stopped, run)
		}
	}
}
