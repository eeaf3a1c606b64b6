package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

func TestTick_LastTaskRunsAlthoughTheFirstOnesAlwaysChange(t *testing.T) {
	b := newBench(t, tasks(runsPerLaunch+1)...)
	b.MaxLaunches = 1
	for i := range 12 {
		b.catalog.set(fmt.Sprintf("D%d", i), nil)
		b.now = b.now.Add(time.Minute)
		b.tick()
		b.end(state.RunSucceeded, b.catalog.digest)
	}
	n := b.launchedRuns()
	for _, task := range b.tasks {
		if n[task.Name] < 6 {
			t.Errorf("%s had %d runs, while others had up to 12", task.Name, n[task.Name])
		}
	}
}

func TestTick_DestroyBeginsAlthoughOtherTasksAlwaysChange(t *testing.T) {
	b := newBench(t, tasks(2*runsPerLaunch+1)...)
	b.settle()
	b.launcher.forget()
	b.MaxLaunches = 1
	b.must(b.people().Destroy(t.Context(), "task-50", "ann"))
	for i := range 4 {
		b.catalog.set(fmt.Sprintf("D%d", i), nil)
		b.now = b.now.Add(time.Minute)
		b.tick()
		for _, l := range b.launcher.launches() {
			if l.Kind == state.KindDestroy {
				return
			}
		}
		b.end(state.RunSucceeded, b.catalog.digest)
	}
	t.Errorf("the destroy did not begin: %+v", b.task("task-50").Reason)
}

func TestTick_ApprovedRunGoesOnAlthoughOtherTasksAlwaysChange(t *testing.T) {
	all := tasks(runsPerLaunch + 1)
	all[runsPerLaunch].Condition.Spec = condition.ConsulKV{Path: "a"} // which does not change
	b := newBench(t, all...)
	b.catalog.keys = map[string]string{"a": "1"}
	b.catalog.set("1", nil) // as the key has
	b.MaxLaunches = 2
	b.tick()
	planned := b.launcher.launches()[1].Runs[0]
	b.claimed(planned, "container")
	b.wait(planned, state.Wait{For: state.WaitApproval, ID: "w1", Text: "3 to destroy", Content: &state.Content{Plan: "p"}})
	for _, run := range b.launcher.launches()[0].Runs {
		b.succeed(run, "A")
	}
	b.tickAfterEnd()
	b.must(b.people().Approve(t.Context(), planned.Task, "", ann, ""))
	b.MaxLaunches = 1
	b.now = b.now.Add(time.Minute)
	b.must(b.Tick(t.Context(), TickOptions{Until: b.now})) // it is queued
	b.launcher.forget()
	for i := range 4 {
		b.catalog.set(fmt.Sprintf("D%d", i), nil)
		b.now = b.now.Add(time.Minute)
		b.tick()
		for _, l := range b.launcher.launches() {
			for _, run := range l.Runs {
				if run.ID == planned.ID {
					return
				}
				b.succeed(run, b.catalog.digest)
			}
		}
		b.launcher.forget()
	}
	t.Errorf("the run is %s: %+v", b.run(planned).Data.State, b.task(planned.Task).Reason)
}

// A task that is not verified counts as such, whatever else stops it, unless it is disabled.
func TestTick_UnverifiedTaskOnHoldIsCountedAsUnverified(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.settle()
	for _, name := range []string{"task-0", "task-1"} {
		record, err := state.Read[state.Task](t.Context(), b.store, state.TaskKey(name))
		b.must(err)
		next := record.Data
		next.Applied.Unverified = &state.Unverified{State: state.VerifyFailed, Text: "vip failed", Since: b.now}
		next.PutOnHold(state.OnHold{By: "verification vip", At: b.now})
		b.must(b.store.Apply(t.Context(), record.Write(next)))
	}
	b.leads()
	if got := b.record().Tasks.Phases; got["unverified"] != 2 || got["stopped"] != 0 {
		t.Errorf("on hold: %v", got)
	}
	b.Config.Tasks[1].Enabled = false
	b.leads()
	if got := b.record().Tasks.Phases; got["unverified"] != 1 {
		t.Errorf("one of them is disabled: %v", got)
	}
}

func TestTick_QueuedTaskIsWrittenWhenItIsQueued(t *testing.T) {
	const n = 400
	b := newBench(t, tasks(n)...)
	b.MaxLaunches = 2
	written := 0
	b.store.Before = func(changes []state.Change) error {
		for _, c := range changes {
			if strings.HasPrefix(c.Key, state.TaskPrefix) {
				written++
			}
		}
		return nil
	}
	b.tick()
	last := "task-399"
	queued := b.taskRecord(last)
	if queued.Data.Reason.Code != state.ReasonQueued || !queued.Data.Due.Equal(b.now) {
		t.Fatalf("%+v", queued.Data)
	}
	b.now = b.now.Add(time.Minute)
	b.tick() // the containers are at work
	first := written
	b.now = b.now.Add(time.Minute)
	b.tick()
	if written != first {
		t.Errorf("%d records were written by a tick that found the same queue", written-first)
	}
	// Also if something else is in the way now.
	if _, err := b.Tick(t.Context(), TickOptions{Until: b.now}); err != nil || b.taskRecord(last).Version != queued.Version {
		t.Errorf("%+v, %v", b.task(last).Reason, err)
	}
	all := 0
	for range n {
		before := written
		b.end(state.RunSucceeded, "A")
		all, written = all+before, 0 // without those of the runners
		b.now = b.now.Add(time.Minute)
		if len(b.tick().Postponed) == 0 {
			break
		}
	}
	if all += written; all > 4*n {
		t.Errorf("%d records of %d tasks were written until all had run", all, n)
	}
	if got := b.launchedRuns(); len(got) != n {
		t.Errorf("%d of %d tasks ran", len(got), n)
	}
}

func TestTick_TasksThatFailAreCountedAsFailingWhileTheirRetriesQueue(t *testing.T) {
	const n = 60
	b := newBench(t, tasks(n)...)
	b.MaxLaunches = 1
	for b.now = b.now.Add(time.Minute); b.reconcileRecord().Tasks.Phases["failing"] < n; b.now = b.now.Add(time.Minute) {
		b.tick()
		b.end(state.RunFailed, "")
	}
	for range 6 {
		b.now = b.now.Add(time.Minute)
		b.tick()
		if diff := cmp.Diff(map[string]int{"failing": n}, b.reconcileRecord().Tasks.Phases); diff != "" {
			t.Fatalf("counts of %d tasks that fail (-want +got):\n%s", n, diff)
		}
		b.end(state.RunFailed, "")
	}
}

func TestTick_QueuedTaskKeepsItsPlaceWithNewInput(t *testing.T) {
	b := newBench(t, tasks(2*runsPerLaunch)...)
	b.MaxLaunches = 1
	b.tick()
	since := b.task("task-49").Due
	b.catalog.set("B", nil)
	b.now = b.now.Add(time.Minute)
	b.tick()
	if got := b.task("task-49"); got.Reason.Code != state.ReasonQueued || !got.Due.Equal(since) {
		t.Errorf("%+v, due %s, want %s", got.Reason, got.Due, since)
	}
	// A disabled task leaves the queue.
	disabled := tasks(2 * runsPerLaunch)
	disabled[49].Enabled = false
	b.Reconciler = b.another(disabled)
	b.MaxLaunches = 1
	b.tick()
	if got := b.task("task-49"); got.Reason.Code != state.ReasonDisabled || !got.Due.IsZero() {
		t.Errorf("%+v, due %s", got.Reason, got.Due)
	}
}

func TestQueued_ReasonSaysWhatIsWrong(t *testing.T) {
	changed := state.Reason{Code: state.ReasonChanged, Text: "web: +web-1"}
	was := queued(state.Reason{}, changed, "2 launches are under way")
	for why, kept := range map[string]bool{
		"3 launches are under way":           true,
		"this tick has no time left":         true,
		cannotStart + "the image is missing": false,
	} {
		if got := queued(was, changed, why); (got == was) != kept || !strings.Contains(got.Text, "changed: web: +web-1") {
			t.Errorf("%s: %+v", why, got)
		}
	}
	if got := queued(was, state.Reason{Code: state.ReasonForced, Text: "requested by ann"}, "2 launches are under way"); got == was {
		t.Errorf("it is queued for another reason: %+v", got)
	}
	stalled := queued(state.Reason{}, changed, cannotStart+"the image is missing")
	if got := queued(stalled, changed, cannotStart+"the image is missing, request id 2"); got != stalled {
		t.Errorf("%+v", got)
	}
}
