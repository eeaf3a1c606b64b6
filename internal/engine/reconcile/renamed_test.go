package reconcile

import (
	"crypto/rand"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// reload puts other tasks in force.
func (b *bench) reload(tasks ...config.Task) Report {
	b.t.Helper()
	b.Config, b.effective = &config.Config{Tasks: tasks, KeepRemoved: keptRemoved}, nil
	return b.tick()
}

// renamedTask is the one task of a bench under another name.
func renamedTask(from string) config.Task {
	task := tasks(1)[0]
	task.Name = "new"
	if from != "" {
		task.MovedFrom = []string{from}
	}
	return task
}

func (b *bench) runs(task string) *state.Run {
	b.t.Helper()
	live := b.task(task).Run
	if live == nil {
		return nil
	}
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey(task, live.ID))
	if err != nil {
		b.t.Fatal(err)
	}
	return &run.Data
}

func TestTick_RenamedTaskTakesOverWhatWasApplied(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	renamed := renamedTask("task-0")
	b.now = b.now.Add(liveCheck)
	if report := b.reload(renamed); len(report.Launches) != 0 || b.task("new").Reason.Code != state.ReasonRenamed {
		t.Fatalf("while a run of the name before is under way: %+v, %+v", report.Launches, b.task("new").Reason)
	}
	b.end(state.RunSucceeded, "A")
	if err := state.SaveInputs(t.Context(), b.store, "task-0", state.Inputs{Elements: map[string]string{"web-1": "x"}}); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(liveCheck)
	b.tick()
	got := b.runs("new")
	if got == nil || got.Kind != state.KindApply || got.Reason.Code != state.ReasonDefinition || !reflect.DeepEqual(got.Moves, &state.Move{From: []string{"task-0"}, Expected: true}) {
		t.Fatalf("the run of the new name: %+v", got)
	}
	if task := b.task("new"); task.Applied.Digest != "A" || task.Applied.At.IsZero() {
		t.Errorf("what was applied is not known: %+v", task)
	}
	for name, want := range map[string]int{"new": 1, "task-0": 0} {
		if inputs, err := state.LoadInputs(t.Context(), b.store, name); err != nil || len(inputs.Elements) != want {
			t.Errorf("inputs of %s: %+v, %v", name, inputs, err)
		}
	}
	if old := b.task("task-0"); old.Gone.MovedTo != "new" || !strings.Contains(old.Reason.Text, "it was renamed to new") || len(old.Ended.IDs) != 1 {
		t.Errorf("the record of the name before: %+v", old)
	}
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()

	b.catalog.set("B", nil)
	b.tick()
	if got := b.runs("new"); got == nil || got.Moves != nil {
		t.Errorf("the state is taken along twice: %+v", got)
	}
}

// The files may name another former name before the next tick: then a guard must not compare the task with
// what this one was applied with.
func TestTick_RenameThatIsInterruptedLeavesTheNewNameNothing(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	b.end(state.RunSucceeded, "A")
	if err := state.SaveInputs(t.Context(), b.store, "task-0", state.Inputs{Elements: map[string]string{"web-1": "x"}}); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(liveCheck)
	b.tick()

	b.store.Before = func(changes []state.Change) error {
		if slices.ContainsFunc(changes, func(c state.Change) bool { return c.Key == state.TaskKey("new") }) {
			return errors.New("the process dies")
		}
		return nil
	}
	b.Config, b.effective = &config.Config{Tasks: []config.Task{renamedTask("task-0")}, KeepRemoved: keptRemoved}, nil
	if _, err := b.Tick(t.Context(), TickOptions{}); err == nil || b.task("task-0").Gone.MovedTo != "" {
		t.Fatalf("the rename was not interrupted: %v, %+v", err, b.task("task-0"))
	}
	b.store.Before = nil
	for name, want := range map[string]int{"new": 0, "task-0": 1} {
		if inputs, err := state.LoadInputs(t.Context(), b.store, name); err != nil || len(inputs.Elements) != want {
			t.Errorf("inputs of %s: %+v, %v", name, inputs, err)
		}
	}
	b.now = b.now.Add(liveCheck)
	b.tick()
	for name, want := range map[string]int{"new": 1, "task-0": 0} {
		if inputs, err := state.LoadInputs(t.Context(), b.store, name); err != nil || len(inputs.Elements) != want {
			t.Errorf("after the rename, inputs of %s: %+v, %v", name, inputs, err)
		}
	}
}

// What is too large to be written with the rename is copied before it. A process that does not lead any more copies nothing:
// the leader may have given the new name something else.
func TestTick_OnlyTheLeaderCopiesWhatARenamedTaskWasAppliedWith(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	large := state.Inputs{Elements: map[string]string{}}
	for range 4000 {
		large.Elements[rand.Text()] = rand.Text()
	}
	b.must(state.SaveInputs(t.Context(), b.store, "task-0", large))
	b.now = b.now.Add(liveCheck)

	led := true
	b.store.Before = func(changes []state.Change) error {
		if led && strings.HasPrefix(changes[len(changes)-1].Key, "inputs/new/") {
			led = false
			_, err := lease.Acquire(t.Context(), b.store.Store, state.LeaderLease, "another", lease.Options{TTL: time.Hour, Now: func() time.Time { return b.now.Add(time.Hour) }})
			return err
		}
		return nil
	}
	b.Config, b.effective = &config.Config{Tasks: []config.Task{renamedTask("task-0")}, KeepRemoved: keptRemoved}, nil
	if _, err := b.Tick(t.Context(), TickOptions{}); !errors.Is(err, lease.ErrLost) || led {
		t.Fatalf("the tick ended with %v; the copy has begun: %v", err, !led)
	}
	for name, want := range map[string]int{"new": 0, "task-0": len(large.Elements)} {
		if inputs, err := state.LoadInputs(t.Context(), b.store, name); err != nil || len(inputs.Elements) != want {
			t.Errorf("inputs of %s: %d entries, want %d (%v)", name, len(inputs.Elements), want, err)
		}
	}
}

func TestTick_RenamedTaskIsNotDestroyedUnderItsNameBefore(t *testing.T) {
	b := newBench(t)
	before := tasks(1)[0]
	before.Removal = removal.Spec{On: removal.Destroy, Approve: removal.Never}
	b.reload(before)
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()

	events := b.recording()
	forgot := renamedTask("")
	for range 2 {
		if report := b.reload(forgot); len(report.Launches) != 0 {
			t.Fatalf("launched %+v", report.Launches)
		}
	}
	b.removed()
	if heard := events.heard(); strings.Count(heard, "task_renamed(") != 1 {
		t.Errorf("the events are %s", heard)
	}
	if r := b.task("new").Reason; r.Code != state.ReasonRenamed || !strings.Contains(r.Text, `set moved_from to "task-0"`) {
		t.Errorf("the new name: %+v", r)
	}
	if r := b.task("task-0").Reason; r.Code != state.ReasonRenamed {
		t.Errorf("the name before: %+v", r)
	}

	report := b.reload(renamedTask("task-0"))
	if got := b.runs("new"); len(report.Launches) != 1 || got == nil || got.Moves == nil {
		t.Fatalf("launched %+v", report.Launches)
	}
	if _, err := state.LoadDefinition(t.Context(), b.store, "task-0"); err == nil {
		t.Error("the name before can still be destroyed")
	}
}

func TestTick_RequestSaysThatATaskIsNew(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()

	other := renamedTask("")
	other.Module = "./another"
	if report := b.reload(other); len(report.Launches) != 1 {
		t.Fatalf("a task with another module is held: %+v", b.task("new").Reason)
	}
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	held := renamedTask("")
	held.Name = "held"
	b.reload(held)
	if r := b.task("held").Reason; r.Code != state.ReasonRenamed {
		t.Fatalf("removed a moment before: %+v", r)
	}
	report, err := b.Tick(t.Context(), TickOptions{Force: map[string]string{"held": "Jo"}})
	if err != nil || len(report.Launches) != 1 {
		t.Errorf("requested: %+v, %v", report.Launches, err)
	}
	if got := b.runs("held"); got == nil || got.Moves != nil {
		t.Errorf("the run: %+v", got)
	}
}

// Somebody has said that it is a new task, and says while its run is under way that it is not.
func TestTick_RenamedTaskKeepsItsRunUnderWay(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.launcher.forget()
	renamed := renamedTask("")
	b.reload(renamed)
	b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"new": "Jo"}}))
	live := b.task("new").Run
	if live == nil {
		t.Fatalf("no run begins: %+v", b.task("new").Reason)
	}
	renamed.MovedFrom = []string{"task-0"}
	b.now = b.now.Add(liveCheck)
	b.reload(renamed)
	b.tick()
	if got := b.task("new"); got.Run == nil || got.Run.ID != live.ID || b.begun("new") != 1 {
		t.Errorf("run %s is under way; its task has %+v, and %d runs have begun", live.ID, got.Run, b.begun("new"))
	}
	if got := b.task("task-0"); got.Gone.MovedTo != "" || got.Applied.At.IsZero() {
		t.Errorf("the task before has lost its records: %+v", got)
	}
}

func TestTick_RenameIsAnEventOfTheNewNameAfterThoseOfTheFormerOne(t *testing.T) {
	b := newBench(t, tasks(1)...)
	events := b.recording()
	b.settle()
	b.Reconciler.Consul = unreadable{b.catalog} // its latest event is of a clock that is ahead
	b.now = b.now.Add(time.Hour)
	b.tick()
	b.now = b.now.Add(-30 * time.Minute)
	b.Reconciler.Consul = b.catalog
	b.reload(renamedTask("task-0"))
	b.now = b.now.Add(time.Hour)
	b.tick()
	var last uint64
	var moved []outbox.Event
	for _, e := range events.got {
		switch {
		case e.Kind == outbox.TaskMoved:
			moved = append(moved, e)
		case e.Task == "task-0":
			last = max(last, e.Seq)
		}
	}
	if len(moved) != 1 || moved[0].Task != "new" || moved[0].Former != "task-0" || moved[0].Seq <= last {
		t.Errorf("the rename is the events %+v; the latest one of the former name has the number %d", moved, last)
	}
}

// A rename that waits for the end of a run is no removal: `moved_from` says already what the warning
// of a removal would advise.
func TestRename_ThatWaitsForARunIsNotAnnouncedAsARemoval(t *testing.T) {
	for _, from := range []string{"task-0", ""} {
		b := newBench(t, tasks(1)...)
		events := b.recording()
		b.settle()
		b.catalog.set("B", nil)
		b.tick() // its run is under way
		b.reload(renamedTask(from))
		b.removed()
		removals := 1
		if from != "" {
			removals = 0
			if is := b.task("task-0"); is.Gone.MovedTo != "" || is.Run == nil {
				t.Fatalf("the rename does not wait: %+v", is)
			}
		}
		if n := events.count(outbox.TaskRemoved); n != removals {
			t.Errorf("moved_from %q: %d events say that the task is removed: %s", from, n, events.heard())
		}
	}
}
