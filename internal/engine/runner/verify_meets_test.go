package runner

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/rules/window"
)

// meets is a task in whose verification something happens; then the verification ends like this.
func meets(t *testing.T, how state.VerifyState, happens func(b *fixture)) *fixture {
	b := verified(t, succeed, vip("http://192.0.2.1", verify.Hold, time.Minute))
	b.Verify = func(_ context.Context, all []verify.Spec, _ verify.Applied) []state.Verified {
		happens(b)
		return []state.Verified{{Name: all[0].Name, State: how, Holds: true}}
	}
	return b
}

// A verification does not apply anything: what stops runs does not end it, and is in force after it.
func TestVerify_WhatStopsTheNextRunDoesNotEndIt(t *testing.T) {
	by := state.OnHold{By: "Ann", At: noon, Comment: "work on the rack"}
	for name, happens := range map[string]func(b *fixture){
		"a pause begins": func(b *fixture) {
			rec, err := state.ReadReconcile(b.t.Context(), b.store)
			if err == nil {
				rec.Data.Paused = &state.Paused{By: "Ann", Since: noon}
				_, err = b.store.Apply(b.t.Context(), rec.Write(rec.Data))
			}
			if err != nil {
				b.t.Error(err)
			}
		},
		"the window closes": func(b *fixture) {
			night, err := window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: time.Hour, TimeZone: "UTC"}.Parse()
			if err != nil {
				b.t.Error(err)
			}
			b.Config().Tasks[0].Windows = []window.Window{night}
		},
		"a person puts it on hold": func(b *fixture) {
			task := b.task()
			task.PutOnHold(by)
			b.set(task)
		},
		"it is disabled":                   func(b *fixture) { b.Config().Tasks[0].Enabled = false },
		"another definition is pushed":     func(b *fixture) { b.Config().Tasks[0].Module = "./other" },
		"a person requests its destroy":    func(b *fixture) { task := b.task(); task.RequestDestroy("Ann", "", noon); b.set(task) },
		"a person requests another run":    func(b *fixture) { task := b.task(); task.RequestRun("Ann"); b.set(task) },
		"its file is gone for a moment":    func(b *fixture) { task := b.task(); task.Missing(noon, noon, false); b.set(task) },
		"another leader writes its record": func(b *fixture) { task := b.task(); task.Observed.Recheck = true; b.set(task) },
	} {
		for _, how := range []state.VerifyState{state.VerifyPassed, state.VerifyFailed} {
			b := meets(t, how, happens)
			if err := b.run(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			run, task := b.stored("r1"), b.task()
			if run.State != state.RunSucceeded || run.Verification.State != how || task.Applied.Digest != "B" || lifecycle.Verified(task) != (how == state.VerifyPassed) {
				t.Errorf("%s: %s, %+v, the task reads %+v", name, run.State, run.Verification, task)
			}
			switch held := task.OnHold; {
			case name == "a person puts it on hold":
				if held == nil || *held != by {
					t.Errorf("%s, and afterwards it is on hold by %+v", name, held)
				}
			case how == state.VerifyFailed && (held == nil || held.By != "verification vip"), how == state.VerifyPassed && held != nil:
				t.Errorf("%s: %s, on hold by %+v", name, how, held)
			}
			if name == "a person requests its destroy" && task.Destroy == nil || name == "a person requests another run" && task.Forced.By == "" {
				t.Errorf("%s, and it is forgotten", name)
			}
		}
	}
}

// A process that dies while it verifies proves nothing: another one applies and verifies again.
func TestVerify_AnotherProcessTakesOver(t *testing.T) {
	b := meets(t, state.VerifyPassed, func(b *fixture) { b.giveUp("r1") })
	if err := b.run(t.Context()); !errors.Is(err, errTaken) {
		t.Fatalf("the run that was given up ends with %v", err)
	}
	if run, task := b.stored("r1"), b.task(); run.State != state.RunLost || run.Verification != nil || task.Applied.Digest != "A" || task.Applied.Doubt == "" {
		t.Fatalf("%s %+v, the task reads %+v", run.State, run.Verification, task)
	}
	b.Verify = func(_ context.Context, all []verify.Spec, _ verify.Applied) []state.Verified {
		return []state.Verified{{Name: all[0].Name, State: state.VerifyFailed}}
	}
	b.intendNext("r2")
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); task.Applied.Digest != "B" || lifecycle.Verified(task) {
		t.Errorf("the task reads %+v", task)
	}
}

// What could not be saved, or was not applied, is not verified; the state is saved by the next run, which is.
func TestVerify_OnlyWhatIsAppliedAndSaved(t *testing.T) {
	asked := 0
	b := meets(t, state.VerifyPassed, func(*fixture) { asked++ })
	before := b.task()
	before.Applied.Unverified = &state.Unverified{State: state.VerifyFailed, Text: "vip failed", Names: "vip", Run: "r0", Since: noon}
	before.Drift = &state.Drift{Found: &state.Drifted{}}
	b.set(before)
	b.Driver = fake{unsaved: &state.Unsaved{State: "s", Place: "here"}, apply: func(context.Context, io.Writer) (*state.Changes, error) {
		return &state.Changes{Add: 1}, errors.New("the bucket does not answer")
	}}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run, task := b.stored("r1"), b.task(); asked != 0 || run.Verification != nil || task.Unsaved == nil || task.Applied.Unverified == nil {
		t.Fatalf("verified %d times, %+v; the task reads %+v", asked, run.Verification, task)
	}
	b.Driver = fake{apply: succeed}
	b.intendNext("r2")
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); asked != 1 || task.Unsaved != nil || !lifecycle.Verified(task) {
		t.Errorf("verified %d times; the task reads %+v", asked, task)
	}
}

// The next run is given to the instance that keeps a state. What is lost, no instance has.
func TestRun_InstanceIsRecordedWithAStateThatItKeeps(t *testing.T) {
	for name, test := range map[string]struct {
		unsaved  state.Unsaved
		instance bool
	}{
		"kept": {state.Unsaved{State: "s", Place: "here"}, true},
		"lost": {state.Unsaved{}, false},
	} {
		b := newFixture(t, nil)
		b.Driver = fake{apply: fail, unsaved: &test.unsaved}
		b.ID, b.Instance = "", "cts-02"
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		keeper := b.task().Keeper()
		if u := b.task().Unsaved; u == nil || u.Run != "r1" || u.Runner != "cts-02" || u.Instance != test.instance || (keeper != "") != test.instance {
			t.Errorf("%s: %+v, to be run by %q", name, u, keeper)
		}
	}
}

// Each failure puts the task on hold, until somebody releases it; only a run that is verified ends the phase.
func TestVerify_TwoRunsInARowWithHold(t *testing.T) {
	how := state.VerifyFailed
	b := meets(t, "", func(*fixture) {})
	b.Verify = func(_ context.Context, all []verify.Spec, _ verify.Applied) []state.Verified {
		return []state.Verified{{Name: all[0].Name, State: how, Holds: true, Detail: "answered 502"}}
	}
	for _, id := range []string{"r1", "r2"} {
		if id != "r1" {
			b.intendNext(id)
		}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		task := b.task()
		if task.OnHold == nil || task.OnHold.By != "verification vip" || !strings.Contains(task.OnHold.Comment, "502") || task.Applied.Unverified.Run != id || !task.Applied.Unverified.Since.Equal(noon) {
			t.Fatalf("after %s: on hold %+v, %+v", id, task.OnHold, task.Applied.Unverified)
		}
		task.Release()
		b.set(task)
	}
	how = state.VerifyPassed
	b.intendNext("r3")
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if task := b.task(); task.OnHold != nil || !lifecycle.Verified(task) {
		t.Errorf("after a run that is verified: %+v, %+v", task.OnHold, task.Applied.Unverified)
	}
}
