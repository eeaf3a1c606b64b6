package runner

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/guard"
	"github.com/terrapulse/terrapulse/internal/state"
)

func TestJudge_AnyLossWaitsIfConsulWasReplaced(t *testing.T) {
	before := map[string]state.Identity{"": {Cluster: "old", Index: 100}}
	for name, prepare := range map[string]func(*judging){
		"the tick has seen it": func(j *judging) {
			j.launch.Replaced = &state.Replaced{Why: "it is another", Now: map[string]state.Identity{"": {Cluster: "new"}}}
		},
		"it was replaced after the tick": func(j *judging) {
			j.launch.Consuls, j.consul.identity = before, state.Identity{Cluster: "new", Index: 20}
		},
	} {
		for _, rules := range []config.Rules{{Guard: guard.Default}, {}} { // no rule of the task switches it off
			j := newJudging(t, rules)
			prepare(j)
			if run := j.apply(); run.State != state.RunSucceeded {
				t.Fatalf("%s, and nothing is gone: %s %s", name, run.State, run.Error)
			}
			prepare(j)
			j.consul.count = 59
			run := j.apply()
			j.waits(run, "1 of 60 service instances are gone: web-59 (10.0.0.59:80), and Consul was replaced since they were applied: it is", state.RuleReplaced)
			if run = j.resume(j.Now().Add(1e9)); run.State != state.RunSucceeded {
				t.Errorf("%s, approved: %s %s", name, run.State, run.Error)
			}
		}
	}
}

func TestJudge_SameConsulIsJudgedByTheGuardsAlone(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	j.launch.Consuls, j.consul.identity = map[string]state.Identity{"": {Cluster: "old", Index: 100}}, state.Identity{Cluster: "old", Index: 120}
	j.consul.count = 40
	if run := j.apply(); run.State != state.RunSucceeded {
		t.Errorf("%s %s", run.State, run.Error)
	}
}

func TestJudge_AcceptedLossPassesTheInputGuardForThatDataAlone(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	accept := func(count int) {
		t.Helper()
		j.consul.count = count
		snap, _ := j.consul.Snapshot(t.Context(), nil)
		run, err := state.Read[state.Run](t.Context(), j.store, state.RunKey("web", j.launch.Runs[0].ID))
		if err != nil {
			t.Fatal(err)
		}
		run.Data.Approval = &state.Approval{By: "ann", Content: state.Content{Definition: j.launch.Runs[0].Definition, Input: snap.Digest()}}
		if _, err := j.store.Apply(t.Context(), run.Write(run.Data)); err != nil {
			t.Fatal(err)
		}
	}
	accept(5)
	j.consul.count = 4
	j.waits(j.apply(), "56 of 60 service instances are gone", state.RuleInputGuard, state.RuleChanged)
	j = newJudging(t, config.Rules{Guard: guard.Default})
	accept(5)
	if run := j.apply(); run.State != state.RunSucceeded {
		t.Errorf("%s %s (%s)", run.State, run.Error, run.Wait)
	}
}
