package state_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestEncode_EveryRecordHasItsFormat(t *testing.T) {
	for _, data := range []any{struct{}{}, state.Task{}, state.Run{ID: "r1"}, state.Launch{}, state.Reconcile{}, state.Override{Task: "web"}} {
		if got := string(state.Encode(data)); !strings.HasPrefix(got, `{"format":1,`) && got != `{"format":1}` {
			t.Errorf("%T is written as %s", data, got)
		}
	}
}

func TestDecode_NewerRecordIsNotCorrupt(t *testing.T) {
	for value, want := range map[string]string{
		`{"format":1,"observed":{"digest":"A"}}`:     "",
		`{"format": 1, "observed": {"digest": "A"}}`: "",
		`{"observed":{"digest":"A"}}`:                "",
		`{"format":1`:                                "corrupt",
		`{"format":1,"observed":1}`:                  "corrupt",
		`{"format":"x"}`:                             "corrupt",
		`{"format":2,"observed":{"digest":"A"}}`:     "newer",
		`{"format":12,"observed":[1,2]}`:             "newer", // whatever its fields are
		`{"observed":{"digest":"A"},"format":2}`:     "newer",
		`{"observed":{"digest":"A"}, "format" : 2 }`: "newer",
	} {
		stored, err := state.Decode[state.Task](state.Record{Key: "task/web", Value: []byte(value)})
		newer, corrupt := new(state.NewerError), new(state.CorruptError)
		switch {
		case errors.As(err, &newer):
			if want != "newer" || !strings.Contains(err.Error(), "record task/web") || !strings.Contains(err.Error(), "upgrade this process") {
				t.Errorf("%s: %v", value, err)
			}
		case errors.As(err, &corrupt):
			if want != "corrupt" {
				t.Errorf("%s: %v", value, err)
			}
		case err != nil || want != "" || stored.Data.Observed.Digest != "A":
			t.Errorf("%s: %+v, %v", value, stored.Data, err)
		}
	}
}

func TestDecode_RefusesKindsAndStatesThatItDoesNotKnow(t *testing.T) {
	wait := &state.Wait{For: state.WaitApproval}
	for name, tt := range map[string]struct {
		run state.Run
		ok  bool
	}{
		"an intent":       {state.Run{Kind: state.KindApply, State: state.RunIntended}, true},
		"a waiting run":   {state.Run{Kind: state.KindDestroy, State: state.RunWaiting, Waits: state.Waits{Wait: wait}}, true},
		"no kind":         {state.Run{State: state.RunIntended}, false},
		"another kind":    {state.Run{Kind: "import", State: state.RunIntended}, false},
		"no state":        {state.Run{Kind: state.KindApply}, false},
		"another state":   {state.Run{Kind: state.KindApply, State: "paused"}, false},
		"no wait":         {state.Run{Kind: state.KindApply, State: state.RunWaiting}, false},
		"another wait":    {state.Run{Kind: state.KindApply, State: state.RunWaiting, Waits: state.Waits{Wait: &state.Wait{For: "luck"}}}, false},
		"an ended run":    {state.Run{Kind: state.KindApply, State: state.RunSuperseded, Waits: state.Waits{Wait: wait}}, true},
		"a drift check":   {state.Run{Kind: state.KindDrift, State: state.RunRunning}, true},
		"a remote run":    {state.Run{Kind: state.KindApply, State: state.RunRunning, Remote: &state.RemoteRun{Phase: state.RemoteReady}}, true},
		"another phase":   {state.Run{Kind: state.KindApply, State: state.RunRunning, Remote: &state.RemoteRun{Phase: "done"}}, false},
		"a requested one": {state.Run{Kind: state.KindPlan, State: state.RunFailed}, true},
	} {
		_, err := state.Decode[state.Run](state.Record{Key: "run/web/r1", Value: state.Encode(tt.run)})
		if corrupt := new(state.CorruptError); errors.As(err, &corrupt) == tt.ok || tt.ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunState_EveryStateIsEndedActiveOrWaiting(t *testing.T) {
	for s, want := range map[state.RunState][2]bool{ // ended, active
		state.RunIntended: {false, true}, state.RunRunning: {false, true}, state.RunWaiting: {false, false},
		state.RunSucceeded: {true, false}, state.RunFailed: {true, false}, state.RunLost: {true, false}, state.RunUnchanged: {true, false},
		state.RunInterrupted: {true, false}, state.RunCancelled: {true, false}, state.RunSuperseded: {true, false}, "": {false, false},
	} {
		if got := [2]bool{s.Ended(), s.Active()}; got != want {
			t.Errorf("%q: ended, active = %v, want %v", s, got, want)
		}
	}
}

func TestKind_SaysWhatItDoes(t *testing.T) {
	noon := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
	for kind, want := range map[state.Kind]struct{ applies, occupies bool }{
		state.KindApply: {true, true}, state.KindDestroy: {true, true}, state.KindPlan: {}, state.KindDrift: {},
	} {
		if kind.Applies() != want.applies || kind.Occupies() != want.occupies {
			t.Errorf("%s applies: %v, occupies: %v", kind, kind.Applies(), kind.Occupies())
		}
		kept := state.Run{Kind: kind, State: state.RunSucceeded, Created: noon}.KeptUntil()
		if kept.IsZero() != want.occupies {
			t.Errorf("%s is kept until %s", kind, kept)
		}
	}
	waited := state.Run{Kind: state.KindApply, State: state.RunSuperseded, Created: noon.Add(-72 * time.Hour), Times: state.Times{Ended: noon}}
	if kept := waited.KeptUntil(); !kept.After(noon) {
		t.Errorf("a superseded run is kept until %s", kept)
	}
}

func TestConclude_RemoteRunThatWasConfirmedLateIsDoubtedUnlessTheRunSucceeds(t *testing.T) {
	for s, doubted := range map[state.RunState]bool{state.RunSuperseded: true, state.RunCancelled: true, state.RunFailed: true, state.RunLost: true, state.RunSucceeded: false} {
		was := state.Task{Run: &state.LiveRun{ID: "r1"}, Observed: state.Observed{Digest: "A"}, Applied: state.Applied{Digest: "A"}}
		next, _ := was.Conclude(state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: s, ConfirmedLate: "r0",
			Waits: state.Waits{Wait: &state.Wait{For: state.WaitApproval}}, Reason: state.Reason{Code: state.ReasonChanged}}, "")
		if (next.Applied.Doubt != "") != doubted {
			t.Errorf("%s: doubt %q", s, next.Applied.Doubt)
		}
	}
}

func TestConclude_SupersededWhileItWaited(t *testing.T) {
	for code, want := range map[state.ReasonCode]bool{ // is requested again
		state.ReasonForced: true, state.ReasonDoubt: true, state.ReasonChanged: false, state.ReasonDefinition: false, state.ReasonFirst: false,
	} {
		was := state.Task{Run: &state.LiveRun{ID: "r1"}}
		next, _ := was.Conclude(state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunSuperseded,
			Waits: state.Waits{Wait: &state.Wait{For: state.WaitApproval}}, Reason: state.Reason{Code: code}}, "")
		if next.Run != nil || next.Forced.Replaces || (next.Forced.By != "") != want || !next.Observed.Recheck {
			t.Errorf("%s: %+v", code, next)
		}
	}
}
