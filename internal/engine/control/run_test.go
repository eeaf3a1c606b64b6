package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

func TestControl_ForceDuringARunAwaitsTheNext(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	first := b.task("task-0").Run.ID
	earlier, err := b.people().Force(t.Context(), "task-0", "")
	if err != nil || earlier != (control.Earlier{Live: first}) {
		t.Fatalf("earlier than %+v, %v", earlier, err)
	}
	b.end()
	b.must(b.people().Delete(t.Context(), "task-0", "")) // and with it what was asked for
	b.tick()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if run, err := b.people().AwaitRun(ctx, "task-0", earlier); err == nil {
		t.Errorf("got %+v", run)
	}
}

func TestControl_RequestedTickFollowsSoon(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	if !b.tick().Idle {
		t.Fatal("there is something to do")
	}
	b.must(b.people().Tick(t.Context()))
	if b.tick().Idle {
		t.Error("nobody looked")
	}
	// In the midst of a tick, too.
	b.must(b.people().Tick(t.Context()))
	b.Store = &statetest.Moment{Store: b.store, Request: "write reconcile/", Happens: func() { b.must(b.people().Tick(t.Context())) }}
	if report := b.tick(); report.Due.After(b.now) || report.Due.IsZero() {
		t.Errorf("the next tick is due at %s", report.Due)
	}
	b.Store = b.store
	if b.tick().Idle {
		t.Error("nobody looked")
	}
	if !b.tick().Idle {
		t.Error("they look again and again")
	}
	// A clock that is ahead puts nothing off.
	c := b.people()
	c.Now = func() time.Time { return b.now.Add(time.Minute) }
	b.must(b.people().Tick(t.Context()))
	b.must(c.Tick(t.Context()))
	if b.tick().Idle {
		t.Error("what was due is put off")
	}
}

func TestControl_EmptyNameIsSomebody(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.must(b.people().Create(t.Context(), json.RawMessage(made), control.ChangeOptions{Provisional: true}))
	b.must(b.people().Force(t.Context(), "task-0", ""))
	b.tick()
	for _, task := range []string{"made", "task-0"} {
		if record := b.task(task); record.Run == nil || record.Reason.Text != "requested by somebody" {
			t.Errorf("%s reads %+v", task, record)
		}
	}
}

func TestControl_AwaitRunWaitsForTheRequestedRun(t *testing.T) {
	last := func(id string) *state.Result { return &state.Result{Run: id} }
	live := func(id string) *state.LiveRun { return &state.LiveRun{ID: id} }
	for name, tt := range map[string]struct {
		task    state.Task
		earlier control.Earlier
		told    bool
	}{
		"none yet":                               {state.Task{}, control.Earlier{}, false},
		"it waits for its turn":                  {state.Task{Requests: state.Requests{Forced: state.Forced{By: "x"}}, Ended: state.Ended{Last: last("r1")}}, control.Earlier{Ended: "r1"}, false},
		"it is under way":                        {state.Task{Run: live("r2"), Ended: state.Ended{Last: last("r1")}}, control.Earlier{Ended: "r1"}, false},
		"it has ended":                           {state.Task{Ended: state.Ended{Last: last("r2")}}, control.Earlier{Ended: "r1"}, true},
		"the first has ended":                    {state.Task{Ended: state.Ended{Last: last("r2")}}, control.Earlier{}, true},
		"it was lost and is run again":           {state.Task{Run: live("r3"), Ended: state.Ended{Last: last("r2")}}, control.Earlier{Ended: "r1"}, false},
		"the run before is under way":            {state.Task{Run: live("r1"), Ended: state.Ended{Last: last("r0")}}, control.Earlier{Ended: "r1"}, false},
		"the run before has ended":               {state.Task{Requests: state.Requests{Forced: state.Forced{By: "x"}}, Ended: state.Ended{Last: last("r1")}}, control.Earlier{Ended: "r1"}, false},
		"the run before was superseded":          {state.Task{Requests: state.Requests{Forced: state.Forced{By: "x"}}, Ended: state.Ended{Last: last("r0")}}, control.Earlier{Ended: "r1"}, false},
		"what was asked for was dropped by then": {state.Task{Ended: state.Ended{Last: last("r1")}}, control.Earlier{Ended: "r1"}, false},
		"and so was the run before":              {state.Task{Ended: state.Ended{Last: last("r0")}}, control.Earlier{Ended: "r0", Live: "r1"}, false},
		"both are over":                          {state.Task{Ended: state.Ended{Last: last("r2")}}, control.Earlier{Ended: "r0", Live: "r1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.must(b.store.Apply(t.Context(), state.Create(state.TaskKey("made"), state.Encode(tt.task)),
				state.Create(state.RunKey("made", "r2"), state.Encode(state.Run{ID: "r2", Kind: state.KindApply, State: state.RunSucceeded}))))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			if tt.told {
				ctx = t.Context()
			}
			defer cancel()
			settled := false
			c := b.people()
			c.Store = &statetest.Moment{Store: b.store, Request: "get override/", Happens: func() { settled = true }}
			run, err := c.AwaitRun(ctx, "made", tt.earlier)
			if (err == nil) != tt.told || tt.told && (run.ID != "r2" || !settled) {
				t.Errorf("got %+v, %v; provisional change settled: %v", run, err, settled)
			}
		})
	}
}

func TestAwaitRun_EndsIfThereWillBeNoRun(t *testing.T) {
	for what, ends := range map[string]func(*bench){
		"disabled": func(b *bench) { b.must(b.people().SetEnabled(b.t.Context(), "task-0", false, control.ChangeOptions{})) },
		"deleted":  func(b *bench) { b.must(b.people().Delete(b.t.Context(), "task-0", "")) },
		// The files of the one that leads do not have it.
		"not the leader's": func(b *bench) { b.restart(); b.removed() },
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t, tasks(1)...)
			b.settle()
			since, err := b.people().Force(t.Context(), "task-0", "")
			b.must(err)
			ends(b)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := b.people().AwaitRun(ctx, "task-0", since); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "task-0") {
				t.Errorf("told %v", err)
			}
		})
	}
	// A provisional change has its run although the task is missing for a while.
	b := newBench(t, tasks(1)...)
	b.settle()
	since, err := b.people().SetEnabled(t.Context(), "task-0", true, control.ChangeOptions{Provisional: true})
	b.must(err)
	b.restart()
	b.tick()
	b.restart(tasks(1)...)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.people().AwaitRun(ctx, "task-0", since); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a provisional change: %v", err)
	}
	// Until it is deleted.
	b.must(b.people().Delete(t.Context(), "task-0", ""))
	if _, err := b.people().AwaitRun(t.Context(), "task-0", since); err == nil || !strings.Contains(err.Error(), "task-0") {
		t.Errorf("waiting for a provisional change that is gone: %v", err)
	}
}

func TestAwaitRun_ReportsOnlyADecisionAboutTheRequest(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.launcher.begun = nil
	task, err := state.Read[state.Task](t.Context(), b.store, state.TaskKey("task-0"))
	b.must(err)
	task.Data.Reason = state.Reason{Code: state.ReasonReplaced, Text: "at an earlier tick"}
	b.must(b.store.Apply(t.Context(), task.Write(task.Data)))
	since, err := b.people().Force(t.Context(), "task-0", "Jo")
	b.must(err)
	c := b.people()
	c.Store = &statetest.Moment{Store: b.store, Request: "get task/", Happens: func() {
		b.tick()
		b.end()
	}}
	if run, err := c.AwaitRun(t.Context(), "task-0", since); err != nil || run.State != state.RunSucceeded {
		t.Errorf("%+v, %v", run, err)
	}
}

func TestControl_DisablingDropsRequests(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.launcher.begun = nil
	b.must(b.people().Force(t.Context(), "task-0", ""))
	b.must(b.people().SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{}))
	b.must(b.people().SetEnabled(t.Context(), "task-0", true, control.ChangeOptions{}))
	if b.tick(); b.launcher.begun["task-0"] != 0 || b.task("task-0").Reason.Code != state.ReasonUnchanged {
		t.Errorf("begun %d times: %+v", b.launcher.begun["task-0"], b.task("task-0").Reason)
	}
}

func TestControl_RequestsWakeTheLeader(t *testing.T) {
	b := newBench(t, tasks(1)...)
	woken := 0
	c := b.people()
	c.Wake = func(context.Context) { woken++ }
	b.must(c.Force(t.Context(), "task-0", ""))
	b.must(c.SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{}))
	b.must(c.SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{})) // it is so
	b.must(c.Tick(t.Context()))
	if woken != 3 {
		t.Errorf("woken %d times", woken)
	}
}
