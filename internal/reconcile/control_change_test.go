package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

func TestControl_ConflictingChangesAreNotBothMade(t *testing.T) {
	b := newBench(t)
	definition := func(name string) json.RawMessage {
		return fmt.Appendf(nil, `{"name":%q,"module":"./m","working_dir":"here"}`, name)
	}
	one := b.people()
	one.Store = &moment{Store: b.store, request: "write override/", happens: func() {
		b.must(b.people().Create(t.Context(), definition("two"), ChangeOptions{}))
	}}
	_, err := one.Create(t.Context(), definition("one"), ChangeOptions{})
	if wrong := (config.Errors)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), `"here" is the working directory of task "two" already`) {
		t.Errorf("both are made: %v", err)
	}
	one.Store = &moment{Store: b.store, request: "write override/", happens: func() {
		b.must(b.people().Delete(t.Context(), "two", ""))
	}}
	if _, err := one.SetEnabled(t.Context(), "two", false, ChangeOptions{}); !errors.Is(err, ErrNoTask) {
		t.Errorf("a task was disabled that was deleted meanwhile: %v", err)
	}
	if b.override("two").Exists() {
		t.Error("it is back")
	}
}

// slowStore takes its time for every write.
type slowStore struct {
	state.Store
	took time.Duration
}

func (s slowStore) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	time.Sleep(s.took)
	return s.Store.Apply(ctx, changes...)
}

func TestControl_ChangesThroughASlowStoreAreAllMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, tasks(50)...)
		b.tick()
		people := b.people()
		people.Store = slowStore{b.store, time.Second}
		var work sync.WaitGroup
		for _, task := range b.Config.Tasks {
			work.Go(func() {
				if err := people.Hold(t.Context(), task.Name, "Jo", ""); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
	})
}

func TestControl_TaskThatStartsMeanwhileIsActive(t *testing.T) {
	b := newBench(t, tasks(1)...)
	one := b.people()
	one.Store = &moment{Store: b.store, request: "write override/", happens: func() { b.tick() }}
	if _, err := one.SetEnabled(t.Context(), "task-0", false, ChangeOptions{}); !errors.Is(err, ErrActive) {
		t.Errorf("a running task was disabled: %v", err)
	}
	b.must(b.people().Delete(t.Context(), "task-0", "")) // it may be: it ends its run
	if _, err := b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), ChangeOptions{}); !errors.Is(err, ErrActive) {
		t.Errorf("a task was made of the same name: %v", err)
	}
	b.end(state.RunSucceeded, "A")
	b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), ChangeOptions{}))
	if record := b.task("task-0"); record.Applied != "" || record.Last != nil || len(record.History) != 1 {
		t.Errorf("the new task has of the old one more than its history: %+v", record)
	}
}

func TestControl_ChangeWithoutEffectWritesNothing(t *testing.T) {
	all := tasks(2)
	all[1].Enabled = false
	b := newBench(t, all...)
	b.settle()
	b.must(b.people().SetEnabled(t.Context(), "task-0", true, ChangeOptions{}))
	b.must(b.people().SetEnabled(t.Context(), "task-1", false, ChangeOptions{Provisional: true}))
	if b.override("task-0").Exists() || b.override("task-1").Exists() || !b.tick().Idle {
		t.Error("something was changed")
	}
}

func TestControl_TaskThatReappearedCanBeDisabled(t *testing.T) {
	all := tasks(2)
	b := newBench(t, all...)
	b.must(b.people().Delete(t.Context(), "task-0", ""))
	changed := slices.Clone(all)
	changed[0].Module = "./another"
	b.Config = &config.Config{KeepRemoved: keptRemoved, Tasks: changed}
	b.must(b.people().SetEnabled(t.Context(), "task-0", false, ChangeOptions{}))
	b.effective = nil
	b.tick()
	if kind := b.task("task-0").Reason.Code; kind != state.ReasonDisabled {
		t.Errorf("it is %s", kind)
	}
}

func TestControl_TooLongDefinitionIsRefused(t *testing.T) {
	of := func(description string) json.RawMessage {
		return json.RawMessage(`{"name":"made","module":"./made","description":"` + description + `","condition":{"services":{"names":["web"]}}}`)
	}
	for description, fits := range map[string]bool{
		strings.Repeat("x", maxDefinition-200): true,
		strings.Repeat("x", maxDefinition):     false,
		strings.Repeat("<", maxDefinition/2):   false, // JSON may write it in six
	} {
		b := newBench(t)
		_, err := b.people().Create(t.Context(), of(description), ChangeOptions{})
		var wrong config.Errors
		if fits && err != nil || !fits && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), "bytes long")) {
			t.Errorf("%d times %q: %v", len(description), description[:1], err)
		}
		if !fits {
			continue
		}
		// It fits twice: a provisional change also keeps the override that it replaces.
		b.must(b.people().SetEnabled(t.Context(), "made", false, ChangeOptions{}))
		b.must(b.people().SetEnabled(t.Context(), "made", true, ChangeOptions{Provisional: true}))
	}
	_, err := newBench(t).people().Create(t.Context(), json.RawMessage(`{"name":`), ChangeOptions{})
	if wrong := (config.Errors)(nil); !errors.As(err, &wrong) {
		t.Errorf("what is no JSON: %v", err)
	}
}

func TestControl_TasksKeepTheOrderOfCreation(t *testing.T) {
	b := newBench(t, tasks(1)...)
	order := func(want ...string) {
		t.Helper()
		e, err := b.people().Config(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, task := range e.Config.Tasks {
			got = append(got, task.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("tasks %v, want %v", got, want)
		}
	}
	for _, name := range []string{"z", "a"} {
		b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"`+name+`"`)), ChangeOptions{Provisional: name == "a"}))
		b.now = b.now.Add(time.Second)
	}
	order("task-0", "z", "a")
	for _, enabled := range []bool{false, true} {
		b.must(b.people().SetEnabled(t.Context(), "z", enabled, ChangeOptions{Provisional: enabled}))
		order("task-0", "z", "a")
	}
	for range 3 {
		b.tick()
		b.end(state.RunSucceeded, "A")
		b.now = b.now.Add(liveCheck)
	}
	order("task-0", "z", "a")
}

func TestControl_DeletedFileTaskStaysDeletedAfterItsReplacement(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.must(b.people().Delete(t.Context(), "task-0", ""))
	b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), ChangeOptions{}))
	comesBack, err := b.people().Delete(t.Context(), "task-0", "")
	if err != nil || comesBack {
		t.Errorf("it is said to come back: %v, %v", comesBack, err)
	}
	if e, err := b.people().Config(t.Context()); err != nil || len(e.Config.Tasks) != 0 {
		t.Errorf("there are %+v, %v", e.Config.Tasks, err)
	}
	// What was only made is gone without a trace.
	b.must(b.people().Create(t.Context(), json.RawMessage(made), ChangeOptions{}))
	b.must(b.people().Delete(t.Context(), "made", ""))
	if b.override("made").Exists() {
		t.Error("it has left an override")
	}
}

func TestControl_TaskThatCameBackStaysWhenItsBlockIsAsBefore(t *testing.T) {
	was, changed := tasks(1), tasks(1)
	changed[0].Module = "./another"
	b := newBench(t, was...)
	b.must(b.people().Delete(t.Context(), "task-0", ""))
	b.reload(changed...)
	b.end(state.RunSucceeded, "A")
	b.must(b.people().SetEnabled(t.Context(), "task-0", false, ChangeOptions{}))
	b.reload(was...)
	e, err := b.people().Config(t.Context())
	if err != nil || len(e.Config.Tasks) != 1 || e.Config.Tasks[0].Enabled {
		t.Errorf("there are %+v, %v", e.Config.Tasks, err)
	}
}

func TestControl_RedundantOverrideIsNotKept(t *testing.T) {
	for _, provisional := range []bool{false, true} {
		all := tasks(2)
		all[1].Enabled = false
		b := newBench(t, all...)
		b.settle()
		for n, task := range []string{"task-0", "task-1"} {
			b.must(b.people().SetEnabled(t.Context(), task, n == 1, ChangeOptions{Provisional: provisional}))
			for range 2 {
				b.tick()
				b.end(state.RunSucceeded, "A")
				b.now = b.now.Add(liveCheck)
			}
			if o := b.override(task); !o.Exists() || o.Data.Provisional != nil {
				t.Fatalf("%s, provisional %v: what differs is not kept: %+v", task, provisional, o.Data)
			}
			b.must(b.people().SetEnabled(t.Context(), task, n == 0, ChangeOptions{Provisional: provisional}))
			for range 2 {
				b.tick()
				b.end(state.RunSucceeded, "A")
				b.now = b.now.Add(liveCheck)
			}
			if o := b.override(task); o.Exists() {
				t.Errorf("%s, provisional %v: it is kept: %+v", task, provisional, o.Data)
			}
		}
		if b.tick(); b.task("task-0").Reason.Code == state.ReasonDisabled || b.task("task-1").Reason.Code != state.ReasonDisabled {
			t.Errorf("the tasks are %s and %s", b.task("task-0").Reason.Code, b.task("task-1").Reason.Code)
		}
	}
}

func TestControl_CreatedTaskIsKeptBesideAFileTaskOfItsName(t *testing.T) {
	b := newBench(t)
	b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), ChangeOptions{}))
	b.Config = &config.Config{KeepRemoved: keptRemoved, Tasks: tasks(1)}
	for _, enabled := range []bool{false, true} {
		b.must(b.people().SetEnabled(t.Context(), "task-0", enabled, ChangeOptions{}))
	}
	if o := b.override("task-0").Data; len(o.Definition) == 0 {
		t.Errorf("it is %+v", o)
	}
	b.must(b.people().Delete(t.Context(), "task-0", ""))
	if e, err := b.people().Config(t.Context()); err != nil || len(e.Config.Tasks) != 0 || len(e.Problems) != 0 {
		t.Errorf("after its deletion there are %+v, %v, %v", e.Config.Tasks, e.Problems, err)
	}
}
