package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// throttled is a launcher that cannot be asked for the status of its launches.
type throttled struct{ *launcher }

func (throttled) Status(context.Context, []string) (map[string]LaunchStatus, error) {
	return nil, errors.New("ThrottlingException: Rate exceeded")
}

func TestTick_RunIsNotLostWhileLauncherCannotBeAsked(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.Skew = 30 * time.Second
	b.tick()
	run := b.launcher.launches()[0].Runs[0]
	b.claimed(run, "container-1")
	expires := b.run(run).Data.Expires
	answers := b.Launcher
	b.Launcher = throttled{b.launcher}

	b.now = expires.Add(b.Skew + yieldPatience - time.Second)
	b.tickAfterEnd()
	if n, got := len(b.launcher.launches()), b.run(run).Data; n != 1 || got.State != state.RunRunning {
		t.Fatalf("%d launches beside a runner that may be alive: the run reads %+v", n, got)
	}
	if due, want := b.reconcileRecord().Due, expires.Add(b.Skew+yieldPatience); due.IsZero() || due.After(want) {
		t.Errorf("the next tick is due at %s, and the run is given up at %s", due, want)
	}

	b.now = expires.Add(b.Skew + yieldPatience)
	b.tickAfterEnd()
	if n, got := len(b.launcher.launches()), b.run(run).Data; n != 2 || got.State != state.RunLost || got.Dead {
		t.Fatalf("%d launches after a runner that has yielded by now: the run reads %+v", n, got)
	}
	b.Launcher = answers
	b.end(state.RunSucceeded, "A")
	b.tickAfterEnd()

	// The runner had not yielded, and stops only now: what it applied may be older.
	for range 2 { // an event may arrive twice
		if _, err := orphan.Runs(t.Context(), b.store, orphan.Stopped{Launch: b.run(run).Data.Launch, Runner: "container-1", Why: "it exited"}, b.now); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.task("task-0"); got.Applied.Doubt == "" || !b.run(run).Data.Dead {
		t.Errorf("the task reads %+v", got)
	}
	b.launcher.forget()
	b.tickAfterEnd() // the program that marks the runs of a stopped runner starts this tick
	if got := b.task("task-0"); len(b.launcher.launches()) != 1 || got.Applied.Doubt != "" || got.Reason.Code != state.ReasonDoubt {
		t.Errorf("the task was not run again: %+v", got)
	}
	b.end(state.RunSucceeded, "A")
	b.tickAfterEnd()
	if _, err := orphan.Runs(t.Context(), b.store, orphan.Stopped{Launch: b.run(run).Data.Launch, Runner: "container-1", Why: "it exited"}, b.now); err != nil {
		t.Fatal(err)
	}
	if got := b.task("task-0"); got.Applied.Doubt != "" {
		t.Errorf("the same event has the task run once more: %+v", got)
	}
}

func TestDecide_DoubtfulTaskIsRunOnce(t *testing.T) {
	known := state.Task{Observed: state.Observed{Digest: "A", At: noon}, Applied: state.Applied{Digest: "A", At: noon, Doubt: "run r1 went on"}}
	d := decide.Decide([]decide.Input{{Task: webTask(), State: known}}, noon)[0]
	if d.Action != decide.Run || d.State.Applied.Doubt != "" {
		t.Errorf("the decision is %+v", d)
	}
	known.Stop = &state.Stop{Code: state.ReasonHeld, For: state.Attempt{Observed: "A"}}
	if d = decide.Decide([]decide.Input{{Task: webTask(), State: known}}, noon)[0]; d.Action != decide.Wait || d.State.Applied.Doubt == "" {
		t.Errorf("the decision about a held task is %+v", d)
	}
	disabled := webTask()
	disabled.Enabled, known.Stop = false, nil
	if d = decide.Decide([]decide.Input{{Task: disabled, State: known}}, noon)[0]; d.Action != decide.Wait || d.State.Applied.Doubt == "" {
		t.Errorf("the decision about a disabled task is %+v", d)
	}
}
