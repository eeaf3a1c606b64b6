package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/record/state"
	rules "github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/rules/window"
)

// daily is checked once a day.
var daily = drift.Spec{Enabled: true, Every: 24 * time.Hour, Action: drift.Report}

// missing is what a check has found.
func missing(digest string) *state.Drifted {
	return &state.Drifted{Digest: digest, Count: 1, Resources: []state.DriftedResource{{Address: "a.b", Action: "create"}}, Changes: state.Changes{Add: 1}}
}

// once is true in one of so many cases: what rapid draws is spread evenly here.
func once(t *rapid.T, n uint64, what string) bool {
	return uint64(rapid.Uint32().Draw(t, what))*0x9E3779B97F4A7C15>>32%n == 1
}

// maybe is the value in one of twelve cases.
func maybe[T any](t *rapid.T, what string, value T) (drawn T) {
	if once(t, 12, what) {
		return value
	}
	return drawn
}

func or(value, other string) string {
	if value != "" {
		return value
	}
	return other
}

// anyInput is a task in any situation, with checks for drift.
func anyInput(t *rapid.T) Input {
	task := webTask()
	if rapid.Bool().Draw(t, "hourly") {
		task = hourlyTask()
	}
	task.Enabled = !once(t, 12, "disabled")
	if once(t, 12, "approval") {
		task.Approval = rules.Spec{Rule: rules.Always}
	}
	if once(t, 12, "window") {
		w, err := window.Window{Kind: window.Deny, Schedule: "0 * * * *", Duration: 30 * time.Minute, TimeZone: "UTC"}.Parse()
		if err != nil {
			t.Fatal(err)
		}
		task.Windows = []window.Window{w}
	}
	task.Drift = daily
	s := applied()
	live := &state.LiveRun{ID: "r1", Launch: "l1", Created: noon}
	s.Applied.Definition = or(maybe(t, "definition", "old"), "def")
	s.Observed.Digest = or(maybe(t, "observed", "B"), "A")
	s.Run = maybe(t, "run", live)
	if s.Run != nil && rapid.Bool().Draw(t, "waits") {
		waits := *live
		waits.Wait = &state.Wait{For: rapid.SampledFrom([]state.WaitFor{state.WaitApproval, state.WaitWindow, state.WaitRemote}).Draw(t, "for"), ID: "w1", Since: noon}
		s.Run = &waits
	}
	s.Pending = maybe(t, "pending", &state.Pending{First: noon, Latest: noon})
	s.Forced.By = maybe(t, "forced", "somebody")
	s.Applied.Doubt = maybe(t, "doubt", "a run went on")
	s.Stop = maybe(t, "stopped", &state.Stop{Code: state.ReasonHeld, For: state.Attempt{Definition: "def", Observed: "A"}, Next: maybe(t, "next", true)})
	s.OnHold = maybe(t, "on hold", &state.OnHold{By: "ann", At: noon})
	s.Observed.Recheck = maybe(t, "recheck", true)
	s.Observed.UnreadableSince = maybe(t, "unreadable since", noon)
	s.Failing.Count = maybe(t, "failures", 1)
	s.Ended.Last = maybe(t, "last", &state.Result{State: rapid.SampledFrom([]state.RunState{state.RunInterrupted, state.RunCancelled}).Draw(t, "ended")})
	if once(t, 12, "new") {
		s.Applied.At = time.Time{}
	}
	if !once(t, 12, "no drift") {
		var found *state.Drifted
		if once(t, 2, "found") {
			found = missing("d")
		}
		s.Drift = &state.Drift{After: noon.Add(-time.Duration(rapid.IntRange(0, 48).Draw(t, "hours")) * time.Hour),
			Run: maybe(t, "check", &state.LiveRun{ID: "c1", Launch: "lc", Created: noon}), Found: found, Applied: maybe(t, "applied", "d")}
	}
	in := Input{Task: task, Definition: "def", State: s, Request: Request{Force: maybe(t, "force", "ann"), Check: rapid.Bool().Draw(t, "check")}}
	if !once(t, 12, "unread") {
		in.Observed = &Observed{Digest: or(maybe(t, "shown", "B"), "A")}
	}
	in.Unreadable = maybe(t, "unreadable", errors.New("permission denied"))
	if in.Unreadable != nil {
		in.Observed = nil
	}
	in.Blocked = maybe(t, "blocked", errors.New("no Terraform"))
	in.Paused = maybe(t, "paused", &state.Paused{By: "ann", Since: noon})
	if s.Drift != nil && s.Drift.Run != nil {
		in.EndedCheck = maybe(t, "ended check", &state.Run{ID: "c1", Task: "web", Kind: state.KindDrift, State: state.RunLost, Times: state.Times{Ended: noon}})
	}
	if s.Run != nil && s.Run.Wait == nil {
		in.Lost = maybe(t, "lost", &state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunLost, Times: state.Times{Ended: noon}})
	}
	return in
}

var butDrift = cmp.Options{cmpopts.IgnoreFields(state.Task{}, "Drift"), cmpopts.IgnoreFields(Decision{}, "Task", "EndedCheck"), cmpopts.EquateErrors()}

func TestDecide_ChecksForDriftNeverCompeteWithWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		d := Decide([]Input{in}, noon)[0]

		without := in
		task := *in.Task
		task.Drift = drift.Default
		without.Task, without.State.Drift, without.EndedCheck = &task, nil, nil
		plain := Decide([]Input{without}, noon)[0]

		was := d.Action
		if was == Check {
			d.Action = Wait
		}
		if diff := cmp.Diff(plain, d, butDrift); diff != "" {
			t.Fatalf("checks change what is decided (-without +with):\n%s", diff)
		}
		s := d.State
		switch was {
		case Run:
			if s.Drift != nil && s.Drift.Run != nil {
				t.Fatalf("a run leaves the check under way valid: %+v", s.Drift)
			}
		case Check:
			busy := s.Run != nil || s.Pending != nil || s.Forced.By != "" || s.Applied.Doubt != "" || s.Stop != nil || s.OnHold != nil || s.Failing.Count > 0 || s.Ended.Last != nil
			if busy || !task.Enabled || s.Applied.At.IsZero() || s.Observed.Digest != s.Applied.Digest || s.Applied.Definition != "def" || in.Observed == nil || in.Blocked != nil || in.Paused != nil || s.Drift.Run != nil {
				t.Fatalf("a task with something to do is checked: %+v", s)
			}
			if noon.Sub(s.Drift.After) < 0 || s.Drift.Applied == "" && s.Drift.After.Equal(noon) {
				t.Fatalf("a check before its time: %+v", s.Drift)
			}
		}
	})
}

func TestDecide_DriftIsAppliedOnlyAtRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		in.Task.Drift.Action = drift.Apply
		d := Decide([]Input{in}, noon)[0]
		without := in
		task := *in.Task
		task.Drift = drift.Default
		without.Task, without.State.Drift, without.EndedCheck = &task, nil, nil
		plain := Decide([]Input{without}, noon)[0]

		found := in.State.Drifted()
		if plain.Action != Wait && plain.Action != Note || plain.Reason.Code != state.ReasonUnchanged || found == nil {
			if d.Action == Check {
				d.Action = Wait
			}
			if d.Action != plain.Action || d.Reason != plain.Reason {
				t.Fatalf("drift changes what is decided: %v %+v, without %v %+v", d.Action, d.Reason, plain.Action, plain.Reason)
			}
		}
		if d.Action == Run && d.Reason.Code == state.ReasonDrift {
			open := !(len(task.Windows) > 0 && noon.Minute() < 30) || task.PlansFirst()
			if found == nil || found.Persists || in.State.OnHold != nil || in.State.Run != nil || !task.Enabled || in.Unreadable != nil || !open {
				t.Fatalf("drift is applied: %+v", in.State)
			}
		}
	})
}

// The properties below say nothing about checks and drift if their inputs never lead to any. The
// seeds are fixed, so that this does not depend on luck.
func TestDecide_TheInputsOfThePropertiesLeadToChecksAndDrift(t *testing.T) {
	checks, applies := 0, 0
	for seed := range 2000 {
		in := rapid.Custom(anyInput).Example(seed)
		if Decide([]Input{in}, noon)[0].Action == Check {
			checks++
		}
		in.Task.Drift.Action = drift.Apply
		if d := Decide([]Input{in}, noon)[0]; d.Action == Run && d.Reason.Code == state.ReasonDrift {
			applies++
		}
	}
	t.Logf("%d checks, %d applies", checks, applies)
	if checks < 20 || applies < 20 {
		t.Errorf("%d checks, %d runs that apply drift", checks, applies)
	}
}
