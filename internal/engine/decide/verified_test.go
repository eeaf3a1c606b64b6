package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestRestless_TaskThatIsNotVerified(t *testing.T) {
	d := Decision{State: state.Task{Applied: state.Applied{At: time.Unix(1, 0)}}, Reason: state.Reason{Code: state.ReasonUnchanged}}
	if why := restless(d); why != nil {
		t.Fatalf("an applied task is not at rest: %v", why)
	}
	d.State.Applied.Unverified = &state.Unverified{State: state.VerifyFailed, Text: "vip failed"}
	if why := restless(d); why == nil || why.Code != state.ReasonUnverified || !stuck(d) {
		t.Errorf("what comes after a task that is not verified begins: %v", why)
	}
}

// halfVerified is a task whose verification waits for the next process.
func halfVerified() state.Task {
	return with(applied(), func(s *state.Task) {
		s.Run = &state.LiveRun{ID: "r1", Wait: &state.Wait{For: state.WaitVerify, Since: noon}}
		s.RemoteRun = &state.RemoteRun{Driver: "terraform-cloud", ID: "run-1", Version: "cv-1", Phase: state.RemoteEnded}
	})
}

// A verification that waits is continued whatever stops runs, unless everything of the task is destroyed.
func TestVerification_IsContinued(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(in *Input)
		want   Action
		as     state.RunState
	}{
		"nothing":              {func(*Input) {}, Resume, ""},
		"a pause":              {func(in *Input) { in.Paused = &state.Paused{By: "Ann"} }, Resume, ""},
		"a hold":               {func(in *Input) { in.State.OnHold = &state.OnHold{By: "Ann"} }, Resume, ""},
		"a disable":            {func(in *Input) { t := *in.Task; t.Enabled = false; in.Task = &t }, Resume, ""},
		"a window":             {func(in *Input) { w := *in.Task; w.Windows = night(t); in.Task = &w }, Resume, ""},
		"another definition":   {func(in *Input) { in.Definition = "other" }, Resume, ""},
		"new input":            {func(in *Input) { in.Observed = &Observed{Digest: "new"} }, Resume, ""},
		"another leader":       {func(in *Input) { in.State.Observed.Recheck = true; in.Observed = nil }, Resume, ""},
		"an outage of Consul":  {func(in *Input) { in.Unreadable, in.Observed = errors.New("no route to host"), nil }, Resume, ""},
		"its rename":           {func(in *Input) { in.Removed, in.MovedTo = true, "edge" }, Resume, ""},
		"its removal":          {func(in *Input) { in.Removed = true; in.State.Gone = state.Gone{Since: noon, Final: true} }, Resume, ""},
		"its removal just now": {func(in *Input) { in.Removed = true }, Wait, ""},
		"its delete":           {func(in *Input) { in.Removed, in.State.Gone.Deleted = true, &state.Deletion{} }, Resume, ""},
		"its block is wrong":   {func(in *Input) { in.Removed, in.Blocked = true, errors.New("no module") }, Resume, ""},
		"perhaps its rename": {func(in *Input) {
			in.Removed, in.Destroy, in.Kept = true, true, "perhaps it was renamed to edge"
			in.State.Gone = state.Gone{Since: noon, Final: true}
		}, Resume, ""},
		"its destroy": {func(in *Input) { in.State.RequestDestroy("Ann", "", noon) }, End, state.RunSuperseded},
		"its removal with a destroy": {func(in *Input) {
			in.Removed, in.Destroy = true, true
			in.State.Gone = state.Gone{Since: noon, Final: true}
		}, End, state.RunSuperseded},
	} {
		in := Input{Task: webTask(), Definition: "def", State: halfVerified(), Reading: Reading{Observed: &Observed{Digest: "A"}}, Elsewhere: Elsewhere{Driver: "terraform-cloud"}}
		tt.change(&in)
		if d := Decide([]Input{in}, noon)[0]; d.Action != tt.want || d.EndAs != tt.as || d.Action == Resume && d.Kind != state.KindApply {
			t.Errorf("%s: action %v as %q because of %+v", name, d.Action, d.EndAs, d.Reason)
		}
	}
}

// What comes after a task waits until its verification has ended.
func TestVerification_TasksThatComeAfterWaitForItsEnd(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"it is verified now":                        func(in *Input) { in.State.Run = &state.LiveRun{ID: "r1"} },
		"it waits for the rest of its verification": func(in *Input) { in.State = halfVerified(); in.Driver = "terraform-cloud" },
		"it was renamed meanwhile": func(in *Input) {
			in.State, in.Driver, in.Removed, in.MovedTo = halfVerified(), "terraform-cloud", true, "edge"
		},
	} {
		c := afterEntry("fire*", change)
		if d := c.decide()["lb"]; d.Action != Wait || d.Reason.Code != state.ReasonAfter || d.State.After.Stuck {
			t.Errorf("%s: action %v because of %+v, %+v", name, d.Action, d.Reason, d.State.After)
		}
	}
}
