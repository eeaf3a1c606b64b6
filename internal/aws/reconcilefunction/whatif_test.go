package reconcilefunction

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/engine/verdict"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// A what-if about more tasks than the store takes in one write is answered, by plans in the other system
// without containers.
func TestInspect_WhatIfOfManyTasksInAnotherSystem(t *testing.T) {
	var names []string
	for i := range 130 {
		names = append(names, fmt.Sprintf("task-%03d", i))
	}
	s, r := newStack(t, names...), &remote{}
	s.supposer = &runner.Supposer{Verdict: verdict.Of, Read: func(_ context.Context, t *config.Task, _ json.RawMessage) (*consul.Snapshot, bool, error) {
		return &consul.Snapshot{Condition: consul.Observation{Digest: "less"}}, t.Name < "task-010", nil
	}}
	h := s.elsewhere(r)
	answer := s.must(h, `{"mode":"inspect","what_if":{"without":[{"node":"n7"}]},"by":"Ann"}`)
	q, err := state.Read[state.Question](t.Context(), s.store, state.QuestionKey(answer.WhatIf.ID))
	if err != nil || len(q.Data.Runs) != len(names) {
		t.Fatalf("%d runs, %v", len(q.Data.Runs), err)
	}
	runs := map[string]state.Run{}
	for _, of := range q.Data.Runs {
		run, err := state.Read[state.Run](t.Context(), s.store, state.RunKey(of.Task, of.Run))
		if err != nil {
			t.Fatal(err)
		}
		runs[of.Run] = run.Data
	}
	shown := apiview.Question(q.Data, runs, time.Now())
	if summary := apiview.WhatIfSummary(shown); !shown.Ended || summary != "130 tasks: 10 would be applied, 120 not concerned" {
		t.Errorf("ended: %v, %s; the first run: %+v", shown.Ended, summary, runs[q.Data.Runs[0].Run])
	}
	if len(s.started) != 0 {
		t.Errorf("it has started %d containers", len(s.started))
	}
}
