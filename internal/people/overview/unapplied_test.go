package overview_test

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

func TestRead_ShowsWhatIsNotYetApplied(t *testing.T) {
	tick, runner := time.Date(2026, 11, 22, 11, 0, 0, 0, time.UTC), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	entry := func(name string) *state.EntryChanges {
		return &state.EntryChanges{Added: 1, Entries: []state.EntryChange{{Action: state.EntryAdded, Name: name, Group: "keys"}}}
	}
	pending := &state.Pending{First: tick, Entries: entry("by-the-tick")}
	failed := &state.Result{State: state.RunFailed, Seen: runner, Entries: entry("by-the-runner")}
	waits := &state.Wait{For: state.WaitApproval, Content: &state.Content{}, Causes: []state.Cause{{Rule: state.RuleInputGuard}}}
	read := state.Run{Work: state.Work{Entries: entry("by-the-runner")}, Seen: runner}
	tried := state.Attempt{Observed: "B"}
	for name, c := range map[string]struct {
		task  state.Task
		run   state.Run
		want  string
		since time.Time
	}{
		"a change that waits":           {state.Task{Requests: state.Requests{Pending: pending}, Observed: state.Observed{Digest: "B"}}, state.Run{}, "keys: +by-the-tick", tick},
		"a run that was decided":        {state.Task{Run: &state.LiveRun{ID: "r", Entries: entry("by-the-tick")}}, state.Run{State: state.RunIntended, Seen: tick}, "keys: +by-the-tick", tick},
		"a run that works":              {state.Task{Run: &state.LiveRun{ID: "r", Entries: entry("by-the-tick")}}, func() state.Run { r := read; r.State = state.RunRunning; return r }(), "keys: +by-the-runner", runner},
		"a run that a guard holds":      {state.Task{Run: &state.LiveRun{ID: "r", Wait: waits}}, func() state.Run { r := read; r.State, r.Wait = state.RunWaiting, waits; return r }(), "keys: +by-the-runner", runner},
		"a run that waits, and more":    {state.Task{Requests: state.Requests{Pending: pending}, Run: &state.LiveRun{ID: "r", Wait: waits}}, func() state.Run { r := read; r.State, r.Wait = state.RunWaiting, waits; return r }(), "keys: +by-the-tick", tick},
		"a task that fails":             {state.Task{Failing: state.Failing{Count: 1}, Attempted: tried, Ended: state.Ended{Last: failed}, Observed: state.Observed{Digest: "B"}}, state.Run{}, "keys: +by-the-runner", runner},
		"a plan that was rejected":      {state.Task{Ended: state.Ended{Last: &state.Result{State: state.RunCancelled, Rejected: true, Entries: entry("by-the-runner")}}, Observed: state.Observed{Digest: "B"}, Attempted: tried}, state.Run{}, "keys: +by-the-runner", time.Time{}},
		"a task that fails, data back":  {state.Task{Failing: state.Failing{Count: 1}, Attempted: tried, Ended: state.Ended{Last: failed}, Observed: state.Observed{Digest: "A"}}, state.Run{}, "", time.Time{}},
		"a task that was applied":       {state.Task{Applied: state.Applied{At: tick}, Observed: state.Observed{Digest: "B"}, Ended: state.Ended{Last: &state.Result{State: state.RunSucceeded}}, Attempted: tried}, state.Run{}, "", time.Time{}},
		"everything is to be destroyed": {state.Task{Run: &state.LiveRun{ID: "r", Kind: state.KindDestroy}}, state.Run{State: state.RunRunning, Seen: tick}, "", time.Time{}},
	} {
		store := newStore(t)
		write(t, store, state.TaskKey("web"), c.task)
		if c.task.Run != nil {
			c.run.ID, c.run.Task, c.run.Kind = "r", "web", state.KindApply
			write(t, store, state.RunKey("web", "r"), c.run)
		}
		effective := overlay.Compose(&config.Config{Tasks: []config.Task{{Name: "web", Enabled: true}}}, nil)
		o, err := overview.Reader{Store: store, Now: time.Now}.Read(t.Context(), effective)
		if err != nil {
			t.Fatal(err)
		}
		got := o.Tasks[0]
		if apispec.Deref(got.Changed) != c.want || !apispec.Deref(got.ChangedSince).Equal(c.since) || (got.Entries != nil) != (c.want != "") {
			t.Errorf("%s: %q since %s, want %q since %s", name, apispec.Deref(got.Changed), apispec.Deref(got.ChangedSince), c.want, c.since)
		}
	}
}
