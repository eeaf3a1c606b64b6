package runner

import (
	"context"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// halfVerified is a task whose run waits for the rest of its verification, and is resumed: what is named bgp
// has failed before, and what is named vip was interrupted.
func halfVerified(t *testing.T, bgp state.VerifyState) *fixture {
	t.Helper()
	b := verified(t, fail, vip("http://192.0.2.1", verify.Hold, time.Minute))
	cfg := b.Config()
	run, err := state.Read[state.Run](t.Context(), b.store, state.RunKey("web", "r1"))
	if err != nil {
		t.Fatal(err)
	}
	next := run.Data
	next.Digest, next.Staged, next.Changes = "B", true, &state.Changes{Add: 1}
	next.Wait, next.Resumed = &state.Wait{For: state.WaitVerify, ID: "w1", Since: noon}, &state.Resume{By: "its verification", At: noon}
	next.Verifying = &state.Verifying{Since: noon, Definition: cfg.Tasks[0].Digest(cfg), Results: []state.Verified{
		{Name: "bgp", State: bgp, Holds: true}, {Name: "vip", State: state.VerifyInterrupted, Holds: true}}}
	if _, err := b.store.Apply(t.Context(), run.Write(next)); err != nil {
		t.Fatal(err)
	}
	if err := state.StageInputs(t.Context(), b.store, "web", state.Inputs{Kind: "services", Elements: map[string]string{"web-1": "x"}}); err != nil {
		t.Fatal(err)
	}
	return b
}

// The verification of a task that has another name by now continues if nothing but the name has changed. In any
// case, it is recorded that the task is applied, and what is known of its verification.
func TestVerify_ContinuesUnderTheNewName(t *testing.T) {
	renamed := func(t *config.Task) { t.Name, t.MovedFrom = "edge", []string{"before", "web"} }
	for name, tt := range map[string]struct {
		bgp     state.VerifyState
		happens func(*config.Task)
		vip     state.VerifyState // what comes of the rest; "" if it is not verified any further
		want    state.VerifyState
		held    string
	}{
		"renamed, and it works":           {state.VerifyPassed, renamed, state.VerifyPassed, state.VerifyPassed, ""},
		"renamed, and it does not work":   {state.VerifyPassed, renamed, state.VerifyFailed, state.VerifyFailed, "verification vip"},
		"renamed, with another module":    {state.VerifyPassed, func(t *config.Task) { renamed(t); t.Module = "./other" }, "", state.VerifyInterrupted, ""},
		"renamed, and a part has failed":  {state.VerifyFailed, renamed, state.VerifyPassed, state.VerifyFailed, "verification bgp"},
		"another has its name in a list":  {state.VerifyPassed, func(t *config.Task) { t.MovedFrom = []string{"web"} }, state.VerifyPassed, state.VerifyPassed, ""},
		"removed":                         {state.VerifyPassed, func(t *config.Task) { t.Name = "edge" }, "", state.VerifyInterrupted, ""},
		"removed, and a part has failed":  {state.VerifyFailed, func(t *config.Task) { t.Name = "edge" }, "", state.VerifyFailed, "verification bgp"},
		"renamed, and its block has gone": {state.VerifyPassed, func(t *config.Task) { renamed(t); t.Verify = nil }, "", state.VerifyPassed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := halfVerified(t, tt.bgp)
			asked := ""
			b.Verify = func(_ context.Context, all []verify.Spec, applied verify.Applied) (results []state.Verified) {
				for _, spec := range all {
					asked += spec.Name + " of " + applied.Task
					results = append(results, state.Verified{Name: spec.Name, State: tt.vip, Holds: true})
				}
				return results
			}
			tt.happens(&b.Config().Tasks[0])
			if err := b.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			run, task := b.stored("r1"), b.task()
			if run.State != state.RunSucceeded || run.Verification == nil || run.Verification.State != tt.want || task.Applied.Digest != "B" {
				t.Fatalf("%s %+v %s, applied: %s", run.State, run.Verification, run.Error, task.Applied.Digest)
			}
			if want := map[bool]string{true: "vip of web"}[tt.vip != ""]; asked != want {
				t.Errorf("verified %q, want %q", asked, want)
			}
			held := ""
			if task.OnHold != nil {
				held = task.OnHold.By
			}
			if held != tt.held || lifecycle.Verified(task) != (tt.want == state.VerifyPassed) {
				t.Errorf("on hold by %q, %+v", held, task.Applied.Unverified)
			}
		})
	}
}

// The process that continues a verification finds the window of the guard in the run, should the task be removed.
func TestVerify_WhatContinuesItKnowsTheWindowOfTheGuard(t *testing.T) {
	b := verified(t, succeed, vip("http://192.0.2.1", verify.Hold, time.Minute))
	b.Config().Tasks[0].Guard = guard.Default
	b.Verify = func(context.Context, []verify.Spec, verify.Applied) []state.Verified {
		return []state.Verified{{Name: "vip", State: state.VerifyInterrupted}}
	}
	run, err := state.Read[state.Run](t.Context(), b.store, state.RunKey("web", "r1"))
	if err != nil {
		t.Fatal(err)
	}
	run.Data.Staged = true // another system has applied it
	if _, err := b.store.Apply(t.Context(), run.Write(run.Data)); err != nil {
		t.Fatal(err)
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r1"); run.Verifying == nil || run.Begun == nil || run.Begun.Window != 15*time.Minute {
		t.Errorf("%+v, %+v", run.Verifying, run.Begun)
	}
}
