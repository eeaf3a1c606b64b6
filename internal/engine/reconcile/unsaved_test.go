package reconcile

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
)

// endsUnsaved ends the run of a task, whose state an instance of a cluster keeps because the backend did
// not take it.
func (b *bench) endsUnsaved(task, instance string) {
	b.t.Helper()
	ctx := b.t.Context()
	record, err := state.Read[state.Task](ctx, b.store, state.TaskKey(task))
	b.must(err)
	run, err := state.Read[state.Run](ctx, b.store, state.RunKey(task, record.Data.Run.ID))
	b.must(err)
	ended := run.Data
	ended.State, ended.Ended, ended.Error = state.RunFailed, b.now, "the backend did not take the state"
	ended.Unsaved = &state.Unsaved{Run: ended.ID, Since: b.now, Runner: instance, Instance: instance != "", Place: "/tasks/web/errored.tfstate", State: "x/2/y"}
	next, _ := record.Data.Conclude(ended, "")
	_, err = b.store.Apply(ctx, run.Write(ended), record.Write(next))
	b.must(err)
}

// sharer is a launcher that gives launches to instances.
type sharer struct {
	*launcher
	away map[string]string // why an instance cannot be given a launch
}

func (s sharer) Share(context.Context, func(context.Context, ...state.Change) ([]state.Record, error)) func() {
	return func() {}
}
func (s sharer) Unreached(_ context.Context, instance string) (string, error) {
	return s.away[instance], nil
}

func TestTick_TaskWhoseStateAnInstanceKeepsRunsOnlyThere(t *testing.T) {
	b := newBench(t, tasks(1)...)
	away := map[string]string{}
	b.Launcher, b.Apart = sharer{b.launcher, away}, true
	b.settle()
	b.catalog.set("B", nil)
	b.tick()
	b.endsUnsaved("task-0", "cts-02")
	b.launcher.forget()

	away["cts-02"] = "that instance is not there"
	b.now = b.now.Add(time.Minute)
	b.tickAfterEnd()
	if r := b.task("task-0").Reason; r.Code != state.ReasonUnsaved || !strings.Contains(r.Text, "instance cts-02 keeps it in /tasks/web/errored.tfstate, and that instance is not there. Start cts-02") {
		t.Fatalf("while the instance is not there: %+v", r)
	}
	b.leads()
	if got := b.launcher.launches(); len(got) != 0 {
		t.Fatalf("a new leader launches %+v", got)
	}
	delete(away, "cts-02")
	b.Launcher, b.Apart = sharer{b.launcher, away}, true
	b.tickAfterEnd()
	launches := b.launcher.launches()
	if len(launches) != 1 || launches[0].For != "cts-02" {
		t.Fatalf("when the instance is there: %+v, %+v", launches, b.task("task-0").Reason)
	}
	if run := b.run(launches[0].Runs[0]).Data; run.Unsaved == nil || run.Unsaved.State != "x/2/y" {
		t.Errorf("the run does not know of the state: %+v", run.Unsaved)
	}
	b.end(state.RunInterrupted, "")
	if u := b.task("task-0").Unsaved; u == nil {
		t.Error("a run that has not saved the state makes Terrapulse forget it")
	}
}

func TestTick_RunThatAPersonRequestsBeginsWithoutTheState(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.catalog.set("B", nil)
	b.tick()
	b.endsUnsaved("task-0", "cts-02")
	b.launcher.forget()
	b.tickAfterEnd()
	if _, err := b.people().Force(t.Context(), "task-0", "ann"); err != nil {
		t.Fatal(err)
	}
	b.tick()
	launches := b.launcher.launches()
	if len(launches) != 1 || !b.run(launches[0].Runs[0]).Data.ForPerson() {
		t.Errorf("%+v", launches)
	}
}

// A task that is removed cannot be run, but destroyed.
func TestTick_DestroyThatAPersonRequestsBeginsWithoutTheState(t *testing.T) {
	b := newBench(t)
	b.Config.Rules.Removal = removal.Default
	away := map[string]string{"cts-02": "that instance is not there"}
	b.Launcher, b.Apart = sharer{b.launcher, away}, true
	definition := json.RawMessage(`{"name":"api","module":"./m","on_removal":"destroy","condition":{"services":{"names":["web"]}}}`)
	_, _, err := controlOf(b).Create(t.Context(), definition, control.ChangeOptions{By: "ci", Provisional: true})
	b.must(err)
	b.tick()
	b.end(state.RunSucceeded, "A")
	b.catalog.set("B", nil)
	b.now = b.now.Add(liveCheck)
	b.tick()
	b.endsUnsaved("api", "cts-02")
	b.launcher.forget()
	_, err = controlOf(b).Delete(t.Context(), "api", "ci")
	b.must(err)
	b.now = b.now.Add(time.Hour)
	b.tickAfterEnd()
	if r := b.task("api").Reason; r.Code != state.ReasonUnsaved || !strings.Contains(r.Text, "and run `terrapulse destroy api`") {
		t.Fatalf("once the task is removed: %+v", r)
	}
	b.must(b.people().Destroy(t.Context(), "api", "ann"))
	b.tick()
	launches := b.launcher.launches()
	if len(launches) != 1 || !b.run(launches[0].Runs[0]).Data.ForPerson() {
		t.Errorf("%+v, %+v", launches, b.task("api").Reason)
	}
}

// A state that is in a bucket, or on the one machine that there is, holds no run: the driver looks for it.
func TestTick_StateThatNoInstanceKeepsHoldsNothing(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.catalog.set("B", nil)
	b.tick()
	b.endsUnsaved("task-0", "")
	b.launcher.forget()
	b.now = b.now.Add(time.Minute)
	b.tickAfterEnd()
	if launches := b.launcher.launches(); len(launches) != 1 || launches[0].For != "" {
		t.Errorf("%+v, %+v", launches, b.task("task-0").Reason)
	}
}

func TestTick_RunAfterALostOneIsMeantForTheSameInstance(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.Launcher, b.Apart = sharer{b.launcher, nil}, true
	run := b.tick().Launches[0].Runs[0]
	b.claimed(run, "cts-02")
	b.launcher.status = map[string]LaunchStatus{}
	b.launcher.forget()
	b.now = b.now.Add(time.Hour)
	b.tick()
	if launches := b.launcher.launches(); len(launches) != 1 || launches[0].For != "cts-02" {
		t.Errorf("%+v, %+v", launches, b.task(run.Task).Reason)
	}
	got := b.task(run.Task)
	view := lifecycle.Facts{Name: run.Task, Task: got, Run: b.run(state.PlannedRun{Task: run.Task, ID: got.Run.ID}).Data, Setting: lifecycle.Enabled}.Assess()
	if !strings.HasPrefix(view.Reason.Text, "a run waits for room on instance cts-02, which may have the latest Terraform state: ") {
		t.Errorf("people read %q", view.Reason.Text)
	}
}
