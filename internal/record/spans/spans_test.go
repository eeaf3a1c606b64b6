package spans_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/record/spans"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

var sampler = tracing.FromEnviron(func(name string) string {
	return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}[name]
})

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// decided is a run that is decided 5 seconds after its change was seen.
func decided() state.Run {
	run := state.Run{ID: "run-1", Task: "web", Launch: "launch-1", Kind: state.KindApply, State: state.RunIntended,
		Reason: state.Reason{Code: state.ReasonChanged}, Seen: noon.Add(-5 * time.Second), Created: noon}
	run.Traced = run.NewTrace(sampler)
	return run
}

func TestTrace_IsTheSameForARepeatedDecisionAndBeginsWithTheChange(t *testing.T) {
	a, b := decided(), decided()
	if a.Traced.Root != b.Traced.Root || !a.Traced.Since.Equal(a.Seen) {
		t.Errorf("%+v and %+v", a.Traced, b.Traced)
	}
	retry := decided()
	retry.Reason.Code = state.ReasonRetry
	if got := retry.NewTrace(sampler); !got.Since.Equal(noon) {
		t.Errorf("a retry begins at %s, with the change that an earlier run was for", got.Since)
	}
	if decided().NewTrace(nil) != nil {
		t.Error("there is a trace without a sampler")
	}
}

func TestTrace_AnotherOneFollowsAWaitForAPersonAndNoOther(t *testing.T) {
	for wait, another := range map[state.WaitFor]bool{state.WaitApproval: true, state.WaitWindow: true, state.WaitRemote: false, state.WaitRemotePlan: false} {
		run := decided()
		run.State, run.Wait = state.RunWaiting, &state.Wait{For: wait, ID: "wait-1", Since: noon.Add(time.Minute)}
		if got := len(spans.Whole(run, noon)); got == 1 != another {
			t.Errorf("%s: the trace has %d first spans when the run waits", wait, got)
		}
		before := run.Trace()
		run.Traced = run.ResumedTrace(sampler, noon.Add(3*24*time.Hour))
		run.Resumed = &state.Resume{At: noon.Add(3 * 24 * time.Hour)}
		if (run.Trace() != before) != another {
			t.Errorf("%s: after the wait the trace is %s, before it was %s", wait, run.Trace(), before)
		}
		run.State, run.Ended = state.RunSucceeded, noon.Add(3*24*time.Hour+time.Second)
		whole := spans.Whole(run, noon)[0]
		if another && (len(whole.Links) != 1 || whole.Links[0].To != before || whole.End.Sub(whole.Start) != time.Second) {
			t.Errorf("%s: the first span after it is %+v", wait, whole)
		}
		claimed := spans.Claimed(run, state.Launch{Created: noon}, noon, noon)
		if got := strings.Contains(names(claimed), "wait"); got == another {
			t.Errorf("%s: after it there are %s", wait, names(claimed))
		}
	}
}

func TestWhole_SaysHowTheRunEnded(t *testing.T) {
	for _, tt := range []struct {
		state        state.RunState
		result, err_ string
	}{
		{state.RunSucceeded, "success", ""}, {state.RunFailed, "failure", "it broke"}, {state.RunLost, "error", "it broke"},
		{state.RunInterrupted, "error", "it broke"}, {state.RunCancelled, "cancellation", ""}, {state.RunSuperseded, "cancellation", ""},
	} {
		run := decided()
		run.State, run.Ended, run.Error = tt.state, noon.Add(time.Minute), "it broke"
		whole := spans.Whole(run, noon)
		if len(whole) != 1 || whole[0].Error != tt.err_ || whole[0].Parent.Valid() || whole[0].Context != run.Trace() {
			t.Fatalf("%s: %+v", tt.state, whole)
		}
		found := false
		for _, a := range whole[0].Attributes {
			found = found || a.Key == "cicd.pipeline.result" && a.Value == tt.result
		}
		if !found {
			t.Errorf("%s: the attributes are %v", tt.state, whole[0].Attributes)
		}
	}
	run := decided()
	run.State, run.Ended = state.RunSucceeded, noon.Add(time.Minute)
	if whole := spans.Whole(run, run.Ended.Add(time.Second)); !whole[0].End.Equal(run.Ended.Add(time.Second)) {
		t.Errorf("the end is recorded after %s, when the trace ends", whole[0].End)
	}
	if got := spans.Whole(decided(), noon); got != nil {
		t.Errorf("a run that has not ended has %+v", got)
	}
}

func TestClaimed_HasTheWaitOfTheChangeAndOfTheLaunch(t *testing.T) {
	run := decided()
	all := spans.Claimed(run, state.Launch{Created: noon}, noon.Add(time.Second), noon.Add(2*time.Second))
	if names(all) != "change launch claim" || all[0].End.Sub(all[0].Start) != 5*time.Second || all[1].End.Sub(all[1].Start) != time.Second {
		t.Errorf("%+v", all)
	}
	for _, s := range all {
		if s.Parent != run.Trace() {
			t.Errorf("%s has the parent %s", s.Name, s.Parent)
		}
	}
	run.Traced = nil
	if got := spans.Claimed(run, state.Launch{}, noon, noon); got != nil {
		t.Errorf("a run without a trace has %+v", got)
	}
}

func names(all []tracing.Span) string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}
