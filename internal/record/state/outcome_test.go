package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConclude_KeepsTheOutcomesOfTheNewestRuns(t *testing.T) {
	ended := time.Date(2026, 11, 22, 10, 57, 40, 123456789, time.FixedZone("", 3600))
	var task Task
	var want []RecentRun
	for n := range RecentRuns + 8 {
		run := Run{ID: fmt.Sprintf("r%d", n), Kind: KindApply, State: []RunState{RunSucceeded, RunFailed, RunLost}[n%3], Times: Times{Ended: ended.Add(time.Duration(n) * time.Minute)}}
		outcome := Outcome{State: run.State, Kind: KindApply, Ended: time.Date(2026, 11, 22, 9, 57+n, 40, 0, time.UTC)}
		if n%2 == 0 {
			run.Started, run.Waited = run.Ended.Add(-time.Hour), 59*time.Minute+47*time.Second+700*time.Millisecond
			outcome.Took = 12300 * time.Millisecond
		}
		next, _ := task.Conclude(run, "")
		stored, err := Decode[Task](Record{Value: Encode(next)})
		if err != nil {
			t.Fatal(err)
		}
		task = stored.Data
		want = append(want, RecentRun{run.ID, outcome})
		if diff := cmp.Diff(want[max(0, len(want)-RecentRuns):], task.RecentRuns()); diff != "" {
			t.Errorf("after %d runs: %s", n+1, diff)
		}
	}
	if n := len(task.RecentRuns()); n != RecentRuns {
		t.Errorf("%d are kept", n)
	}
}

// DynamoDB bills reads by 4 KB: reading the record of a task costs one of these, however many runs it had.
func TestTask_RecordWithFullHistoryIsReadAtOnce(t *testing.T) {
	ended := time.Date(2026, 11, 22, 10, 57, 40, 123456789, time.UTC)
	var peaks Peaks
	for i := range MaxPeaks {
		peaks = append(peaks, Peak{2000 - i, ended.Truncate(time.Millisecond)})
	}
	task := Task{Applied: Applied{Definition: strings.Repeat("d", 64), Digest: strings.Repeat("a", 64), Counts: []Count{{"service instances", true, 1200, 1200, peaks}}}, Observed: Observed{Digest: strings.Repeat("o", 64), At: ended},
		Attempted: Attempt{strings.Repeat("d", 64), strings.Repeat("a", 64)}, Naming: Naming{Shape: strings.Repeat("s", 64)}, Reason: Reason{Code: ReasonUnchanged, Text: "nothing has changed since the latest apply"}}
	for range History {
		task, _ = task.Conclude(Run{ID: "019aaf00-0000-7000-8000-000000000000", Kind: KindApply, State: RunInterrupted, Work: Work{Digest: strings.Repeat("a", 64), Changes: &Changes{Add: 1, Destroy: 1}}, Times: Times{Started: ended.Add(-12345 * time.Millisecond), Ended: ended},
			Created: ended, Reason: Reason{Code: ReasonChanged, Text: "web: -web-3 (10.0.0.3:8080), +web-4 (10.0.0.4:8080)"}}, strings.Repeat("d", 64))
	}
	if size := len(Encode(task)); size > 4000 {
		t.Errorf("the record has %d bytes", size)
	}
}

func TestASupersededRunLeavesNothingButTheWishForAnother(t *testing.T) {
	before := Task{Applied: Applied{Definition: "def", Digest: "A"}, Failing: Failing{Count: 2}, Ended: Ended{IDs: []string{"r1"}, Recent: Outcomes("").add(Run{State: RunFailed}),
		Last: &Result{Run: "r1", State: RunFailed}}, Run: &LiveRun{ID: "r2"}}
	after, forgotten := before.Conclude(Run{ID: "r2", State: RunSuperseded, Work: Work{Error: "another definition"}}, "new")
	want := before
	want.Run, want.Observed.Recheck, want.Observed.Superseded, want.Forced.Replaces, want.Forced.By = nil, true, true, true, after.Forced.By
	if diff := cmp.Diff(want, after); diff != "" || len(forgotten) > 0 || after.Forced.By == "" {
		t.Errorf("forgotten %v, %s", forgotten, diff)
	}
	before.Forced.By = "somebody"
	if after, _ := before.Conclude(Run{ID: "r2", State: RunSuperseded}, ""); after.Forced.By != "somebody" || after.Forced.Replaces {
		t.Errorf("the request of somebody is now recorded as that of %q (replaces: %v)", after.Forced.By, after.Forced.Replaces)
	}
}

func TestConclude_RequestedRunThatFailsDoesNotDelayTheRetry(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	soon, long := noon.Add(10*time.Second), noon.Add(Backoff("web", 9))
	for name, test := range map[string]struct {
		reason  ReasonCode
		retryAt time.Time
		want    time.Time
	}{
		"a request before the retry":     {ReasonForced, soon, soon},
		"a request when it was due":      {ReasonForced, noon.Add(-time.Second), long},
		"the retry itself, which is due": {ReasonRetry, noon.Add(-time.Second), long},
		"new input before the retry":     {ReasonChanged, soon, long},
	} {
		task := Task{Failing: Failing{Count: 8, RetryAt: test.retryAt}}
		next, _ := task.Conclude(Run{ID: "r", Task: "web", Kind: KindApply, State: RunFailed, Reason: Reason{Code: test.reason}, Times: Times{Ended: noon}}, "")
		if !next.Failing.RetryAt.Equal(test.want) || next.Failing.Count != 9 {
			t.Errorf("%s: retried at %s after %d failures, want %s", name, next.Failing.RetryAt, next.Failing.Count, test.want)
		}
	}
}
