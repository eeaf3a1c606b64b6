package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATaskIsJudgedByItsNewestRuns(t *testing.T) {
	var task Task
	var want []RunState
	for n, ended := range []RunState{RunSucceeded, RunFailed, RunLost, RunSucceeded, RunUnchanged, RunFailed, RunFailed, RunSucceeded} {
		before := slices.Clone(task.Recent)
		id := fmt.Sprintf("r%d", n)
		next, _ := task.Conclude(Run{ID: id, State: ended}, "")
		if !slices.Equal(task.Recent, before) {
			t.Fatal("what was known before is changed")
		}
		task = next
		want = append(want, ended)
		if got := want[max(0, len(want)-RecentRuns):]; !slices.Equal(task.Recent, got) || task.History[len(task.History)-1] != id {
			t.Errorf("after %d runs: %v, want %v; history %v", n+1, task.Recent, got, task.History)
		}
	}
	if n := len(task.Recent); n != RecentRuns {
		t.Errorf("%d are kept", n)
	}
}

func TestASupersededRunLeavesNothingButTheWishForAnother(t *testing.T) {
	before := Task{Definition: "def", Applied: "A", Failures: 2, History: []string{"r1"}, Recent: []RunState{RunFailed},
		Last: &Result{Run: "r1", State: RunFailed}, Run: &LiveRun{ID: "r2"}}
	after, forgotten := before.Conclude(Run{ID: "r2", State: RunSuperseded, Error: "another definition"}, "new")
	want := before
	want.Run, want.Recheck, want.Replaces, want.Forced = nil, true, true, after.Forced
	if diff := cmp.Diff(want, after); diff != "" || len(forgotten) > 0 || after.Forced == "" {
		t.Errorf("forgotten %v, %s", forgotten, diff)
	}
	before.Forced = "somebody"
	if after, _ := before.Conclude(Run{ID: "r2", State: RunSuperseded}, ""); after.Forced != "somebody" || after.Replaces {
		t.Errorf("the request of somebody is now recorded as that of %q (replaces: %v)", after.Forced, after.Replaces)
	}
}
