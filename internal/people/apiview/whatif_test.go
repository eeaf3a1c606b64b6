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
	q := state.Question{Supposed: "without node n7", Tasks: 19}
	place := func(task, keeps string, after ...string) {
		q.Order = append(q.Order, state.Place{Tasks: []string{task}, After: after, Keeps: keeps})
	}
	answer := func(task string, v state.Verdict, after ...string) {
		q.Runs = append(q.Runs, state.Answering{Task: task, Run: task})
		runs[task] = state.Run{State: state.RunSucceeded, WhatIf: &state.WhatIf{Verdict: &v}}
		place(task, "", after...)
	}
	plan := func(task string, outcome state.WouldBe, text string, after ...string) {
		answer(task, state.Verdict{Outcome: outcome, Text: text}, after...)
	}
	plan("dns", state.WouldApply, "would be applied after lb: 1", "lb")
	plan("edge-1", state.WouldApply, "would be applied: 1")
	plan("edge-2", state.WouldHold, "would be held: 12 of 20 are gone")
	plan("lb", state.WouldApply, "would be applied after edge-*: 1", "edge-*")
	plan("same", state.WouldNotChange, "no change", "edge-2")
	plan("wrong", state.WouldFail, "would fail: no image", "edge-2")
	plan("last", state.WouldApply, "would be applied after edge-1, same: 1", "edge-1", "same")
	plan("loop", state.WouldHold, "would be held: 1", "loop")
	answer("idle", state.Verdict{Outcome: state.WouldNotChange, Text: "no change", Keeps: "on hold by ann"})
	plan("after-idle", state.WouldApply, "would be applied: 1", "idle")
	place("vpn", "its latest run has failed") // the what-if does not concern these
	place("calm", "", "edge-1")
	place("between", "", "edge-2")
	place("former", "", "edge-1")
	plan("after-vpn", state.WouldHold, "would be held: 2", "vpn")
	plan("after-calm", state.WouldApply, "would be applied: 1", "calm", "former")
	plan("after-between", state.WouldApply, "would be applied: 1", "calm", "between")
	plan("fixed", state.WouldApply, "would be applied: 2")
	place("fixed", "not verified: vip failed") // until it runs
	plan("after-fixed", state.WouldApply, "would be applied: 1", "fixed")
	plan("unconcerned", state.WouldNotConcern, "not concerned", "vpn") // as a run has found out
	plan("far", state.WouldApply, "would be applied: 1", "unconcerned")
	q.Unreadable = []state.UnreadTask{{Task: "deaf", Error: "no route to host"}}
	plan("after-deaf", state.WouldApply, "would be applied: 1", "deaf")
	q.Runs, runs["slow"] = append(q.Runs, state.Answering{Task: "slow", Run: "slow"}), state.Run{State: state.RunRunning}
	q.Runs, runs["mute"] = append(q.Runs, state.Answering{Task: "mute", Run: "mute"}), state.Run{State: state.RunFailed}
	plan("after-slow", state.WouldApply, "would be applied: 1", "slow")
	plan("after-mute", state.WouldApply, "would be applied: 1", "mute")

	w := apiview.Question(q, runs, time.Now())
	got := map[string]string{}
	for _, r := range w.Results {
		if r.Verdict != nil {
			got[r.Task] = string(r.Verdict.Outcome) + " " + r.Verdict.Text
		}
	}
	for task, want := range map[string]string{
		"dns":           "stopped would not run: waits for lb, which waits for edge-2, which would be held; after that it would be applied after lb: 1",
		"edge-1":        "applied would be applied: 1",
		"edge-2":        "held would be held: 12 of 20 are gone",
		"lb":            "stopped would not run: waits for edge-2, which would be held; after that it would be applied after edge-*: 1",
		"same":          "unchanged no change",
		"wrong":         "failed would fail: no image",
		"last":          "stopped would not run: waits for same, which waits for edge-2, which would be held; after that it would be applied after edge-1, same: 1",
		"loop":          "held would be held: 1",
		"after-idle":    "stopped would not run: waits for idle: on hold by ann; after that it would be applied: 1",
		"after-vpn":     "stopped would not run: waits for vpn: its latest run has failed; after that it would be held: 2",
		"after-calm":    "applied would be applied: 1",
		"after-between": "stopped would not run: waits for between, which waits for edge-2, which would be held; after that it would be applied: 1",
		"after-fixed":   "applied would be applied: 1",
		"far":           "stopped would not run: waits for unconcerned, which waits for vpn: its latest run has failed; after that it would be applied: 1",
		"after-deaf":    "stopped would not run: waits for deaf: it cannot be read; after that it would be applied: 1",
		"after-slow":    "applied would be applied: 1", // until its plan is made
		"after-mute":    "stopped would not run: waits for mute: it is not known what would happen to it; after that it would be applied: 1",
	} {
		if got[task] != want {
			t.Errorf("task %s: %q, want %q", task, got[task], want)
		}
	}
	if summary := apiview.WhatIfSummary(w); !strings.HasPrefix(summary, "19 tasks: 1 being planned, 2 cannot be planned, 1 would fail, 2 would be held, 9 would not run, 5 would be applied, 2 would not change") {
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
