package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	rules "github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// BenchmarkDecide1000Tasks decides for 1,000 tasks of which half have changed.
func BenchmarkDecide1000Tasks(b *testing.B) {
	b.Run("without rules", func(b *testing.B) {
		decideThousand(b, func(i int) Input {
			return Input{Task: webTask(), State: applied(), Reading: Reading{Observed: &Observed{Digest: fmt.Sprint(i % 2)}}}
		})
	})
	b.Run("all rules", func(b *testing.B) {
		all := allRules(b)
		decideThousand(b, func(i int) Input { return ruledInput(i, all) })
	})
}

// BenchmarkDecide1000TasksInOrder decides for 1,000 tasks with all rules. 900 of them come after 100, which
// a pattern names, and after the task before.
func BenchmarkDecide1000TasksInOrder(b *testing.B) {
	all := allRules(b)
	decideThousand(b, func(i int) Input {
		in := ruledInput(i, all)
		if i >= 100 {
			in.Task.After = []string{"task-?", "task-??", fmt.Sprintf("task-%d", i-1)}
		}
		return in
	})
}

// decideThousand measures decisions about 1,000 tasks.
func decideThousand(b *testing.B, input func(i int) Input) {
	const bound = 50 * time.Millisecond
	inputs := make([]Input, 1000)
	for i := range inputs {
		inputs[i] = input(i)
		inputs[i].Task.Name, inputs[i].Definition = fmt.Sprintf("task-%d", i), "def"
	}
	cfg := &config.Config{}
	for _, in := range inputs {
		cfg.Tasks = append(cfg.Tasks, *in.Task)
	}
	order := Order{Tasks: cfg.Order()}
	codes := map[state.ReasonCode]int{}
	for _, d := range order.Decide(inputs, noon) {
		codes[d.Reason.Code]++
	}
	b.Logf("the reasons are %v", codes)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		order.Decide(inputs, noon)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > bound {
		b.Errorf("deciding took %s, bound %s", median, bound)
	}
}

// allRules are all rules that a task can have, with windows that are closed at noon.
func allRules(b *testing.B) config.Rules {
	limit := 5
	spec := config.Rules{Guard: guard.Default, Approval: rules.Spec{Rule: rules.Destructive, Expires: time.Hour, DistinctApprover: true, Require: 3, From: []string{"group:network", "user:ann", "user:bob", "user:eve"}}}
	spec.Guard.MaxDestroy, spec.Guard.MaxDestroyPercent = &limit, &limit
	for _, w := range []window.Window{
		{Kind: window.Allow, Schedule: "0 22 * * Mon-Fri", Duration: 8 * time.Hour, TimeZone: "Europe/Berlin", AllowRemovalsAlways: true},
		{Kind: window.Deny, Schedule: "0 0 24 12 *", Duration: 72 * time.Hour, TimeZone: "Europe/Berlin"},
	} {
		parsed, err := w.Parse()
		if err != nil {
			b.Fatal(err)
		}
		spec.Windows = append(spec.Windows, parsed)
	}
	return spec
}

// ruledInput is a task with rules in one of the situations that rules bring about.
func ruledInput(i int, all config.Rules) Input {
	t := webTask()
	t.Rules, t.BufferPeriod = all, config.BufferPeriod{}
	changed := &state.EntryChanges{Added: 1, Removed: 40}
	for n := range 20 {
		changed.Entries = append(changed.Entries, state.EntryChange{Action: state.EntryRemoved, Group: "web", Name: fmt.Sprint("web-", n), Address: "10.0.0.3:8080"})
	}
	in := Input{Task: t, State: applied(), Reading: Reading{Observed: &Observed{Digest: "B", Entries: changed}}}
	content := &state.Content{Definition: "def", Input: "B", Plan: "plan", State: "lineage/1"}
	waits := func(w state.Wait) {
		w.ID, w.Since, w.Rules = "w", noon.Add(-time.Hour), t.RulesDigest()
		in.State.Run = &state.LiveRun{ID: "r", Wait: &w, Input: "B"}
		in.State.Observed.Digest, in.State.Attempted.Definition = "B", "def"
	}
	in.State.Applied.Counts = []state.Count{{Of: "service instances", Triggers: true, Applied: 48, Now: 20}}
	for n := range 12 { // what was applied in the last quarter of an hour
		in.State.Applied.Counts[0].Peaks = append(in.State.Applied.Counts[0].Peaks, state.Peak{Count: 60 - n, Until: noon.Add(time.Duration(n-12) * time.Minute)})
	}
	t.AfterTimeout = 10 * time.Minute
	switch i % 10 {
	case 0: // at rest
		in.Observed.Digest = "A"
	case 1: // only windows: the change waits for them
		t.Guard, t.Approval = guard.Default, rules.Default
	case 2: // it is planned, and judged by the runner
	case 3: // it loses entries
		in.Observed.Lost, in.Observed.Excess = &Loss{Entries: 40, Text: "40 of 60"}, "40 of 60"
	case 4: // its plan waits for an approval
		waits(state.Wait{For: state.WaitApproval, Content: content, Causes: []state.Cause{{Rule: state.RulePlanGuard, Text: "6 of 60"}}})
	case 5: // its plan is approved, and waits for its window
		waits(state.Wait{For: state.WaitApproval, Content: content, Causes: []state.Cause{{Rule: state.RuleApproval, Text: "destructive"}}})
		in.State.Run.Approvals = []state.Given{{By: "ann", At: noon, Expires: noon.Add(time.Hour)}, {By: "bob", At: noon, Expires: noon.Add(time.Hour)}}
		in.State.Run.Resume = &state.Resume{By: "ann", At: noon, Approval: &state.Approval{Given: state.Given{By: "ann", At: noon, Expires: noon.Add(time.Hour)}, Content: *content}}
	case 6: // a person holds it
		in.State.OnHold = &state.OnHold{By: "ann", At: noon}
	case 8: // its plan waits for the last of three people
		waits(state.Wait{For: state.WaitApproval, Content: content, Needs: 3, Causes: []state.Cause{{Rule: state.RuleApproval, Text: "destructive"}}})
		in.State.Run.Approvals = []state.Given{{By: "ann", At: noon, Expires: noon.Add(time.Hour)}, {By: "bob", At: noon, Expires: noon.Add(time.Hour)}}
	case 9: // it is applied, and not verified
		in.Observed.Digest = "A"
		in.State.Applied.Unverified = &state.Unverified{Since: noon.Add(-time.Hour), Run: "r", State: state.VerifyFailed, Names: "vip", Text: "vip failed: connection refused"}
	case 7: // Consul was replaced
		in.Observed.Lost = &Loss{Entries: 1, Text: "1 of 60"}
		in.Replaced = &state.Replaced{Since: noon, Why: "another cluster", Tasks: 125, Entries: 125}
	}
	return in
}
