package state_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

func TestOnlyASuccessfulRunChangesWhatIsApplied(t *testing.T) {
	was := state.Task{Applied: state.Applied{Definition: "old", Digest: "A", At: noon.Add(-time.Hour)}, Observed: state.Observed{Digest: "B"}, Failing: state.Failing{Count: 2},
		Run: &state.LiveRun{ID: "r1"}, Ended: state.Ended{IDs: []string{"r0"}}}
	for _, tt := range []struct {
		outcome  state.RunState
		applied  string
		failures int
		retry    time.Time
	}{
		{state.RunSucceeded, "C", 0, time.Time{}},
		{state.RunFailed, "A", 3, noon.Add(state.Backoff("web", 3))},
		{state.RunLost, "A", 3, noon.Add(state.Backoff("web", 2))},
		{state.RunUnchanged, "A", 2, time.Time{}},
	} {
		t.Run(string(tt.outcome), func(t *testing.T) {
			next, _ := was.Conclude(state.Run{ID: "r1", Task: "web", State: tt.outcome, Work: state.Work{Digest: "C"}, Times: state.Times{Ended: noon}}, "new")
			if next.Applied.Digest != tt.applied || next.Failing.Count != tt.failures || !next.Failing.RetryAt.Equal(tt.retry) {
				t.Errorf("applied %q, %d failures, retry at %s", next.Applied.Digest, next.Failing.Count, next.Failing.RetryAt)
			}
			if (next.Applied.Definition == "new") != (tt.outcome == state.RunSucceeded) {
				t.Errorf("the definition is %q", next.Applied.Definition)
			}
			if next.Run != nil || !next.Observed.Recheck || next.Ended.Last.Run != "r1" {
				t.Errorf("the run has not ended: %+v", next)
			}
			if diff := cmp.Diff(state.IDs{"r0", "r1"}, next.Ended.IDs); diff != "" {
				t.Error(diff)
			}
			if len(was.Ended.IDs) != 1 || was.Run == nil {
				t.Error("the state before was changed")
			}
		})
	}
}

func TestTheFirstLostRunIsMadeGoodAtOnce(t *testing.T) {
	next, _ := state.Task{}.Conclude(state.Run{Task: "web", State: state.RunLost, Times: state.Times{Ended: noon}}, "")
	if !next.Failing.RetryAt.Equal(noon) || next.Failing.Count != 1 {
		t.Errorf("retry at %s after %d failures", next.Failing.RetryAt, next.Failing.Count)
	}
}

func TestTheEndOfAnotherRunLeavesTheLiveOne(t *testing.T) {
	was := state.Task{Run: &state.LiveRun{ID: "r2"}}
	next, _ := was.Conclude(state.Run{ID: "r1", Task: "web", State: state.RunUnchanged, Times: state.Times{Ended: noon}}, "")
	if next.Run == nil || next.Observed.Recheck {
		t.Errorf("%+v", next)
	}
}

func TestTextsAreCutBetweenCharacters(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("é", state.MaxText), "x" + strings.Repeat("é", state.MaxText)} {
		got := state.Cut(text)
		if !utf8.ValidString(got) || len(got) > state.MaxText+len(" …") || !strings.HasPrefix(text, strings.TrimSuffix(got, " …")) {
			t.Errorf("%d bytes were cut to %d: %q", len(text), len(got), got[max(0, len(got)-10):])
		}
	}
	if got := state.Cut("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}

func TestAnyTaskNameFitsIntoAKey(t *testing.T) {
	for _, name := range []string{"web", "a/b", "mit Umlaut ä", "%2F", "a b"} {
		key := state.TaskKey(name)
		if err := state.ValidateKey(key); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if got := state.TaskName(key); got != name {
			t.Errorf("%q comes back as %q", name, got)
		}
	}
}

func TestARecordEditedByHandIsNamed(t *testing.T) {
	s := newStore(t)
	if _, err := s.Apply(t.Context(), state.Create(state.TaskKey("web"), []byte("{"))); err != nil {
		t.Fatal(err)
	}
	_, err := state.Read[state.Task](t.Context(), s, state.TaskKey("web"))
	if err == nil || !strings.Contains(err.Error(), "task/web") {
		t.Errorf("got %v", err)
	}
	if _, err := state.ReadAll[state.Task](t.Context(), s, state.TaskPrefix); err == nil || !strings.Contains(err.Error(), "task/web") {
		t.Errorf("got %v", err)
	}
}
