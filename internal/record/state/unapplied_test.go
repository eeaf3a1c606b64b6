package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConclude_KeepsWhatARunShouldHaveApplied(t *testing.T) {
	seen := time.Date(2026, 11, 22, 11, 0, 0, 0, time.UTC)
	decided, read := &EntryChanges{Added: 1}, &EntryChanges{Added: 1, Removed: 2}
	type step struct {
		live *LiveRun
		run  Run
		want Result // only Seen and Entries
	}
	for name, steps := range map[string][]step{
		"a failed run":    {{&LiveRun{ID: "r", Entries: decided}, Run{ID: "r", State: RunFailed, Seen: seen, Work: Work{Entries: read}}, Result{Seen: seen, Entries: read}}},
		"a rejected plan": {{&LiveRun{ID: "r"}, Run{ID: "r", State: RunCancelled, Seen: seen, Work: Work{Entries: read}}, Result{Seen: seen, Entries: read}}},
		"a run that was lost before it had read Consul": {{&LiveRun{ID: "r", Entries: decided}, Run{ID: "r", State: RunLost, Seen: seen}, Result{Seen: seen, Entries: decided}}},
		"a retry that could not read Consul": {
			{&LiveRun{ID: "r"}, Run{ID: "r", State: RunFailed, Seen: seen, Work: Work{Entries: read}}, Result{Seen: seen, Entries: read}},
			{&LiveRun{ID: "r"}, Run{ID: "r", State: RunFailed}, Result{Seen: seen, Entries: read}},
		},
		"a success": {
			{&LiveRun{ID: "r"}, Run{ID: "r", State: RunFailed, Seen: seen, Work: Work{Entries: read}}, Result{Seen: seen, Entries: read}},
			{&LiveRun{ID: "r"}, Run{ID: "r", State: RunSucceeded, Seen: seen, Work: Work{Entries: read}}, Result{}},
			{&LiveRun{ID: "r"}, Run{ID: "r", State: RunFailed}, Result{}},
		},
	} {
		var task Task
		for n, s := range steps {
			task.Run, s.run.Kind = s.live, KindApply
			task, _ = task.Conclude(s.run, "")
			if diff := cmp.Diff(s.want, Result{Seen: task.Ended.Last.Seen, Entries: task.Ended.Last.Entries}); diff != "" {
				t.Errorf("%s, run %d: %s", name, n+1, diff)
			}
		}
	}
}
