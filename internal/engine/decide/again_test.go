package decide

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
)

// A person approves what a guard holds, or time does: the tick at that time is due.
func TestDecide_WhatAGuardHoldsIsJudgedAgainInTime(t *testing.T) {
	again := noon.Add(10 * time.Minute)
	task := webTask()
	task.Rules.Guard = guard.Default
	s := with(applied(), func(s *state.Task) {
		s.Observed.Digest, s.Attempted = "B", state.Attempt{Definition: "def", Observed: "B"}
		s.Run = &state.LiveRun{ID: "r", Input: "B", Wait: &state.Wait{For: state.WaitApproval, ID: "w", Since: noon, Again: again,
			Causes: []state.Cause{{Rule: state.RuleInputGuard, Text: "too many are gone"}}, Content: &state.Content{Definition: "def", Input: "B"}, Rules: task.RulesDigest()}}
	})
	for at, want := range map[time.Time]Action{noon: Wait, again.Add(-time.Second): Wait, again: End, again.Add(time.Hour): End,
		noon.Add(-time.Hour): End, // the clock was ahead when it was judged
	} {
		d := Decide([]Input{{Task: task, Definition: "def", State: s, Reading: Reading{Observed: &Observed{Digest: "B"}}}}, at)[0]
		if d.Action != want {
			t.Errorf("at %s: %+v", at, d.Reason)
		}
		if want == Wait && !d.State.Due.Equal(again) {
			t.Errorf("it is due at %s, want %s", d.State.Due, again)
		}
		if want == End && d.EndAs != state.RunSuperseded {
			t.Errorf("it ends as %s", d.EndAs)
		}
	}
}

// A peak of a clock that was ahead counts for no longer than one of now.
func TestDecide_AClockThatWasAheadDoesNotHoldForLonger(t *testing.T) {
	s := with(applied(), func(s *state.Task) {
		s.Applied.Counts = []state.Count{{Of: "service instances", Applied: 30, Now: 30, Peaks: state.Peaks{{Count: 60, Until: noon.Add(5 * time.Hour)}}}}
	})
	d := Decide([]Input{{Task: webTask(), Definition: "def", State: s, Skew: time.Minute, Reading: Reading{Observed: &Observed{Digest: "A"}}}}, noon)[0]
	if got := d.State.Applied.Counts[0].Peaks[0].Until; got.After(noon.Add(time.Minute)) {
		t.Errorf("until %s", got)
	}
}

// A plan that a guard holds is judged again in time. If another plan must wait then, all approvals are needed again.
func TestDecide_WhatIsJudgedAgainNeedsAllApprovalsAgain(t *testing.T) {
	again := noon.Add(10 * time.Minute)
	task := webTask()
	task.Rules.Guard, task.Rules.Approval = guard.Default, approval.Spec{Require: 2}
	ann := state.Given{By: "token:ann", Authenticated: true, At: noon}
	bob := state.Given{By: "token:bob", Authenticated: true, At: noon}
	content := state.Content{Definition: "def", Input: "B", Plan: "p"}
	waiting := func(id string, given ...state.Given) state.Task {
		return with(applied(), func(s *state.Task) {
			s.Observed.Digest, s.Attempted = "B", state.Attempt{Definition: "def", Observed: "B"}
			s.Run = &state.LiveRun{ID: id, Input: "B", Approvals: given, Wait: &state.Wait{For: state.WaitApproval, ID: "w" + id, Since: noon, Again: again, Needs: 2,
				Causes: []state.Cause{{Rule: state.RuleInputGuard, Text: "too many are gone"}}, Content: &content, Rules: task.RulesDigest()}}
		})
	}
	decide := func(s state.Task, at time.Time) Decision {
		return Decide([]Input{{Task: task, Definition: "def", State: s, Reading: Reading{Observed: &Observed{Digest: "B"}}}}, at)[0]
	}
	if d := decide(waiting("r", ann), again.Add(-time.Second)); d.Action != Wait || len(d.State.Run.Approvals) != 1 {
		t.Errorf("before that, the approval of ann is kept: %+v", d)
	}
	d := decide(waiting("r", ann), again)
	if d.Action != End || d.EndAs != state.RunSuperseded {
		t.Fatalf("%+v", d.Reason)
	}
	next := d.State
	next, _ = next.Conclude(state.Run{ID: "r", Kind: state.KindApply, State: state.RunSuperseded}, "")
	if d = decide(next, again); d.Action != Run || d.State.Run != nil || d.State.Accepted != nil {
		t.Errorf("the task is not planned again, or with the approval of ann: %+v", d)
	}
	// Both had approved before that: they have approved what was judged then.
	both := waiting("r")
	a := state.ApprovalOf(content, []state.Given{ann, bob})
	both.Run.Resume = &state.Resume{By: a.Names(), At: noon, Approval: &a}
	if d = decide(both, noon); d.Action != Resume {
		t.Errorf("%+v", d)
	}
}
