package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
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
		"a tick has seen it since the run was decided": func(j *judging) {
			j.record(state.Reconcile{Replaced: &state.Replaced{Since: j.Now(), Why: "it is another", Now: map[string]state.Identity{"": {Cluster: "new"}}, Unconfirmed: 1}})
		},
		"a tick has recorded its index since the run was decided": func(j *judging) {
			j.record(state.Reconcile{Consuls: map[string]state.Identity{"": {Index: 200}}})
			j.launch.Consuls, j.consul.identity = map[string]state.Identity{"": {Index: 100}}, state.Identity{Index: 80}
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
			j.waits(run, "1 of 60 service instances are gone: web-59 (10.0.0.59:80), and Consul was replaced since they were applied: it", state.RuleReplaced)
			if run = j.resume(j.Now().Add(1e9)); run.State != state.RunSucceeded {
				t.Errorf("%s, approved: %s %s", name, run.State, run.Error)
			}
		}
	}
}

// record has a tick write what all tasks share.
func (j *judging) record(next state.Reconcile) {
	j.t.Helper()
	rec, err := state.ReadReconcile(j.t.Context(), j.store)
	if err == nil {
		_, err = j.store.Apply(j.t.Context(), rec.Write(next))
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

func TestJudge_SameConsulIsJudgedByTheGuardsAlone(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	j.launch.Consuls, j.consul.identity = map[string]state.Identity{"": {Cluster: "old", Index: 100}}, state.Identity{Cluster: "old", Index: 120}
	j.launch.Replaced = &state.Replaced{Since: j.Now(), Now: map[string]state.Identity{"": {Cluster: "old"}}, Unconfirmed: 1} // it holds other tasks
	j.record(state.Reconcile{Replaced: j.launch.Replaced})
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
		run.Data.Approval = j.given(state.Content{Definition: j.launch.Runs[0].Definition, Input: snap.Digest()}, j.Now().Add(time.Hour))
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

// TestJudge_UnconfirmedLossWaitsInARunThatGoesOnElsewhere has a remote run planned with what the
// Consul of before has shown. The next step reads the new one, and only the task is held on.
func TestJudge_UnconfirmedLossWaitsInARunThatGoesOnElsewhere(t *testing.T) {
	for _, unconfirmed := range []bool{true, false} {
		b, s, _ := newSteps(t)
		entries := 3
		b.Consul = growing{entries: &entries}
		if err := state.SaveInputs(t.Context(), b.store, "web", state.Inputs{Kind: "services", Elements: map[string]string{"web-0": "x", "web-1": "x", "web-2": "x"}}); err != nil {
			t.Fatal(err)
		}
		first := upload("r1", "cv-1")
		s.waits(t, b, state.Wait{For: state.WaitRemotePlan}, first, begun(first, "run-1", state.RemotePlanning))

		entries = 1
		b.resumeAs(state.RemoteReady)
		b.launch.Replaced = &state.Replaced{Why: "it is another", Now: map[string]state.Identity{"": {Cluster: "new"}}, Unconfirmed: 1}
		b.launch.Runs[0].Unconfirmed = unconfirmed
		second := upload("r1", "cv-2")
		s.next = func(ctx context.Context, job driver.Job) (*state.Changes, error) {
			s.record(ctx, job, second, begun(second, "run-2", state.RemotePlanning))
			if !job.PlansFirst() { // nothing has to be judged
				return &state.Changes{Destroy: 2}, nil
			}
			err := job.Judge(ctx, driver.Plan{Digest: "plan", State: "s", InState: new(3), Changes: &state.Changes{Destroy: 2}})
			if wait := (*driver.WaitError)(nil); err != nil && !errors.As(err, &wait) {
				t.Error(err)
			}
			return &state.Changes{Destroy: 2}, err
		}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		run := b.stored("r1")
		if waits := run.State == state.RunWaiting && run.Wait.Has(state.RuleReplaced); waits != unconfirmed || !unconfirmed && run.State != state.RunSucceeded {
			t.Errorf("unconfirmed %v: the run is %s %s: %s", unconfirmed, run.State, run.Error, run.Wait)
		}
	}
}

// A plan that applies nothing, such as that of a what-if, says that a run of the task would wait because Consul
// was replaced.
func TestWhatIf_AnyLossWouldWaitIfConsulWasReplaced(t *testing.T) {
	another := map[string]state.Identity{"": {Cluster: "new"}}
	for name, tt := range map[string]struct {
		all    state.Reconcile
		now    state.Identity
		left   int
		change func(*judging, *state.Task)
		want   state.WouldBe
	}{
		"a tick has seen it":            {state.Reconcile{Replaced: &state.Replaced{Why: "it is another", Now: another}}, state.Identity{}, 59, nil, state.WouldHold},
		"it was replaced since":         {state.Reconcile{Consuls: map[string]state.Identity{"": {Cluster: "old"}}}, state.Identity{Cluster: "new"}, 59, nil, state.WouldHold},
		"nothing is gone":               {state.Reconcile{Replaced: &state.Replaced{Why: "it is another", Now: another}}, state.Identity{}, 61, nil, state.WouldApply},
		"it is the same":                {state.Reconcile{Consuls: map[string]state.Identity{"": {Cluster: "new"}}}, state.Identity{Cluster: "new"}, 59, nil, state.WouldApply},
		"others are held on":            {state.Reconcile{Replaced: &state.Replaced{Why: "it is another", Now: another, Unconfirmed: 1}}, state.Identity{}, 59, nil, state.WouldApply},
		"the task alone is held on":     {state.Reconcile{Replaced: &state.Replaced{Why: "it is another", Now: another, Unconfirmed: 1}}, state.Identity{}, 59, func(_ *judging, s *state.Task) { s.Unconfirmed = true }, state.WouldHold},
		"a person has accepted exactly": {state.Reconcile{Replaced: &state.Replaced{Why: "it is another", Now: another}}, state.Identity{}, 59, (*judging).accepted, state.WouldApply},
	} {
		j := newJudging(t, config.Rules{Guard: guard.Default})
		j.record(tt.all)
		j.consul.identity, j.consul.count = tt.now, tt.left
		j.driver.plan.Changes = &state.Changes{Change: 1}
		v := j.whatIf(func(s *state.Task) {
			s.Applied.At = noon
			if tt.change != nil {
				tt.change(j, s)
			}
		})
		if v.Outcome != tt.want || tt.want == state.WouldHold && v.Causes[0].Rule != state.RuleReplaced {
			t.Errorf("%s: %+v, want %s", name, v, tt.want)
		}
	}
}

// accepted has a person accept what the task would read.
func (j *judging) accepted(s *state.Task) {
	snap, err := j.consul.Snapshot(j.t.Context(), nil)
	if err != nil {
		j.t.Fatal(err)
	}
	s.Accept(&state.Accepted{Observed: snap.Condition.Digest,
		Approval: state.Approval{Given: state.Given{By: "ann"}, Content: state.Content{Definition: j.launch.Runs[0].Definition, Input: snap.Digest()}}})
}
