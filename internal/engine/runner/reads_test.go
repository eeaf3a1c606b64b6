package runner

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/verdict"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// reads is a store that counts the reads of each record.
type reads struct {
	state.Store
	mu  sync.Mutex
	got map[string]int
}

func (r *reads) Get(ctx context.Context, key string) (state.Record, error) {
	r.mu.Lock()
	r.got[key]++
	r.mu.Unlock()
	return r.Store.Get(ctx, key)
}

// of is how often a run has read the record of the task.
func (j *judging) reads(does func()) int {
	counting := &reads{Store: j.Runner.Store, got: map[string]int{}}
	j.Runner.Store = counting
	defer func() { j.Runner.Store = counting.Store }()
	does()
	return counting.got[state.TaskKey("web")]
}

func (p *planner) Plan(context.Context, driver.Job) (driver.Plan, error) { return p.plan, nil }

// A run reads the record of its task for its outcome, and once more only if a guard has to know
// what was applied before.
func TestRun_ReadsTheRecordOfItsTaskForAGuardOnlyIfItDecidesSomething(t *testing.T) {
	limited, alone := guard.Default, guard.Default
	limited.MaxDestroy = new(100)
	alone.Within, alone.MaxDestroy = 0, new(100)
	for name, c := range map[string]struct {
		guard    guard.Spec
		left     int
		destroys int
		want     int
	}{
		"no guard":                         {guard.Spec{}, 10, 5, 1},
		"nothing is gone":                  {guard.Default, 61, 0, 1},
		"an entry is gone":                 {guard.Default, 59, 0, 2},
		"only what was applied last":       {alone, 59, 5, 1},
		"the plan guard, nothing is lost":  {limited, 61, 0, 1},
		"the plan guard, a resource goes":  {limited, 61, 5, 2},
		"both guards, and both are needed": {limited, 59, 5, 2},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudging(t, config.Rules{Guard: c.guard})
			j.decided(time.Minute, 0)
			j.consul.count = c.left
			j.driver.plan.Changes = &state.Changes{Change: 1, Destroy: c.destroys}
			var run state.Run
			got := j.reads(func() {
				if err := j.run(j.t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			if run = j.stored(j.launch.Runs[0].ID); run.State != state.RunSucceeded {
				t.Fatalf("%s %s %v", run.State, run.Error, run.Wait)
			}
			if got != c.want {
				t.Errorf("the record of the task was read %d times, want %d", got, c.want)
			}
		})
	}
}

func TestRun_WhatIfReadsTheRecordOfItsTaskOnce(t *testing.T) {
	spec := guard.Default
	spec.MaxDestroy = new(5)
	j := newJudging(t, config.Rules{Guard: spec})
	j.step(time.Minute, 35)
	j.consul.count = 25
	j.driver.plan.Changes = &state.Changes{Destroy: 10}
	var v *state.Verdict
	got := j.reads(func() { v = j.whatIf(nil) })
	if v == nil || v.Outcome != state.WouldHold || len(v.Causes) != 2 {
		t.Errorf("the verdict is %+v, want one with the window of both guards", v)
	}
	if got != 1 {
		t.Errorf("the record of the task was read %d times, want once", got)
	}
}

// whatIf has the run of the task plan under a what-if, and returns its verdict. change changes the record of the task
// before; nil if it stays.
func (j *judging) whatIf(change func(*state.Task)) *state.Verdict {
	j.t.Helper()
	j.Suppose = &Supposer{Verdict: verdict.Of, Read: func(ctx context.Context, t *config.Task, _ json.RawMessage) (*consul.Snapshot, bool, error) {
		snap, err := j.consul.Snapshot(ctx, t)
		return snap, true, err
	}}
	run, err := state.Read[state.Run](j.t.Context(), j.store, state.RunKey("web", j.launch.Runs[0].ID))
	if err != nil {
		j.t.Fatal(err)
	}
	next := run.Data
	next.Kind, next.WhatIf, next.Created = state.KindPlan, &state.WhatIf{Supposed: "without node n7"}, noon.Add(2*time.Minute)
	changes := []state.Change{run.Write(next)}
	if change != nil {
		task, err := state.Read[state.Task](j.t.Context(), j.store, state.TaskKey("web"))
		if err != nil {
			j.t.Fatal(err)
		}
		record := task.Data
		record.Run = nil
		change(&record)
		changes = append(changes, task.Write(record))
	}
	if _, err := j.store.Apply(j.t.Context(), changes...); err != nil {
		j.t.Fatal(err)
	}
	j.launch.Kind, j.launch.WhatIf = state.KindPlan, json.RawMessage(`{}`)
	if err := j.run(j.t.Context()); err != nil {
		j.t.Fatal(err)
	}
	v := j.stored(next.ID).WhatIf.Verdict
	if v == nil {
		j.t.Fatalf("no verdict: %+v", j.stored(next.ID))
	}
	return v
}
