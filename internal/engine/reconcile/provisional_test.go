package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// people returns what people ask of the bench's engine.
func (b *bench) people() *control.Control {
	return &control.Control{Store: b.store, Now: func() time.Time { return b.now }, Poll: time.Millisecond,
		Base: func(context.Context) (*config.Config, error) { return b.Config, nil }}
}

// at has something happen in the midst of what the bench's reconciler does next.
func (b *bench) at(request string, happens func()) {
	b.Store = &statetest.Moment{Store: b.store, Request: request, Happens: happens}
}

func (b *bench) override(task string) state.Stored[state.Override] {
	b.t.Helper()
	o, err := state.Read[state.Override](b.t.Context(), b.store, state.OverrideKey(task))
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

// must fails the test for an error; what else a call returns is of no interest.
func (b *bench) must(results ...any) {
	b.t.Helper()
	if err, ok := results[len(results)-1].(error); ok && err != nil {
		b.t.Fatal(err)
	}
}

// begun returns how often runs of the task were launched.
func (b *bench) begun(task string) int {
	n := 0
	for _, launch := range b.launcher.launches() {
		for _, run := range launch.Runs {
			if run.Task == task {
				n++
			}
		}
	}
	return n
}

const made = `{"name":"made","module":"./made","condition":{"services":{"names":["web"]}}}`

func TestTick_TaskDisabledOrDeletedMeanwhileIsNotRun(t *testing.T) {
	for what, change := range map[string]func(*bench, string) error{
		"disabled": func(b *bench, task string) error {
			_, err := b.people().SetEnabled(t.Context(), task, false, control.ChangeOptions{By: "a test"})
			return err
		},
		"deleted": func(b *bench, task string) error {
			_, err := b.people().Delete(t.Context(), task, "a test")
			return err
		},
		"forgotten": func(b *bench, _ string) error {
			_, err := b.people().Reset(t.Context())
			return err
		},
	} {
		for _, request := range []string{"list override/", "list summary/", "get task/", "write task/", "write launch/"} {
			t.Run(what+" before "+request, func(t *testing.T) {
				b := newBench(t, tasks(2)...)
				b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{}))
				b.settle()
				for _, task := range []string{"task-0", "made"} {
					if what == "forgotten" && task != "made" {
						continue
					}
					b.launcher.forget()
					b.catalog.set("after "+task, nil)
					b.effective = nil // it reads the overrides anew
					b.at(request, func() {
						if err := change(b, task); err != nil {
							t.Fatal(err)
						}
					})
					b.tick()
					b.Store = b.store
					if n := b.begun(task); n != 0 {
						t.Errorf("%s was begun", task)
					}
					if b.tick(); b.begun("task-1") != 1 {
						t.Errorf("another task was begun %d times", b.begun("task-1"))
					}
					b.end(state.RunSucceeded, "after "+task)
					b.now = b.now.Add(liveCheck)
					b.tick()
					if n := b.begun(task); n != 0 {
						t.Errorf("%s was begun later", task)
					}
					if kind := b.task(task).Reason.Code; kind != state.ReasonDisabled && kind != state.ReasonRemoved && (what != "deleted" || kind != "") {
						t.Errorf("%s is %s", task, kind)
					}
				}
			})
		}
	}
}

func TestTick_ChangesMadeMeanwhileAreKept(t *testing.T) {
	for _, request := range []string{"list override/", "list summary/", "get task/", "write task/", "write reconcile/"} {
		for _, provisional := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, provisional %v", request, provisional), func(t *testing.T) {
				all := tasks(3)
				all[1].Enabled = false
				b := newBench(t, all...)
				b.must(b.people().SetEnabled(t.Context(), "task-2", false, control.ChangeOptions{})) // so that there are overrides
				b.settle()
				b.must(b.people().Tick(t.Context())) // and something to do
				b.effective = nil
				b.at(request, func() {
					opts := control.ChangeOptions{By: "a test", Provisional: provisional}
					b.must(b.people().Create(t.Context(), json.RawMessage(made), opts))
					b.must(b.people().SetEnabled(t.Context(), "task-1", true, opts))
				})
				b.catalog.set("B", nil)
				b.tick()
				b.Store = b.store
				b.launcher.status = nil
				for range 3 {
					b.tick()
				}
				for _, task := range []string{"made", "task-1"} {
					record := b.task(task)
					switch {
					case provisional && (record.Run == nil || record.Reason.Code != state.ReasonForced && record.Reason.Code != state.ReasonRunning || b.begun(task) != 1):
						t.Errorf("%s is to be run and reads %+v", task, record)
					case !provisional && (record.Reason.Code != state.ReasonHeld || record.Stop == nil || record.Stop.For.Observed != "B" || b.begun(task) != 0):
						t.Errorf("%s is to be held and reads %+v", task, record)
					}
				}
				b.end(state.RunSucceeded, "B")
				b.now = b.now.Add(liveCheck)
				b.tick()
				if b.override("made").Data.Provisional != nil || b.override("task-1").Data.Provisional != nil {
					t.Error("the provisional changes are not settled")
				}
				b.end(state.RunSucceeded, "B")
				b.now = b.now.Add(liveCheck)
				if b.tick(); !b.tick().Idle {
					t.Error("it finds no rest")
				}
			})
		}
	}
}

// A program makes and changes tasks through the API, one after the other.
func TestTick_ChangesOfOneTaskKeepNoOtherFromRunning(t *testing.T) {
	b := newBench(t, eachItsOwn(3)...)
	b.Config.Tasks[1].After = []string{"task-2"}
	b.settleInOrder()
	b.launcher.forget()
	enabled := true
	b.catalog.after = func(*catalog) { // while the tick reads Consul
		enabled = !enabled
		b.must(b.people().SetEnabled(t.Context(), "task-0", enabled, control.ChangeOptions{By: "ci"}))
	}
	b.shows("B", b.Config.Tasks[1])
	if b.tick(); b.begun("task-1") != 1 || b.begun("task-0") != 0 {
		t.Fatalf("task-1 was begun %d times, task-0 %d times: %+v", b.begun("task-1"), b.begun("task-0"), b.task("task-1").Reason)
	}
	b.shows("C", b.Config.Tasks[2])
	if b.tick(); b.begun("task-2") != 1 {
		t.Errorf("task-2 was begun %d times: %+v", b.begun("task-2"), b.task("task-2").Reason)
	}
	b.catalog.after = nil
	if b.must(b.people().SetEnabled(t.Context(), "task-0", !enabled, control.ChangeOptions{By: "ci"})); !b.tick().Again && b.task("task-0").Run != nil {
		t.Errorf("%+v", b.task("task-0"))
	}
}

func TestProvisionalChange_ItsOwnRunDecides(t *testing.T) {
	disabled := func(b *bench) {
		b.must(b.people().SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{By: "before"}))
		b.tick()
		b.must(b.people().SetEnabled(t.Context(), "task-0", true, control.ChangeOptions{By: "now", Provisional: true}))
	}
	create := func(b *bench) {
		b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), control.ChangeOptions{By: "now", Provisional: true}))
	}
	inPlace := func(b *bench) {
		b.must(b.people().Delete(t.Context(), "task-0", "before"))
		b.tick()
		create(b)
	}
	for _, tt := range []struct {
		name    string
		files   int
		change  func(*bench)
		outcome state.RunState
		after   string // the override, in words
		tasks   string // that there are, in their order
	}{
		{"made", 0, create, state.RunSucceeded, "made by now", "task-0 of the API"},
		{"made, and its run fails", 0, create, state.RunFailed, "", ""},
		{"made, and its run is lost", 0, create, state.RunLost, "", ""},
		{"made in the place of a file's", 1, inPlace, state.RunSucceeded, "made by now", "task-0 of the API"},
		{"made in the place of a file's, and its run fails", 1, inPlace, state.RunFailed, "deleted, until its block in the file is changed by before", ""},
		{"enabled as the file says", 1, disabled, state.RunSucceeded, "", "task-0"},
		{"enabled, and its run fails", 1, disabled, state.RunFailed, "disabled by before", "task-0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tasks(tt.files)...)
			b.settle()
			b.launcher.forget()
			tt.change(b)
			if o := b.override("task-0").Data; o.Provisional == nil {
				t.Fatalf("not provisional: %+v", o)
			}
			if b.tick(); b.begun("task-0") != 1 || b.override("task-0").Data.Provisional == nil {
				t.Fatalf("begun %d times: %+v", b.begun("task-0"), b.override("task-0").Data)
			}
			b.end(tt.outcome, "A")
			b.now = b.now.Add(liveCheck)
			b.tick()
			got := ""
			if o := b.override("task-0"); o.Exists() {
				got = o.Data.String() + " by " + o.Data.By
			}
			if got != tt.after {
				t.Errorf("what is kept is %q, want %q", got, tt.after)
			}
			var names []string
			for _, task := range b.effective.Config.Tasks {
				if names = append(names, task.Name); task.FromAPI {
					names = append(names, "of the API")
				}
			}
			if strings.Join(names, " ") != tt.tasks || b.begun("task-0") != 1 {
				t.Errorf("tasks %v, begun %d times", names, b.begun("task-0"))
			}
			b.now = b.now.Add(time.Hour)
			if b.tick(); tt.outcome != state.RunSucceeded && b.begun("task-0") != 1 {
				t.Error("it is tried again")
			}
		})
	}
}

func TestProvisionalChange_RunOfAnEarlierChangeDoesNotDecide(t *testing.T) {
	b := newBench(t)
	b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{Provisional: true}))
	b.tick()
	b.end(state.RunFailed, "")
	b.now = b.now.Add(liveCheck)
	b.at("write override/", func() { // the leader is about to take it back
		b.must(b.people().Delete(t.Context(), "made", "another"))
		b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{By: "another", Provisional: true}))
	})
	b.tick()
	if o := b.override("made").Data; o.Provisional == nil || o.By != "another" || b.begun("made") != 2 {
		t.Fatalf("the second provisional change is %+v, %d runs", o, b.begun("made"))
	}
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()
	if o := b.override("made"); !o.Exists() || o.Data.Provisional != nil {
		t.Errorf("after its run it reads %+v", o.Data)
	}
}

func TestProvisionalChange_TaskMissingForAWhileStillRuns(t *testing.T) {
	all := tasks(2)
	b := newBench(t, all...)
	b.settle()
	b.launcher.forget()
	b.must(b.people().SetEnabled(t.Context(), "task-1", true, control.ChangeOptions{By: "a test", Provisional: true}))
	b.Config, b.effective = &config.Config{KeepRemoved: keptRemoved, Tasks: all[:1]}, nil
	b.tick()
	if kind := b.task("task-1").Reason.Code; kind != state.ReasonRemoved {
		t.Fatalf("it is %s", kind)
	}
	b.Config, b.effective = &config.Config{KeepRemoved: keptRemoved, Tasks: all}, nil
	b.tick()
	if n := b.begun("task-1"); n != 1 {
		t.Errorf("begun %d times", n)
	}
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	if b.tick(); b.override("task-1").Data.Provisional != nil || b.begun("task-1") != 1 {
		t.Errorf("begun %d times, %+v", b.begun("task-1"), b.override("task-1").Data)
	}
}

func TestProvisionalChange_NoneForATaskCreatedDisabled(t *testing.T) {
	b := newBench(t)
	b.must(b.people().Create(t.Context(), json.RawMessage(strings.Replace(made, "{", `{"enabled":false,`, 1)), control.ChangeOptions{Provisional: true}))
	b.tick()
	if o := b.override("made").Data; o.Provisional != nil || b.begun("made") != 0 || b.task("made").Reason.Code != state.ReasonDisabled {
		t.Errorf("%+v, begun %d times, %+v", o, b.begun("made"), b.task("made"))
	}
	b.must(b.people().SetEnabled(t.Context(), "made", true, control.ChangeOptions{Provisional: true}))
	if b.tick(); b.begun("made") != 1 {
		t.Errorf("begun %d times", b.begun("made"))
	}
	b.end(state.RunFailed, "")
	b.now = b.now.Add(liveCheck)
	b.tick()
	if o := b.override("made").Data; len(o.Definition) == 0 || o.Enabled != nil || o.Provisional != nil {
		t.Errorf("taken back it reads %+v", o)
	}
}

func TestProvisionalChange_RunThatReplacesALostOneDecides(t *testing.T) {
	b := newBench(t)
	b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{Provisional: true}))
	b.tick()
	launch := b.launcher.launches()[0].ID
	b.launcher.status = map[string]LaunchStatus{launch: {Stopped: "out of memory"}}
	b.now = b.now.Add(liveCheck)
	b.tick()
	if b.begun("made") != 2 || b.task("made").Reason.Code != state.ReasonLost {
		t.Fatalf("begun %d times: %+v", b.begun("made"), b.task("made"))
	}
	b.now = b.now.Add(liveCheck)
	if b.tick(); b.override("made").Data.Provisional == nil {
		t.Error("it is settled while its run is under way")
	}
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	if b.tick(); !b.override("made").Exists() || b.override("made").Data.Provisional != nil {
		t.Errorf("after its run it reads %+v", b.override("made").Data)
	}
}

func TestProvisionalChange_RequestOfAnotherRunDoesNotDecide(t *testing.T) {
	b := newBench(t)
	b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{Provisional: true}))
	b.tick()
	b.must(b.people().Force(t.Context(), "made", "another"))
	b.end(state.RunFailed, "")
	b.now = b.now.Add(liveCheck)
	if b.tick(); b.override("made").Exists() || b.begun("made") != 1 {
		t.Errorf("begun %d times: %+v", b.begun("made"), b.override("made").Data)
	}
}

func TestLoop_LeaderAgainReadsOverridesChangedMeanwhile(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.settle()
	b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{}))
	b.must(b.people().SetEnabled(t.Context(), "task-1", false, control.ChangeOptions{}))
	b.must(b.prepareStored(t.Context()))
	if all := slices.Sorted(maps.Keys(b.force("start"))); !slices.Equal(all, []string{"made", "task-0"}) {
		t.Errorf("at its start run %v", all)
	}
}

func TestProvisionalChange_NotSettledWithAnOlderTaskRecord(t *testing.T) {
	b := newBench(t)
	b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{Provisional: true}))
	b.tick()
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	m := &statetest.Moment{Store: b.store, Request: "get task/"}
	m.Happens = func() { // the task is read now; what happens next is after that
		m.Request, m.Happens = "get reconcile/", func() {
			b.must(b.people().Delete(t.Context(), "made", "another"))
			b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{By: "another", Provisional: true}))
		}
	}
	b.Store = m
	b.tick()
	if o := b.override("made").Data; o.Provisional == nil || o.By != "another" || b.begun("made") != 2 {
		t.Errorf("the second provisional change is %+v, %d runs", o, b.begun("made"))
	}
}
