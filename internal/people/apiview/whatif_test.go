package apiview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestQuestion_ATaskWaitsForThoseThatItComesAfter(t *testing.T) {
	runs := map[string]state.Run{}
	q := state.Question{Supposed: "without node n7", Tasks: 9}
	plan := func(task string, outcome state.WouldBe, text string, after ...string) {
		q.Runs = append(q.Runs, state.Answering{Task: task, Run: task})
		runs[task] = state.Run{State: state.RunSucceeded, WhatIf: &state.WhatIf{Verdict: &state.Verdict{Outcome: outcome, Text: text, After: after}}}
	}
	plan("dns", state.WouldApply, "would be applied after lb: 1", "lb")
	plan("edge-1", state.WouldApply, "would be applied: 1")
	plan("edge-2", state.WouldHold, "would be held: 12 of 20 are gone")
	plan("lb", state.WouldApply, "would be applied after edge-*: 1", "edge-*")
	plan("same", state.WouldNotChange, "no change", "edge-2")
	plan("wrong", state.WouldFail, "would fail: no image", "edge-2")
	plan("last", state.WouldApply, "would be applied after edge-1, same: 1", "edge-1", "same")
	plan("loop", state.WouldHold, "would be held: 1", "loop")
	q.Runs, runs["slow"] = append(q.Runs, state.Answering{Task: "slow", Run: "slow"}), state.Run{State: state.RunRunning}

	w := apiview.Question(q, runs, time.Now())
	got := map[string]string{}
	for _, r := range w.Results {
		if r.Verdict != nil {
			got[r.Task] = string(r.Verdict.Outcome) + " " + r.Verdict.Text
		}
	}
	for task, want := range map[string]string{
		"dns":    "stopped would not run: waits for lb, which would not run; after that it would be applied after lb: 1",
		"edge-1": "applied would be applied: 1",
		"edge-2": "held would be held: 12 of 20 are gone",
		"lb":     "stopped would not run: waits for edge-2, which would be held; after that it would be applied after edge-*: 1",
		"same":   "unchanged no change",
		"wrong":  "failed would fail: no image",
		"last":   "applied would be applied after edge-1, same: 1",
		"loop":   "held would be held: 1",
	} {
		if got[task] != want {
			t.Errorf("task %s: %q, want %q", task, got[task], want)
		}
	}
	if summary := apiview.WhatIfSummary(w); summary != "9 tasks: 1 being planned, 1 would fail, 2 would be held, 2 would not run, 2 would be applied, 1 would not change" {
		t.Error(summary)
	}
	if w.Ended {
		t.Error("it has ended while a plan is being made")
	}
}

// The process that makes the plans of a what-if may die: people must not wait for it for a day.
func TestQuestion_PlanOfADeadProcessIsLost(t *testing.T) {
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	running := state.Run{State: state.RunRunning, Claimed: state.Claimed{Expires: noon.Add(2 * time.Minute)}}
	ended := state.Run{State: state.RunSucceeded, Times: state.Times{Ended: noon.Add(10 * time.Minute)}, WhatIf: &state.WhatIf{Verdict: &state.Verdict{Outcome: state.WouldApply}}}
	intended := state.Run{State: state.RunIntended}
	for name, tt := range map[string]struct {
		runs []state.Run
		at   time.Duration
		want string
	}{
		"that renews its claim":                          {[]state.Run{running}, 2 * time.Minute, "1 being planned"},
		"whose clock is behind":                          {[]state.Run{running}, 3 * time.Minute, "1 being planned"},
		"that died":                                      {[]state.Run{running}, 3*time.Minute + time.Second, "1 lost"},
		"that has not begun":                             {[]state.Run{intended}, 15 * time.Minute, "1 being planned"},
		"that died before it began":                      {[]state.Run{intended}, 16 * time.Minute, "1 lost"},
		"with others to plan":                            {[]state.Run{intended, ended}, 25 * time.Minute, "1 being planned, 1 would be applied"},
		"that died in between":                           {[]state.Run{intended, ended, running}, 26 * time.Minute, "2 lost, 1 would be applied"},
		"that has ended after it was taken for lost":     {[]state.Run{ended}, 20 * time.Hour, "1 would be applied"},
		"that plans for hours, and still shows its life": {[]state.Run{intended, {State: state.RunRunning, Claimed: state.Claimed{Expires: noon.Add(3 * time.Hour)}}}, 3 * time.Hour, "2 being planned"},
	} {
		q, runs := state.Question{Supposed: "without node n7", Created: noon, Tasks: len(tt.runs)}, map[string]state.Run{}
		for i, run := range tt.runs {
			id := fmt.Sprint("r", i)
			q.Runs, runs[id] = append(q.Runs, state.Answering{Task: id, Run: id}), run
		}
		w := apiview.Question(q, runs, noon.Add(tt.at))
		if _, summary, _ := strings.Cut(apiview.WhatIfSummary(w), ": "); summary != tt.want || w.Ended != !strings.Contains(tt.want, "planned") {
			t.Errorf("a process %s: %s, ended %t; want %s", name, summary, w.Ended, tt.want)
		}
		for _, r := range w.Results {
			if r.State == apispec.WhatIfResultStateLost && !strings.Contains(apispec.Deref(r.Error), "Ask again") {
				t.Errorf("a process %s: people read %q", name, apispec.Deref(r.Error))
			}
		}
	}
}

func TestLost_NamesWhatIsDestroyedOrReplaced(t *testing.T) {
	lost := apiview.Lost(apispec.WhatIfResult{Changes: apiview.Changes(&state.Changes{Destroy: 5, Resources: []state.Resource{
		{Address: "a", Action: "create"}, {Address: "b", Action: "delete"}, {Address: "c", Action: "replace"}}})})
	if got := strings.Join(lost, "; "); got != "destroys b; replaces c; and 3 more" {
		t.Error(got)
	}
}
