package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func controlOf(b *bench) *control.Control {
	return &control.Control{Store: b.store, Now: func() time.Time { return b.now }, Base: func(context.Context) (*config.Config, error) { return b.Config, nil }}
}

// kept counts the records in the collections of tasks.
func (b *bench) kept() (n int) {
	b.t.Helper()
	for _, prefix := range []string{"task/", "run/", "log/", "inputs/", "override/"} {
		recs, err := b.store.List(b.t.Context(), prefix)
		if err != nil {
			b.t.Fatal(err)
		}
		n += len(recs)
	}
	return n
}

func TestTick_TasksDeletedThroughTheAPILeaveNoRecords(t *testing.T) {
	b := newBench(t)
	c := controlOf(b)
	for i := range 3 {
		name := fmt.Sprintf("ci-%d", i)
		definition := json.RawMessage(fmt.Sprintf(`{"name":%q,"module":"./m","condition":{"services":{"names":["web"]}}}`, name))
		if _, _, err := c.Create(t.Context(), definition, control.ChangeOptions{By: "ci", Provisional: true}); err != nil {
			t.Fatal(err)
		}
		b.tick()
		b.end(state.RunSucceeded, "A")
		if err := state.SaveLog(t.Context(), b.store, name, "r1", []byte("Apply complete!"), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if err := state.SaveInputs(t.Context(), b.store, name, state.Inputs{}); err != nil {
			t.Fatal(err)
		}
		b.now = b.now.Add(liveCheck)
		b.tick()
		if _, err := c.Delete(t.Context(), name, "ci"); err != nil {
			t.Fatal(err)
		}
		b.tick()
	}
	if n := b.kept(); n != 0 {
		t.Errorf("%d records are left", n)
	}
	report, err := b.Tick(t.Context(), TickOptions{Ended: true})
	if err != nil || len(report.Decisions) != 0 {
		t.Errorf("a tick decides about %d tasks (%v)", len(report.Decisions), err)
	}
}

func TestTick_ADeletedTaskKeepsItsRecordsUntilItsRunHasEnded(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick() // it runs
	if _, err := controlOf(b).Delete(t.Context(), b.Config.Tasks[0].Name, "somebody"); err != nil {
		t.Fatal(err)
	}
	b.tick()
	if b.task(b.Config.Tasks[0].Name).Run == nil {
		t.Error("the record was removed while the run is under way")
	}
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()
	if recs, _ := b.store.List(t.Context(), "task/"); len(recs) != 0 {
		t.Errorf("%d records are left", len(recs))
	}
}

// approvals counts the records of approvals.
func (b *bench) approvals() int {
	b.t.Helper()
	recs, err := b.store.List(b.t.Context(), state.ApprovalPrefix)
	if err != nil {
		b.t.Fatal(err)
	}
	return len(recs)
}

func TestTick_PlanOfARemovedTaskDoesNotWaitAnyMore(t *testing.T) {
	for name, remove := range map[string]func(*bench){
		"from the files": func(b *bench) {
			b.reload()
			b.removed()
		},
		"through the API": func(b *bench) {
			b.must(b.people().Delete(t.Context(), "task-0", "bob"))
			b.tick()
		},
	} {
		for _, approved := range []bool{false, true} {
			b, run := waiting(t, planned)
			events := b.recording()
			if approved { // and the task is removed before the next tick
				b.must(b.people().Approve(t.Context(), "task-0", "", ann, ""))
			}
			remove(b)
			if got := b.run(run).Data; got.State != state.RunSuperseded || got.Ended.IsZero() || b.begun("task-0") != 0 {
				t.Errorf("%s: the run is %+v", name, got)
			}
			if task := b.task("task-0"); task.Run != nil || task.Reason.Code != state.ReasonRemoved {
				t.Errorf("%s: the task reads %+v", name, task)
			}
			if err := b.people().Approve(t.Context(), "task-0", "", ann, ""); !errors.Is(err, state.ErrNoPlan) {
				t.Errorf("%s: its plan is approved: %v", name, err)
			}
			if n := events.count(outbox.RunSuperseded); n != 1 {
				t.Errorf("%s: %d events report the end of the run", name, n)
			}

			b.now = b.now.Add(keptRemoved)
			b.tick()
			if n := b.approvals(); n != 0 {
				t.Errorf("%s: %d approvals are left", name, n)
			}
			b.must(b.people().Reset(t.Context()))
			b.reload(tasks(1)...)
			if got := b.runs("task-0"); got == nil || got.ID == run.ID || got.Approval != nil {
				t.Errorf("%s: configured again, the task has the run %+v", name, got)
			}
		}
	}
}

func TestTick_ATaskThatVanishedFromTheFilesIsKeptForKeepRemovedOrUntilItIsForgotten(t *testing.T) {
	for _, forget := range []bool{false, true} {
		b := newBench(t, tasks(2)...)
		var log testtools.Output
		b.Log = slog.New(slog.NewTextHandler(&log, nil))
		b.settle()
		gone := b.Config.Tasks[1].Name
		c := controlOf(b)
		if err := c.Forget(t.Context(), gone, "somebody"); !errors.Is(err, control.ErrConfigured) {
			t.Errorf("forgetting a task that is configured: %v", err)
		}
		b.Config.Tasks = b.Config.Tasks[:1]
		b.effective = nil
		for range 3 {
			b.tick()
			b.now = b.now.Add(time.Hour)
		}
		if n := strings.Count(log.String(), "a task is not in the configuration any more"); n != 1 || !strings.Contains(log.String(), "is workspace "+gone+" of backend") {
			t.Errorf("it is said %d times that the task is gone: %s", n, &log)
		}
		if b.task(gone).Reason.Code != state.ReasonRemoved {
			t.Errorf("the task reads %+v", b.task(gone))
		}
		if forget {
			if err := c.Forget(t.Context(), gone, "somebody"); err != nil {
				t.Fatal(err)
			}
		} else {
			b.now = b.now.Add(keptRemoved)
			b.tick()
		}
		for _, key := range []string{"task/", "run/"} {
			recs, err := b.store.List(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range recs {
				if strings.Contains(rec.Key, gone) {
					t.Errorf("forget %v: %s is left", forget, rec.Key)
				}
			}
		}
		if err := c.Forget(t.Context(), gone, "somebody"); !errors.Is(err, control.ErrNoTask) {
			t.Errorf("forgetting it again: %v", err)
		}
	}
}

func TestTick_ARecordThatCannotBeDecodedHoldsUpItsTaskAlone(t *testing.T) {
	for _, broken := range []string{"task", "override", "run"} {
		t.Run(broken, func(t *testing.T) {
			b := newBench(t, tasks(2)...)
			var log testtools.Output
			b.Log = slog.New(slog.NewTextHandler(&log, nil))
			b.settle()
			bad, good := b.Config.Tasks[0].Name, b.Config.Tasks[1].Name
			c := controlOf(b)
			key := state.TaskKey(bad)
			switch broken {
			case "override":
				if _, err := c.SetEnabled(t.Context(), bad, false, control.ChangeOptions{}); err != nil {
					t.Fatal(err)
				}
				key = state.OverrideKey(bad)
			case "run":
				if _, err := c.Force(t.Context(), bad, "somebody"); err != nil {
					t.Fatal(err)
				}
				b.tick()
				key = state.RunKey(bad, b.task(bad).Run.ID)
				b.launcher.forget()
			}
			rec, err := b.store.Get(t.Context(), key)
			if err == nil {
				_, err = b.store.Apply(t.Context(), state.Replace(rec, []byte(`{"run":`)))
			}
			if err != nil {
				t.Fatal(err)
			}
			b.effective = nil
			b.launcher.forget()
			for range 3 {
				if _, err := c.Force(t.Context(), good, "somebody"); err != nil {
					t.Fatal(err)
				}
				report := b.tick()
				for _, d := range report.Decisions {
					if d.Task.Name == bad && (d.Reason.Code != state.ReasonCorrupt || !strings.Contains(d.Reason.Text, key)) {
						t.Errorf("the task waits because of %+v", d.Reason)
					}
				}
				if n := len(report.Launches); n != 1 || report.Launches[0].Runs[0].Task != good || len(report.Launches[0].Runs) != 1 {
					t.Fatalf("launched: %+v", report.Launches)
				}
				b.end(state.RunSucceeded, "A")
			}
			if n := strings.Count(log.String(), "a record of a task cannot be read"); n != 1 {
				t.Errorf("it is said %d times: %s", n, &log)
			}
			if err := c.Forget(t.Context(), bad, "somebody"); err != nil {
				t.Fatal(err)
			}
			report := b.tick()
			if len(report.Launches) != 1 || report.Launches[0].Runs[0].Task != bad {
				t.Errorf("after forget, launched: %+v", report.Launches)
			}
		})
	}
}

// corrupt has a record say nothing that can be decoded.
func (b *bench) corrupt(key string) {
	b.t.Helper()
	rec, err := b.store.Get(b.t.Context(), key)
	if err == nil {
		_, err = b.store.Apply(b.t.Context(), state.Replace(rec, []byte(`{"run":`)))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestTick_RunsOfALaunchThatCannotBeDecodedAreDecidedAnew(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.settle()
	first := b.Config.Tasks[0].Name
	if _, err := controlOf(b).Force(t.Context(), first, "somebody"); err != nil {
		t.Fatal(err)
	}
	b.tick()
	before := *b.task(first).Run
	b.corrupt(state.LaunchKey(before.Launch))
	b.launcher.forget()
	if _, err := b.Tick(t.Context(), TickOptions{Ended: true}); err != nil {
		t.Fatalf("the tick fails for all tasks: %v", err)
	}
	if now := b.task(first).Run; now == nil || now.ID == before.ID {
		t.Errorf("the task has run %+v", now)
	}
}

func TestOnce_DoesNotWaitForARunThatCannotBeDecoded(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.settle()
	first := b.Config.Tasks[0].Name
	if _, err := controlOf(b).Force(t.Context(), first, "somebody"); err != nil {
		t.Fatal(err)
	}
	b.tick()
	b.corrupt(state.RunKey(first, b.task(first).Run.ID))
	held, err := b.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.awaitRuns(t.Context(), held); err != nil {
		t.Errorf("once-mode fails for all tasks: %v", err)
	}
}

func TestSettle_ARecordThatCannotBeDecodedHoldsUpItsTaskAlone(t *testing.T) {
	for _, key := range []func(state.PlannedRun) string{
		func(run state.PlannedRun) string { return state.RunKey(run.Task, run.ID) },
		func(run state.PlannedRun) string { return state.TaskKey(run.Task) },
	} {
		b := newBench(t, tasks(2)...)
		b.tick()
		launch := b.launcher.launches()[0]
		b.corrupt(key(launch.Runs[0]))
		if lost := b.stop(launch, "", "the container stopped"); len(lost) != 1 || lost[0].Task != launch.Runs[1].Task {
			t.Errorf("settled: %+v", lost)
		}
	}
}

// A folder of task files that is copied slowly does not have all files for some seconds.
func TestTick_TaskThatIsMissingForAMomentLosesNothing(t *testing.T) {
	missing := func(b *bench) {
		b.reload()
		if got := b.task("task-0"); got.Reason.Code != state.ReasonRemoved || !got.Due.Equal(b.now.Add(removalLasts)) {
			b.t.Fatalf("missing, it is %+v, due %s", got.Reason, got.Due)
		}
		b.now = b.now.Add(removalLasts - time.Second)
		b.Reconciler = b.another(nil) // another leader counts the same time
		b.tick()
		b.now = b.now.Add(time.Hour) // nobody leads, and the files are complete again
		b.Reconciler = b.another(b.Config.Tasks)
	}
	destroyed := func(b *bench) {
		b.must(b.people().Destroy(b.t.Context(), "task-0", "ann"))
		b.tick()
		b.end(state.RunSucceeded, "")
		b.tickAfterEnd()
	}
	for name, test := range map[string]struct {
		before func(*bench)
		reason state.ReasonCode
	}{
		"applied":           {func(*bench) {}, state.ReasonUnchanged},
		"destroyed by hand": {destroyed, state.ReasonDestroyed},
		"a plan waits":      {(*bench).plansAnew, state.ReasonWaiting},
		"cancelled": {func(b *bench) {
			b.plansAnew()
			b.must(b.people().Cancel(b.t.Context(), "task-0", "ann"))
			b.tickAfterEnd()
		}, state.ReasonCancelled},
		"approved": {func(b *bench) {
			b.plansAnew()
			b.must(b.people().Approve(b.t.Context(), "task-0", "", ann, ""))
		}, state.ReasonRunning},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, destroyedOnRemoval()...)
			b.settle()
			b.launcher.forget()
			test.before(b)
			run := b.task("task-0").Run
			b.launcher.forget()
			files := b.Config.Tasks
			missing(b)
			if launches := b.launcher.launches(); len(launches) != 0 {
				t.Fatalf("launched while it is missing: %+v", launches)
			}
			b.reload(files...)
			got := b.task("task-0")
			if got.Reason.Code != test.reason || !got.Gone.Since.IsZero() {
				t.Errorf("back, it is %+v", got.Reason)
			}
			if run != nil && test.reason != state.ReasonCancelled && (got.Run == nil || got.Run.ID != run.ID) {
				t.Errorf("its run was %+v and is %+v", run, got.Run)
			}
		})
	}
}

// destroyedOnRemoval is a task that is destroyed without an approval when it is removed.
func destroyedOnRemoval() []config.Task {
	all := tasks(1)
	all[0].Removal = removal.Spec{On: removal.Destroy, Approve: removal.Never}
	return all
}

// Its first run failed, and has perhaps made something: people hear that nothing keeps that in step any more.
func TestTick_RemovalOfATaskWhoseFirstRunFailedIsAnEvent(t *testing.T) {
	b := newBench(t, tasks(1)...)
	events := b.recording()
	b.tick()
	b.end(state.RunFailed, "")
	b.Config, b.effective = &config.Config{KeepRemoved: keptRemoved}, nil
	b.tick()
	b.removed()
	if n := events.count(outbox.TaskRemoved); n != 1 {
		t.Errorf("%d events say that the task is removed: %s", n, events.heard())
	}
}

func TestTick_RemovalOfATaskThatNeverRanIsNoEvent(t *testing.T) {
	all := tasks(1)
	all[0].Enabled = false
	b := newBench(t, all...)
	events := b.recording()
	b.tick()
	b.Config, b.effective = &config.Config{KeepRemoved: keptRemoved}, nil
	b.tick()
	b.removed()
	if n := events.count(outbox.TaskRemoved); n != 0 {
		t.Errorf("%d events say that the task is removed: %s", n, events.heard())
	}
}
