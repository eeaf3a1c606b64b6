package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Plan implements driver.Driver.
func (terraform) Plan(_ context.Context, job driver.Job) (driver.Plan, error) {
	return driver.Plan{Changes: &state.Changes{Add: 1}, Text: "Plan: 1 to add for " + job.Task.Module}, nil
}

func TestControl_CreatedTaskRunsOnChangeAndSurvivesARestart(t *testing.T) {
	m := newMachine(t)
	i := m.start(tasks("web"))
	eventually(t, "web ran", func() bool { return m.runs("web") == 1 && i.reason("web") == state.ReasonUnchanged })
	if _, _, err := i.Create(t.Context(), json.RawMessage(api), control.ChangeOptions{By: "a test"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new task waits", func() bool { return i.reason("api") == state.ReasonHeld })
	stays(t, "it has not run", func() bool { return m.runs("api") == 0 })
	i.change("B")
	eventually(t, "both ran", func() bool { return m.runs("api") == 1 && m.runs("web") == 2 })
	i.stop()

	again := m.start(tasks("web"))
	expect(t, "tasks", names(t, again.Control), "web", "api")
	stays(t, "nothing has changed, so nothing runs", func() bool { return m.runs("api") == 1 && m.runs("web") == 2 })
	again.change("C")
	eventually(t, "both run again", func() bool { return m.runs("api") == 2 && m.runs("web") == 3 })
}

func TestControl_ProvisionalTaskIsKeptOnlyIfItsRunSucceeds(t *testing.T) {
	for _, fails := range []bool{false, true} {
		m := newMachine(t)
		i := m.start(tasks("web"))
		if fails {
			m.broken["api"] = errors.New("the module is broken")
		}
		if _, _, err := i.Create(t.Context(), json.RawMessage(api), control.ChangeOptions{By: "a test", Provisional: true}); err != nil {
			t.Fatal(err)
		}
		run, err := i.AwaitRun(t.Context(), "api", control.Earlier{})
		if err != nil {
			t.Fatal(err)
		}
		if fails != (run.State == state.RunFailed) {
			t.Errorf("the run reads %+v", run)
		}
		want := []string{"web", "api"}
		if fails {
			want = want[:1]
		}
		expect(t, "tasks", names(t, i.Control), want...)
		stays(t, "it ran once", func() bool { return m.runs("api") == 1 })
		i.stop()
	}
}

func TestControl_NextLeaderSettlesAProvisionalChange(t *testing.T) {
	m := newMachine(t)
	m.broken["api"] = errors.New("the module is broken")
	i := m.start(tasks("web"))
	eventually(t, "web ran", func() bool { return m.runs("web") == 1 && i.reason("web") == state.ReasonUnchanged })
	i.stop() // nobody leads
	if _, _, err := i.Create(t.Context(), json.RawMessage(api), control.ChangeOptions{By: "a test", Provisional: true}); err != nil {
		t.Fatal(err)
	}
	next := m.start(tasks("web"))
	run, err := next.AwaitRun(t.Context(), "api", control.Earlier{})
	if err != nil || run.State != state.RunFailed {
		t.Fatalf("%+v, %v", run, err)
	}
	expect(t, "tasks", names(t, next.Control), "web")
}

func TestControl_DisabledTaskRunsOnlyOnceEnabledAndChanged(t *testing.T) {
	m := newMachine(t)
	i := m.start(tasks("web"))
	eventually(t, "web ran", func() bool { return m.runs("web") == 1 && i.reason("web") == state.ReasonUnchanged })
	if _, err := i.SetEnabled(t.Context(), "web", false, control.ChangeOptions{By: "a test"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is disabled", func() bool { return i.reason("web") == state.ReasonDisabled })
	i.change("B")
	stays(t, "it rests", func() bool { return m.runs("web") == 1 })
	i.stop()
	i = m.start(tasks("web")) // a restart does not enable it
	expect(t, "tasks", names(t, i.Control), "web (disabled)")
	stays(t, "it rests", func() bool { return m.runs("web") == 1 })
	if _, err := i.SetEnabled(t.Context(), "web", true, control.ChangeOptions{By: "a test"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits for a change", func() bool { return i.reason("web") == state.ReasonHeld })
	stays(t, "it waits", func() bool { return m.runs("web") == 1 })
	i.change("C")
	eventually(t, "it ran", func() bool { return m.runs("web") == 2 })
}

func TestControl_FailedRunRevertsEnabling(t *testing.T) {
	m := newMachine(t)
	i := m.start(tasks("web"))
	eventually(t, "web ran", func() bool { return m.runs("web") == 1 && i.reason("web") == state.ReasonUnchanged })
	if _, err := i.SetEnabled(t.Context(), "web", false, control.ChangeOptions{By: "a test"}); err != nil {
		t.Fatal(err)
	}
	before, err := state.Read[state.Task](t.Context(), i.Store, state.TaskKey("web"))
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	m.broken["web"] = errors.New("the module is broken")
	m.mu.Unlock()
	if _, err := i.SetEnabled(t.Context(), "web", true, control.ChangeOptions{By: "a test", Provisional: true}); err != nil {
		t.Fatal(err)
	}
	run, err := i.AwaitRun(t.Context(), "web", control.Earlier{Ended: before.Data.Ended.Last.Run})
	if err != nil || run.State != state.RunFailed {
		t.Fatalf("%+v, %v", run, err)
	}
	expect(t, "tasks", names(t, i.Control), "web (disabled)")
	stays(t, "it is not tried again", func() bool { return m.runs("web") == 2 })
}

func TestControl_DeletedFileTaskReappearsWhenItsBlockChanges(t *testing.T) {
	m := newMachine(t)
	i := m.start(tasks("web", "db"))
	eventually(t, "both ran", func() bool {
		return i.reason("web") == state.ReasonUnchanged && i.reason("db") == state.ReasonUnchanged
	})
	comesBack, err := i.Delete(t.Context(), "web", "a test")
	if err != nil || !comesBack {
		t.Fatalf("%v, %v", comesBack, err)
	}
	if _, err := i.Delete(t.Context(), "web", "a test"); !errors.Is(err, control.ErrNoTask) {
		t.Errorf("deleted again: %v", err)
	}
	eventually(t, "its record is removed", func() bool { return i.reason("web") == "" })
	i.change("B")
	eventually(t, "the other ran", func() bool { return m.runs("db") == 2 })
	i.stop()
	i = m.start(tasks("web", "db"))
	expect(t, "tasks after a restart", names(t, i.Control), "db")
	changed := tasks("web", "db")
	changed[0].Module = "./another"
	i.base.Store(&config.Config{KeepRemoved: month, Tasks: changed})
	i.reload <- reconcile.Reload{Config: i.base.Load()}
	expect(t, "tasks after a change of the file", names(t, i.Control), "web", "db")
	eventually(t, "it ran", func() bool { return m.runs("web") == 2 })
}

func TestControl_TaskWithoutEffectCanBeDeleted(t *testing.T) {
	m := newMachine(t)
	i := m.start(tasks("web"))
	if _, _, err := i.Create(t.Context(), json.RawMessage(api), control.ChangeOptions{By: "a test"}); err != nil {
		t.Fatal(err)
	}
	clash := tasks("web")
	clash[0].WorkingDir = "api"
	i.base.Store(&config.Config{KeepRemoved: month, Tasks: clash})
	e, err := i.Config(t.Context())
	if err != nil || e.Problems["api"] == nil {
		t.Fatalf("the file has not taken its folder: %v, %v", e, err)
	}
	i.reload <- reconcile.Reload{Config: i.base.Load()}
	eventually(t, "its status says why", func() bool {
		record, err := state.Read[state.Task](t.Context(), i.Store, state.TaskKey("api"))
		return err == nil && strings.Contains(record.Data.Reason.Text, e.Problems["api"].Error())
	})
	if comesBack, err := i.Delete(t.Context(), "api", "a test"); err != nil || comesBack {
		t.Fatalf("comes back %v: %v", comesBack, err)
	}
	i.base.Store(&config.Config{KeepRemoved: month, Tasks: tasks("web")})
	expect(t, "tasks", names(t, i.Control), "web")
	if _, err := i.Delete(t.Context(), "api", "a test"); !errors.Is(err, control.ErrNoTask) {
		t.Errorf("deleted again: %v", err)
	}
}

func TestControl_TaskIsPlannedBeforeItIsCreated(t *testing.T) {
	m := newMachine(t)
	i := m.start(tasks("web"))
	planned, err := i.Plan(t.Context(), "", json.RawMessage(api))
	if err != nil {
		t.Fatal(err)
	}
	run, plan, err := i.AwaitPlan(t.Context(), planned)
	if err != nil || run.State != state.RunSucceeded || !strings.HasPrefix(plan, "Plan: 1 to add for ") || !strings.HasSuffix(plan, "api") {
		t.Errorf("%+v, %q, %v", run, plan, err)
	}
	expect(t, "tasks", names(t, i.Control), "web")
	if m.runs("api") != 0 {
		t.Error("it was applied")
	}
}

func TestControl_ForceRunsATask(t *testing.T) {
	m := newMachine(t)
	i := m.start(tasks("web"))
	eventually(t, "web ran", func() bool { return m.runs("web") == 1 && i.reason("web") == state.ReasonUnchanged })
	since, err := i.Force(t.Context(), "web", "somebody")
	if err != nil {
		t.Fatal(err)
	}
	run, err := i.AwaitRun(t.Context(), "web", since)
	if err != nil || run.Reason.Code != state.ReasonForced || !strings.Contains(run.Reason.Text, "somebody") {
		t.Errorf("%+v, %v", run, err)
	}
}

func TestControl_RequestReachesTheLeaderThroughTheStore(t *testing.T) {
	m := newMachine(t)
	leader := m.start(tasks("web"))
	eventually(t, "web ran", func() bool { return m.runs("web") == 1 && leader.reason("web") == state.ReasonUnchanged })
	follower := m.start(tasks("web"))
	since, err := follower.Force(t.Context(), "web", "somebody")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := follower.AwaitRun(t.Context(), "web", since); err != nil {
		t.Fatal(err)
	}
	if n := m.runs("web"); n != 2 {
		t.Errorf("%d runs", n)
	}
}

func TestControl_TaskChangedWhileItsRunIsQueuedRunsAsChanged(t *testing.T) {
	m := newMachine(t)
	m.took = 200 * time.Millisecond
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	i := m.start(tasks(names...))
	eventually(t, "all are decided", func() bool { return i.reason("j") == state.ReasonForced || i.reason("j") == state.ReasonFirst })
	changed := tasks(names...)
	for n := range changed {
		changed[n].Module = "./another"
	}
	i.base.Store(&config.Config{KeepRemoved: month, Tasks: changed})
	i.reload <- reconcile.Reload{Config: i.base.Load()}
	for n := range changed {
		record := state.Task{}
		eventually(t, changed[n].Name+" is applied as it is now", func() bool {
			read, err := state.Read[state.Task](t.Context(), i.Store, state.TaskKey(changed[n].Name))
			record = read.Data
			return err == nil && record.Applied.Definition == changed[n].Digest(i.base.Load()) && record.Run == nil
		})
		for _, ended := range record.RecentRuns() {
			if ended.State != state.RunSucceeded {
				t.Errorf("%s: its runs have %v", changed[n].Name, record.Ended.Recent)
			}
		}
		if record.Failing.Count != 0 {
			t.Errorf("%s has failed %d times", changed[n].Name, record.Failing.Count)
		}
	}
}

func TestControl_ConcurrentChangesAreAllMade(t *testing.T) {
	m := newMachine(t)
	i := m.start(tasks("web"))
	var work sync.WaitGroup
	const many = 50
	var failed atomic.Int64
	for n := range many {
		work.Go(func() {
			definition := fmt.Sprintf(`{"name":"t%d","module":"./m","condition":{"services":{"names":["api"]}}}`, n)
			if _, _, err := i.Create(t.Context(), json.RawMessage(definition), control.ChangeOptions{By: "a test"}); err != nil {
				failed.Add(1)
				t.Error(err)
			}
		})
	}
	work.Wait()
	if n := len(names(t, i.Control)); n != many+1 {
		t.Errorf("%d tasks", n)
	}
}
