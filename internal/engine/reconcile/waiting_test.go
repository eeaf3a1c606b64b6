package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// wait records that a claimed run waits, as its runner does.
func (b *bench) wait(planned state.PlannedRun, wait state.Wait) {
	b.t.Helper()
	wait.Since = b.now
	run, task := b.run(planned), b.taskRecord(planned.Task)
	next := run.Data
	next.State, next.Wait, next.Resumed, next.Digest = state.RunWaiting, &wait, nil, b.catalog.digest
	next.Claim, next.Owner, next.Runner, next.Expires, next.ClaimFor = "", "", "", time.Time{}, 0
	if _, err := b.store.Apply(b.t.Context(), run.Write(next), task.Write(task.Data.BeginWait(next))); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) taskRecord(name string) state.Stored[state.Task] {
	b.t.Helper()
	task, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return task
}

// waiting returns a bench with one task, whose run waits since noon.
func waiting(t *testing.T, wait state.Wait) (*bench, state.PlannedRun) {
	b := newBench(t, tasks(1)...)
	b.tick()
	planned := b.launcher.launches()[0].Runs[0]
	b.claimed(planned, "container")
	b.wait(planned, wait)
	b.launcher.forget() // its container is gone, and the launcher does not know it any more
	b.tickAfterEnd()
	return b, planned
}

var approval = state.Wait{For: state.WaitApproval, ID: "w1", Text: "3 to destroy"}

func TestWaiting_SurvivesEveryProcess(t *testing.T) {
	b, planned := waiting(t, approval)
	launch := b.run(planned).Data.Launch
	for range 3 { // takeovers, restarts and redeployments, a day apart
		b.now = b.now.Add(24 * time.Hour)
		b.Reconciler = b.another(b.Config.Tasks)
		b.tick()
		if lost := b.stop(state.Launch{ID: launch}, "", "the event comes late"); len(lost) != 0 {
			t.Fatalf("settled as lost: %+v", lost)
		}
		if lost := b.stop(state.Launch{ID: launch}, "container", "the event comes late"); len(lost) != 0 {
			t.Fatalf("settled as lost: %+v", lost)
		}
	}
	task := b.task("task-0")
	if got := b.run(planned).Data; got.State != state.RunWaiting || task.Run == nil || task.Failing.Count != 0 || task.Ended.Last != nil {
		t.Errorf("the run is %+v, its task %+v", got, task)
	}
	if task.Reason.Code != state.ReasonWaiting || !strings.Contains(task.Reason.Text, "waits for approval: 3 to destroy") {
		t.Errorf("the reason is %+v", task.Reason)
	}
	if n := len(b.launcher.launches()); n != 0 {
		t.Errorf("%d launches", n)
	}
}

func TestWaiting_TickIsIdleAndReadsNoRun(t *testing.T) {
	b, _ := waiting(t, approval)
	b.tick()
	b.now = b.now.Add(time.Minute)
	if report := b.tick(); !report.Idle {
		t.Errorf("a tick did something: %+v", report)
	}
}

func TestWaiting_IsNoLaunchUnderWay(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.MaxLaunches = 1
	b.tick()
	launch := b.launcher.launches()[0]
	for _, planned := range launch.Runs {
		b.claimed(planned, "container")
		b.wait(planned, approval)
	}
	b.launcher.forget()
	b.catalog.set("B", nil) // replaces both
	b.tick()
	b.tick()
	if b.begun("task-0") != 1 || b.begun("task-1") != 1 {
		t.Errorf("no launch began beside the waiting runs: %v", b.launcher.launches())
	}
}

func TestWaiting_ResumedRunIsLaunchedAgainUnderItsID(t *testing.T) {
	b, planned := waiting(t, approval)
	before := b.run(planned).Data
	people := b.people()
	b.now = b.now.Add(20 * time.Hour) // longer than an intent lasts
	for range 2 {                     // people resume twice
		b.must(people.Resume(t.Context(), "task-0", planned.ID, "w1", "Jo"))
	}
	b.Reconciler = b.another(b.Config.Tasks) // of another process, which leads by now
	b.tick()
	launches := b.launcher.launches()
	if len(launches) != 1 || len(launches[0].Runs) != 1 || launches[0].Runs[0] != planned {
		t.Fatalf("launched: %+v", launches)
	}
	run := b.run(planned).Data
	if run.State != state.RunIntended || run.Launch != launches[0].ID || run.Launch == before.Launch || run.Fence != launches[0].Fence ||
		run.Resumed == nil || run.Resumed.By != "Jo" || run.Wait == nil || run.Wait.ID != "w1" || !run.Created.Equal(before.Created) {
		t.Errorf("the run is %+v", run)
	}
	b.now = b.now.Add(liveCheck)
	b.launcher.status = map[string]LaunchStatus{launches[0].ID: {}} // not known yet
	b.tick()
	if got := b.run(planned).Data; got.State != state.RunIntended {
		t.Errorf("a run that was resumed just now is %s: %s", got.State, got.Error)
	}
	if err := people.Resume(t.Context(), "task-0", planned.ID, "w1", "Jo"); !errors.Is(err, control.ErrNotWaiting) {
		t.Errorf("a late request is answered with %v", err)
	}
	if lost := b.stop(state.Launch{ID: before.Launch}, "container", "the event comes late"); len(lost) != 0 {
		t.Errorf("the first container's end settles the resumed run: %+v", lost)
	}

	// It waits a second time: what was meant for the first wait does not resume it.
	b.claimed(planned, "another")
	b.wait(planned, state.Wait{For: state.WaitApproval, ID: "w2"})
	if err := people.Resume(t.Context(), "task-0", planned.ID, "w1", "Jo"); !errors.Is(err, control.ErrNotWaiting) {
		t.Errorf("a request for an earlier wait is answered with %v", err)
	}
}

func TestWaiting_ResumeIsPostponedWithoutRoom(t *testing.T) {
	b, planned := waiting(t, approval)
	b.must(b.people().Resume(t.Context(), "task-0", planned.ID, "w1", "Jo"))
	report, err := b.Tick(t.Context(), TickOptions{Until: b.now, Force: map[string]string{"task-0": "start"}})
	if err != nil || len(report.Postponed) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if got := b.task("task-0"); got.Forced.By != "" {
		t.Errorf("another run is requested by %s, after the one that waits", got.Forced.By)
	}
	b.tick()
	if b.begun("task-0") != 1 || b.run(planned).Data.State != state.RunIntended {
		t.Errorf("the run is %+v", b.run(planned).Data)
	}
}

func TestWaiting_IsReplacedOrEnded(t *testing.T) {
	off := func(b *bench) { b.Reconciler = b.another(tasks(1)); b.Config.Tasks[0].Enabled = false }
	for name, test := range map[string]struct {
		wait    state.Wait
		happens func(*bench)
		want    state.RunState
		runs    int // that begin instead
		says    string
	}{
		"new input":            {approval, func(b *bench) { b.catalog.set("B", nil) }, state.RunSuperseded, 1, "input has changed"},
		"new input, elsewhere": {state.Wait{For: state.WaitRemote, ID: "w1"}, func(b *bench) { b.catalog.set("B", nil) }, state.RunWaiting, 0, ""},
		"the input of the run": {approval, func(b *bench) { b.tick() }, state.RunWaiting, 0, ""},
		"Consul is gone":       {approval, func(b *bench) { b.catalog.set("", errors.New("no leader")) }, state.RunWaiting, 0, ""},
		"a new definition": {approval, func(b *bench) {
			b.Reconciler = b.another(tasks(1))
			b.Config.Tasks[0].Module = "./other"
		}, state.RunSuperseded, 1, "definition has changed"},
		"the task is disabled":            {approval, off, state.RunSuperseded, 0, "disabled"},
		"the task is disabled, elsewhere": {state.Wait{For: state.WaitRemote, ID: "w1"}, off, state.RunSuperseded, 0, "disabled"},
		"the task is removed":             {approval, func(b *bench) { b.Reconciler = b.another(nil); b.removed() }, state.RunSuperseded, 0, "not in the configuration"},
		"its time is over": {state.Wait{For: state.WaitApproval, ID: "w1", Until: noon.Add(time.Hour)},
			func(b *bench) { b.now = noon.Add(time.Hour) }, state.RunCancelled, 0, "waits for approval since"},
		"its time is not over": {state.Wait{For: state.WaitApproval, ID: "w1", Until: noon.Add(time.Hour)},
			func(b *bench) { b.now = noon.Add(time.Hour - time.Second) }, state.RunWaiting, 0, ""},
		"somebody cancels it": {approval, func(b *bench) { b.must(b.people().Cancel(b.t.Context(), "task-0", "Jo")) }, state.RunCancelled, 0, "cancelled by Jo while it waited for approval"},
		"a run is requested":  {approval, func(b *bench) { b.must(b.Tick(b.t.Context(), TickOptions{Force: map[string]string{"task-0": "Jo"}})) }, state.RunWaiting, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, planned := waiting(t, test.wait)
			test.happens(b)
			for range 3 {
				b.tick()
			}
			run, task := b.run(planned).Data, b.task("task-0")
			if run.State != test.want || !strings.Contains(run.Error, test.says) {
				t.Errorf("the run is %s (%s), want %s", run.State, run.Error, test.want)
			}
			if n := b.begun("task-0"); n != test.runs {
				t.Errorf("%d runs began: %+v", n, task)
			}
			if waits := task.Waits() != nil; waits != (test.want == state.RunWaiting) {
				t.Errorf("its task says %+v", task)
			}
			if kept := len(task.Ended.IDs) > 0; kept != (test.want == state.RunCancelled) {
				t.Errorf("its task's history is %v", task.Ended.IDs)
			}
		})
	}
}

func TestWaiting_NewInputWaitsForItsBufferPeriod(t *testing.T) {
	b, planned := waiting(t, approval)
	b.Config.Tasks[0].BufferPeriod = config.BufferPeriod{Enabled: true, Min: time.Minute, Max: time.Hour}
	b.Reconciler = b.another(b.Config.Tasks)
	b.changeTask("task-0", func(task *state.Task) { task.Attempted.Definition = b.Config.Tasks[0].Digest(b.Config) })
	b.catalog.set("B", nil)
	if report := b.tick(); !report.Due.Equal(b.now.Add(time.Minute)) || b.run(planned).Data.State != state.RunWaiting {
		t.Errorf("the run is %+v, the next tick due at %s", b.run(planned).Data, report.Due)
	}
	b.catalog.set("A", nil) // as the run has read it
	b.tick()
	b.now = b.now.Add(2 * time.Minute)
	b.tick()
	if got := b.run(planned).Data; got.State != state.RunWaiting {
		t.Errorf("the run is %s: %s", got.State, got.Error)
	}
}

func TestWaiting_RequestOutlivesTheRunThatIsReplaced(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.launcher.forget()
	b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-0": "Jo"}}))
	planned := b.launcher.launches()[0].Runs[0]
	b.claimed(planned, "container")
	b.wait(planned, approval)
	b.catalog.set("B", nil)
	b.tick()
	b.catalog.set("A", nil) // nothing but the request is left
	b.tick()
	if b.begun("task-0") != 2 {
		t.Errorf("the request is lost: %+v", b.task("task-0"))
	}
}

func TestWaiting_RunIsNotLostIfItBeginsToWaitDuringTheTick(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	planned := b.launcher.launches()[0].Runs[0]
	b.claimed(planned, "container")
	b.launcher.forget()
	b.now = b.now.Add(time.Hour)
	b.at("get "+state.RunKey("task-0", planned.ID), func() { b.wait(planned, approval) })
	b.must(b.Tick(t.Context(), TickOptions{Ended: true}))
	if got := b.run(planned).Data; got.State != state.RunWaiting {
		t.Errorf("the run is %s: %s", got.State, got.Error)
	}
	if b.task("task-0").Waits() == nil {
		t.Errorf("its task says %+v", b.task("task-0"))
	}
}

func TestOnce_RunsTheTaskOfAReplacedRun(t *testing.T) {
	b, planned := waiting(t, approval)
	b.catalog.set("B", nil)
	outcomes, err := b.Once(t.Context(), func() { b.end(state.RunSucceeded, "B") })
	if err != nil || len(outcomes) != 1 || outcomes[0].Run == nil || outcomes[0].Run.ID == planned.ID {
		t.Fatalf("%+v, %v", outcomes, err)
	}
}

func TestOnce_ReportsAWaitingRun(t *testing.T) {
	b, planned := waiting(t, approval)
	outcomes, err := b.Once(t.Context(), func() {})
	if err != nil || len(outcomes) != 1 || outcomes[0].Run == nil || outcomes[0].Run.ID != planned.ID || outcomes[0].Run.State != state.RunWaiting {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	if outcomes[0].Failed() || !outcomes[0].Waits() {
		t.Errorf("failed %t, waits %t", outcomes[0].Failed(), outcomes[0].Waits())
	}
}

func TestWaiting_InputThatGoesBackToWhatIsAppliedReplacesTheRun(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.Config.Tasks[0].BufferPeriod = config.BufferPeriod{Enabled: true, Min: time.Minute, Max: time.Hour}
	b.Reconciler = b.another(b.Config.Tasks)
	b.settle()
	b.launcher.forget()
	b.catalog.set("B", nil)
	b.tick()
	b.now = b.now.Add(2 * time.Minute)
	b.tick()
	planned := b.launcher.launches()[0].Runs[0]
	b.claimed(planned, "container")
	b.wait(planned, approval) // with B
	b.launcher.forget()
	b.tickAfterEnd()
	b.catalog.set("A", nil) // as it is applied
	for range 3 {
		b.tick()
		b.now = b.now.Add(2 * time.Minute)
	}
	if got := b.run(planned).Data; got.State != state.RunSuperseded {
		t.Errorf("the run is %s, and its task %+v", got.State, b.task("task-0"))
	}
	if got := b.task("task-0"); !got.Due.IsZero() || got.Run != nil {
		t.Errorf("its task says %+v", got)
	}
}

// A task must not look as if everything was applied between a run that is replaced and the next one.
func TestWaiting_TaskWhoseRunIsReplacedIsNotShownAsApplied(t *testing.T) {
	for name, happens := range map[string]func(*bench){
		"new input": func(b *bench) { b.catalog.set("C", nil) },
		"a new definition": func(b *bench) {
			b.Reconciler = b.another(tasks(1))
			b.Config.Tasks[0].Module = "./other"
		},
		"new rules": func(b *bench) {
			b.Reconciler = b.another(tasks(1))
			b.Config.Tasks[0].Rules.Guard.Enabled = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tasks(1)...)
			b.settle()
			b.launcher.forget()
			b.catalog.set("B", nil)
			b.tick()
			run := b.launcher.launches()[0].Runs[0]
			b.claimed(run, "container")
			b.wait(run, judgedBy(approval, tasks(1)[0].RulesDigest()))
			b.launcher.forget()
			b.tickAfterEnd()
			happens(b)
			b.tick()
			if got := b.run(run).Data.State; got != state.RunSuperseded {
				t.Fatalf("the run is %s", got)
			}
			if v := b.view("task-0"); v.Phase != lifecycle.Soon {
				t.Errorf("it is shown as %s: %s", v.Phase, v.Reason.Text)
			}
			b.catalog.set("A", nil) // as it is applied
			b.Reconciler = b.another(tasks(1))
			b.tick()
			if v := b.view("task-0"); b.task("task-0").Run == nil && v.Phase != lifecycle.Applied {
				t.Errorf("without anything to do, it is shown as %s: %s", v.Phase, v.Reason.Text)
			}
		})
	}
}

// view is what people see of an enabled task.
func (b *bench) view(task string) lifecycle.View {
	return lifecycle.Facts{Name: task, Task: b.task(task), Setting: lifecycle.Enabled}.Assess()
}

func TestWaiting_ManyLongRunsAreResumedAtOnce(t *testing.T) {
	const n = runsPerLaunch
	b := newBench(t, tasks(n)...)
	b.tick()
	planned := b.launcher.launches()[0].Runs
	for _, p := range planned {
		b.claimed(p, "container")
		run := b.run(p)
		run.Data.Changes = &state.Changes{Resources: slices.Repeat([]state.Resource{{Address: strings.Repeat("a", state.MaxText), Action: "create"}}, state.KeptResources)}
		_, err := b.store.Apply(t.Context(), run.Write(run.Data))
		b.must(err)
		b.wait(p, approval)
	}
	b.launcher.forget()
	b.tickAfterEnd()
	for _, p := range planned {
		b.must(b.people().Resume(t.Context(), p.Task, p.ID, "w1", "Jo"))
	}
	b.tick()
	for _, p := range planned {
		if got := b.run(p).Data; got.State != state.RunIntended {
			t.Errorf("the run of %s is %s", p.Task, got.State)
		}
	}
}

func TestWaiting_RunThatChangesDuringTheWriteDelaysNoOtherTask(t *testing.T) {
	b, planned := waiting(t, approval)
	b.must(b.people().Resume(t.Context(), "task-0", planned.ID, "w1", "Jo"))
	b.at("write "+state.RunKey("task-0", planned.ID), func() {
		run := b.run(planned)
		_, err := b.store.Apply(t.Context(), run.Write(run.Data))
		b.must(err)
	})
	report, err := b.Tick(t.Context(), TickOptions{})
	if err != nil || len(report.Left) != 1 || !report.Again {
		t.Errorf("%+v, %v", report, err)
	}
}
