package decide

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// accepted is what alice has accepted: this input, which its condition shows alone.
func accepted(observed string) *state.Accepted {
	return &state.Accepted{Approval: state.Approval{Given: state.Given{By: "alice"}, Content: state.Content{Definition: "def", Input: "all of " + observed}}, Observed: observed}
}

func TestDecide_AcceptedLossIsThatOfTheRun(t *testing.T) {
	unbuffered := webTask()
	unbuffered.BufferPeriod.Enabled = false
	in := Input{Task: unbuffered, Definition: "def", State: applied(), Reading: Reading{Observed: &Observed{Digest: "B", Lost: &Loss{1, "gone"}}},
		Replacement: Replacement{Accepted: accepted("B")}}
	d := Decide([]Input{in}, noon)[0]
	if d.Action != Run || d.State.Accepted == nil {
		t.Fatalf("%v, %+v", d.Action, d.State)
	}
	// Other data is another loss.
	again := Input{Task: unbuffered, Definition: "def", State: applied(), Reading: Reading{Observed: &Observed{Digest: "C", Lost: &Loss{1, "gone"}}}}
	again.State.Accepted = d.State.Accepted
	if d := Decide([]Input{again}, noon)[0]; d.State.Accepted != nil {
		t.Error("an approval of other data is kept")
	}
}

func TestDecide_ReplacedConsulHoldsTasksThatLoseEntries(t *testing.T) {
	unbuffered := webTask()
	unbuffered.BufferPeriod.Enabled = false
	lost := &Observed{Digest: "B", Lost: &Loss{1, "1 of 2 service instances are gone: web-1"}}
	replaced := &state.Replaced{Why: "it is another"}
	failed := with(applied(), func(s *state.Task) { s.Failing.Count, s.Failing.RetryAt = 1, noon.Add(-time.Hour) })
	for _, c := range []struct {
		name string
		in   Input
		want state.ReasonCode
	}{
		{"a change", Input{State: applied(), Reading: Reading{Observed: lost}, Replacement: Replacement{Replaced: replaced}}, state.ReasonReplaced},
		{"forced", Input{State: applied(), Reading: Reading{Observed: lost}, Replacement: Replacement{Replaced: replaced}, Request: Request{Force: "somebody"}}, state.ReasonReplaced},
		{"retried", Input{State: failed, Reading: Reading{Observed: lost}, Replacement: Replacement{Replaced: replaced}}, state.ReasonReplaced},
		{"another definition", Input{State: applied(), Definition: "other", Reading: Reading{Observed: lost}, Replacement: Replacement{Replaced: replaced}}, state.ReasonReplaced},
		{"lost", Input{State: with(applied(), func(s *state.Task) { s.Run = &state.LiveRun{ID: "r", Launch: "l"} }),
			Dead: Dead{Lost: &state.Run{ID: "r", State: state.RunLost, Times: state.Times{Ended: noon.Add(-time.Hour)}}}, Reading: Reading{Observed: lost}, Replacement: Replacement{Replaced: replaced}}, state.ReasonReplaced},
		{"nothing is gone", Input{State: applied(), Reading: Reading{Observed: &Observed{Digest: "B"}}, Replacement: Replacement{Replaced: replaced}}, state.ReasonChanged},
		{"nothing changed", Input{State: applied(), Reading: Reading{Observed: &Observed{Digest: "A"}}, Replacement: Replacement{Replaced: replaced}}, state.ReasonUnchanged},
		{"not replaced", Input{State: applied(), Reading: Reading{Observed: lost}}, state.ReasonChanged},
	} {
		in := c.in
		in.Task = unbuffered
		if in.Definition == "" {
			in.Definition = "def"
		}
		d := Decide([]Input{in}, noon)[0]
		if d.Reason.Code != c.want || (d.Action == Run) != (c.want == state.ReasonChanged) {
			t.Errorf("%s: %v, %+v, want %s", c.name, d.Action, d.Reason, c.want)
		}
	}
}

func TestDecide_RunThatWaitsBecauseConsulWasReplacedGoesOnWhenThatIsAccepted(t *testing.T) {
	in := Input{Task: webTask(), Definition: "def", State: applied(), Reading: Reading{Observed: &Observed{Digest: "B", Lost: &Loss{1, "gone"}}}}
	in.State.Attempted = state.Attempt{Definition: "def", Observed: "B"}
	in.State.Observed.Digest = "B"
	wait := &state.Wait{For: state.WaitApproval, ID: "w", Causes: []state.Cause{{Rule: state.RuleReplaced}}, Content: &state.Content{Definition: "def", Input: "all of B", Plan: "p", State: "s"}}
	in.State.Run = &state.LiveRun{ID: "r", Launch: "l", Wait: wait, Input: "B"}
	if d := Decide([]Input{in}, noon)[0]; d.Action != Wait {
		t.Errorf("without an approval: %v", d.Action)
	}
	in.Accepted = accepted("B")
	d := Decide([]Input{in}, noon)[0]
	if d.Action != Resume || d.Resume.Approval == nil || d.Resume.Approval.Content != wait.Content.OfInput() {
		t.Errorf("%v, %+v", d.Action, d.Resume)
	}
}

func TestConclude_ApprovalOfTheInputEndsWithItsUse(t *testing.T) {
	task := state.Task{Run: &state.LiveRun{ID: "r1"}, Stops: state.Stops{Accepted: accepted("B")}}
	for name, c := range map[string]struct {
		run  state.Run
		kept bool
	}{
		"it was applied":    {state.Run{State: state.RunSucceeded, Work: state.Work{Digest: "B"}}, false},
		"another was":       {state.Run{State: state.RunSucceeded, Work: state.Work{Digest: "A"}}, true},
		"it failed":         {state.Run{State: state.RunFailed}, true},
		"it was cancelled":  {state.Run{State: state.RunCancelled}, false},
		"it was superseded": {state.Run{State: state.RunSuperseded, Waits: state.Waits{Wait: &state.Wait{}}}, true},
	} {
		c.run.ID = "r1"
		if next, _ := task.Conclude(c.run, "def"); (next.Accepted != nil) != c.kept {
			t.Errorf("%s: %+v", name, next.Accepted)
		}
	}
}
