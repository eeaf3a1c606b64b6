package overview_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestRead_ShowsTheNewestRunsOldestFirst(t *testing.T) {
	ended := time.Date(2026, 11, 22, 10, 57, 40, 0, time.UTC)
	var task state.Task
	for _, run := range []state.Run{
		{ID: "r1", Kind: state.KindApply, State: state.RunLost, Times: state.Times{Ended: ended}},
		{ID: "r2", Kind: state.KindApply, State: state.RunSucceeded, Times: state.Times{Started: ended.Add(30 * time.Second), Ended: ended.Add(time.Minute)}, Waits: state.Waits{Waited: 10 * time.Second}},
		{ID: "r3", Kind: state.KindApply, State: state.RunSuperseded, Times: state.Times{Ended: ended.Add(time.Minute)}}, // which leaves no trace
		{ID: "r4", Kind: state.KindDestroy, State: state.RunFailed, Times: state.Times{Started: ended.Add(time.Hour), Ended: ended.Add(time.Hour)}},
	} {
		task, _ = task.Conclude(run, "")
	}
	store := newStore(t)
	write(t, store, state.TaskKey("web"), task)
	write(t, store, state.TaskKey("new"), state.Task{})
	o, err := overview.Reader{Store: store, Now: time.Now}.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*[]apispec.RecentRun{}
	for _, task := range o.Tasks {
		got[task.Name] = task.Recent
	}
	want := map[string]*[]apispec.RecentRun{"new": nil, "web": {
		{ID: "r1", State: apispec.RunStateLost, Kind: apispec.RunKindApply, Ended: ended},
		{ID: "r2", State: apispec.RunStateSucceeded, Kind: apispec.RunKindApply, Ended: ended.Add(time.Minute), Seconds: new(20.0)},
		{ID: "r4", State: apispec.RunStateFailed, Kind: apispec.RunKindDestroy, Ended: ended.Add(time.Hour), Seconds: new(0.001)},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
