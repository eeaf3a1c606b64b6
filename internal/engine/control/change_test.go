package control_test

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

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestControl_ConflictingChangesAreNotBothMade(t *testing.T) {
	b := newBench(t)
	definition := func(name string) json.RawMessage {
		return fmt.Appendf(nil, `{"name":%q,"module":"./m","working_dir":"here"}`, name)
	}
	one := b.people()
	one.Store = &statetest.Moment{Store: b.store, Request: "write override/", Happens: func() {
		b.must(b.people().Create(t.Context(), definition("two"), control.ChangeOptions{}))
	}}
	_, _, err := one.Create(t.Context(), definition("one"), control.ChangeOptions{})
	if wrong := (config.Errors)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), `"here" is the working directory of task "two" already`) {
		t.Errorf("both are made: %v", err)
	}
	one.Store = &statetest.Moment{Store: b.store, Request: "write override/", Happens: func() {
		b.must(b.people().Delete(t.Context(), "two", ""))
	}}
	if _, err := one.SetEnabled(t.Context(), "two", false, control.ChangeOptions{}); !errors.Is(err, control.ErrNoTask) {
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
	one.Store = &statetest.Moment{Store: b.store, Request: "write override/", Happens: func() { b.tick() }}
	if _, err := one.SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{}); !errors.Is(err, control.ErrActive) {
		t.Errorf("a running task was disabled: %v", err)
	}
	b.must(b.people().Delete(t.Context(), "task-0", "")) // it may be: it ends its run
	if _, _, err := b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), control.ChangeOptions{}); !errors.Is(err, control.ErrActive) {
		t.Errorf("a task was made of the same name: %v", err)
	}
	b.end()
	b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), control.ChangeOptions{}))
	if record := b.task("task-0"); record.Applied.Digest != "" || record.Ended.Last != nil || len(record.Ended.IDs) != 1 {
		t.Errorf("the new task has of the old one more than its history: %+v", record)
	}
}

func TestControl_TaskOfAFileThatIsCreatedThroughTheAPIIsTheSameTask(t *testing.T) {
	for _, seen := range []bool{false, true} { // whether a tick has seen that it is in no file
		b := newBench(t, tasks(1)...)
		b.settle()
		b.must(b.people().Hold(t.Context(), "task-0", "Jo", ""))
		b.restart()
		if seen {
			b.tick()
			b.now = b.now.Add(time.Minute)
			b.tick()
		}
		was := b.task("task-0")
		if was.Gone.Final != seen || was.Applied.Digest == "" {
			t.Fatalf("the task is removed: %v, %+v", seen, was)
		}
		b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), control.ChangeOptions{}))
		b.tick()
		is := b.task("task-0")
		if is.Applied.Digest != was.Applied.Digest || !is.Applied.At.Equal(was.Applied.At) || is.OnHold == nil || is.Gone.Final {
			t.Errorf("seen %v: what was applied and said is lost: %+v", seen, is)
		}
	}
}

func TestControl_TaskOfAFileThatIsCreatedForATrialHasItsOwnRun(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.restart()
	_, earlier, err := b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), control.ChangeOptions{Provisional: true})
	b.must(err)
	b.tick()
	if o, is := b.override("task-0"), b.task("task-0"); o.Data.Provisional == nil || is.Run == nil || earlier.Ended != is.Ended.Last.Run {
		t.Fatalf("the run of the file's task counts as its trial: %+v, %+v", o.Data, is)
	}
	b.end()
	b.now = b.now.Add(liveCheck)
	b.tick()
	if o := b.override("task-0"); !o.Exists() || o.Data.Provisional != nil {
		t.Errorf("the trial has succeeded, and is not kept: %+v", o.Data)
	}
}

func TestControl_ChangeWithoutEffectWritesNothing(t *testing.T) {
	all := tasks(2)
	all[1].Enabled = false
	b := newBench(t, all...)
	b.settle()
	b.must(b.people().SetEnabled(t.Context(), "task-0", true, control.ChangeOptions{}))
	b.must(b.people().SetEnabled(t.Context(), "task-1", false, control.ChangeOptions{Provisional: true}))
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
	b.restart(changed...)
	b.must(b.people().SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{}))
	b.tick()
	if kind := b.task("task-0").Reason.Code; kind != state.ReasonDisabled {
		t.Errorf("it is %s", kind)
	}
}

func TestControl_TooLongDefinitionIsRefused(t *testing.T) {
	of := func(description string) json.RawMessage {
		return json.RawMessage(`{"name":"made","module":"./made","description":"` + description + `","condition":{"services":{"names":["web"]}}}`)
	}
	const most = 64 << 10
	for description, fits := range map[string]bool{
		strings.Repeat("x", most-200): true,
		strings.Repeat("x", most):     false,
		strings.Repeat("<", most/2):   false, // JSON may write it in six
	} {
		b := newBench(t)
		_, _, err := b.people().Create(t.Context(), of(description), control.ChangeOptions{})
		var wrong config.Errors
		if fits && err != nil || !fits && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), "bytes long")) {
			t.Errorf("%d times %q: %v", len(description), description[:1], err)
		}
		if !fits {
			continue
		}
		// It fits twice: a provisional change also keeps the override that it replaces.
		b.must(b.people().SetEnabled(t.Context(), "made", false, control.ChangeOptions{}))
		b.must(b.people().SetEnabled(t.Context(), "made", true, control.ChangeOptions{Provisional: true}))
	}
	_, _, err := newBench(t).people().Create(t.Context(), json.RawMessage(`{"name":`), control.ChangeOptions{})
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
		b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"`+name+`"`)), control.ChangeOptions{Provisional: name == "a"}))
		b.now = b.now.Add(time.Second)
	}
	order("task-0", "z", "a")
	for _, enabled := range []bool{false, true} {
		b.must(b.people().SetEnabled(t.Context(), "z", enabled, control.ChangeOptions{Provisional: enabled}))
		order("task-0", "z", "a")
	}
	for range 3 {
		b.tick()
		b.end()
		b.now = b.now.Add(liveCheck)
	}
	order("task-0", "z", "a")
}

func TestControl_DeletedFileTaskStaysDeletedAfterItsReplacement(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.must(b.people().Delete(t.Context(), "task-0", ""))
	b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), control.ChangeOptions{}))
	comesBack, err := b.people().Delete(t.Context(), "task-0", "")
	if err != nil || comesBack {
		t.Errorf("it is said to come back: %v, %v", comesBack, err)
	}
	if e, err := b.people().Config(t.Context()); err != nil || len(e.Config.Tasks) != 0 {
		t.Errorf("there are %+v, %v", e.Config.Tasks, err)
	}
	// What was only made is gone without a trace.
	b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{}))
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
	b.restart(changed...)
	b.tick()
	b.end()
	b.must(b.people().SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{}))
	b.restart(was...)
	b.tick()
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
			b.must(b.people().SetEnabled(t.Context(), task, n == 1, control.ChangeOptions{Provisional: provisional}))
			for range 2 {
				b.tick()
				b.end()
				b.now = b.now.Add(liveCheck)
			}
			if o := b.override(task); !o.Exists() || o.Data.Provisional != nil {
				t.Fatalf("%s, provisional %v: what differs is not kept: %+v", task, provisional, o.Data)
			}
			b.must(b.people().SetEnabled(t.Context(), task, n == 0, control.ChangeOptions{Provisional: provisional}))
			for range 2 {
				b.tick()
				b.end()
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
	b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), control.ChangeOptions{}))
	b.restart(tasks(1)...)
	for _, enabled := range []bool{false, true} {
		b.must(b.people().SetEnabled(t.Context(), "task-0", enabled, control.ChangeOptions{}))
	}
	if o := b.override("task-0").Data; len(o.Definition) == 0 {
		t.Errorf("it is %+v", o)
	}
	b.must(b.people().Delete(t.Context(), "task-0", ""))
	if e, err := b.people().Config(t.Context()); err != nil || len(e.Config.Tasks) != 0 || len(e.Problems) != 0 {
		t.Errorf("after its deletion there are %+v, %v, %v", e.Config.Tasks, e.Problems, err)
	}
}

func TestControl_RefusalsNameTheReason(t *testing.T) {
	b := newBench(t, append(tasks(1), config.Task{Name: "off", Module: "./off"})...)
	b.tick() // its run is under way
	i := b.people()
	one := func(results ...any) error {
		err, _ := results[len(results)-1].(error)
		return err
	}
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"a name twice", one(i.Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), control.ChangeOptions{})), control.ErrExists},
		{"an active task", one(i.SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{})), control.ErrActive},
		{"a task that is not there", one(i.SetEnabled(t.Context(), "nope", true, control.ChangeOptions{})), control.ErrNoTask},
		{"a run of one that is not there", one(i.Force(t.Context(), "nope", "")), control.ErrNoTask},
		{"a run of a disabled one", one(i.Force(t.Context(), "off", "")), control.ErrDisabled},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v", tt.name, tt.err)
		}
	}
	for definition, says := range map[string]string{
		`{`:            "unexpected end",
		`{"name":"x"}`: "task.module: module for the task is required",
		`{"name":"x","module":"./x","condition":{"services":{}}}`:                                            "either the regexp or names field must be configured",
		`{"name":"x","module":"./x","condition":{"consul_kv":{"path":"a"},"schedule":{"cron":"* * * * *"}}}`: "expected only one condition but got 2",
		`{"name":"x","module":"./x","bogus":1}`:                                                              `task.bogus: invalid key "bogus"`,
		`{"name":"x","module":"` + strings.Repeat("x", 65<<10) + `"}`:                                        "bytes long",
	} {
		_, _, err := i.Create(t.Context(), json.RawMessage(definition), control.ChangeOptions{})
		if wrong := (config.Errors)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s says %v, want %s", definition, err, says)
		}
	}
	if e, err := i.Config(t.Context()); err != nil || len(e.Overrides) != 0 || len(e.Config.Tasks) != 2 {
		t.Errorf("something was changed: %+v, %v", e, err)
	}
}

func TestReset_RemovesEveryOverrideAndReturnsThem(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.settle()
	i := b.people()
	b.must(i.Create(t.Context(), json.RawMessage(made), control.ChangeOptions{By: "a test"}))
	b.must(i.SetEnabled(t.Context(), "task-1", false, control.ChangeOptions{By: "a test"}))
	b.must(b.store.Apply(t.Context(), state.Create(state.OverrideKey("broken"), []byte("{"))))
	forgotten, err := i.Reset(t.Context())
	b.must(err)
	var of []string
	for _, o := range forgotten {
		of = append(of, o.Task)
	}
	if want := []string{"broken", "made", "task-1"}; !slices.Equal(of, want) {
		t.Errorf("the overrides of %v were removed, want %v", of, want)
	}
	if e, err := i.Config(t.Context()); err != nil || len(e.Overrides) != 0 || len(e.Config.Tasks) != 2 || !e.Config.Tasks[1].Enabled {
		t.Errorf("after it: %+v, %v", e, err)
	}
}
