package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestRun_SaysWhichEntriesDifferFromTheAppliedOnes(t *testing.T) {
	j := newJudging(t, config.Rules{})
	j.events()
	j.driver.fails = errors.New("the firewall does not answer")
	j.consul.count = 59
	j.apply()
	j.driver.fails = nil
	j.consul.count = 58
	run := j.apply()
	want := &state.EntryChanges{Removed: 2, Entries: []state.EntryChange{
		{Action: state.EntryRemoved, Name: "web-58", Group: "web", ID: "web-58", Address: "10.0.0.58:80"},
		{Action: state.EntryRemoved, Name: "web-59", Group: "web", ID: "web-59", Address: "10.0.0.59:80"},
	}}
	if diff := cmp.Diff(want, run.Entries); diff != "" {
		t.Error(diff)
	}
	var said []string
	for _, e := range j.events() {
		said = append(said, fmt.Sprint(e.Kind, ": ", e.Detail))
		if e.Kind == outbox.RunSucceeded && !cmp.Equal(want, e.Entries) {
			t.Errorf("the event has %+v", e.Entries)
		}
	}
	if diff := cmp.Diff([]string{"run_failed: web: -web-59 (10.0.0.59:80)", "run_succeeded: web: -web-58 (10.0.0.58:80), -web-59 (10.0.0.59:80)",
		"task_recovered: web: -web-58 (10.0.0.58:80), -web-59 (10.0.0.59:80)"}, said); diff != "" {
		t.Error(diff)
	}
	if run := j.apply(); run.Entries.Any() {
		t.Errorf("nothing changed, and the run says %s", run.Entries)
	}
}

// taker is a driver that notes which changes it is given.
type taker struct{ changes consul.Names }

func (*taker) Check(*config.Config, *config.Task) config.Errors { return nil }

func (d *taker) Plan(_ context.Context, job driver.Job) (driver.Plan, error) {
	d.changes = job.Changes
	return driver.Plan{Changes: &state.Changes{}}, nil
}

func (d *taker) Apply(_ context.Context, job driver.Job) (driver.Outcome, error) {
	d.changes = job.Changes
	return driver.Outcome{Changes: &state.Changes{}}, nil
}

func (d *taker) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return d.Apply(ctx, job)
}

func TestRun_DriverIsGivenTheNamesOfChangedEntries(t *testing.T) {
	different := consul.Names{Added: []string{"cfg/new", "web-1"}, Removed: []string{"web-2"}, Changed: []string{"cfg/a"}}
	for kind, want := range map[state.Kind]consul.Names{state.KindApply: different, state.KindPlan: different, state.KindDrift: {}, state.KindDestroy: {}} {
		b, d := newFixture(t, nil), &taker{changes: consul.Names{Added: []string{"not called"}}}
		b.Driver, b.Consul = d, keysToo{}
		before := state.Inputs{Kind: "services", Elements: map[string]string{"web-2": "x"}, Others: map[string]map[string]string{"consul-kv": {"cfg/a": "1"}}}
		if kind == state.KindDrift { // which plans only with the data that was applied
			snap, err := keysToo{}.Snapshot(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range snap.Inputs {
				if in.Triggers {
					before.Kind, before.Elements = in.Kind.Name, in.Elements
				} else {
					before.Others[in.Kind.Name] = in.Elements
				}
			}
		}
		if err := state.SaveInputs(t.Context(), b.store, "web", before); err != nil {
			t.Fatal(err)
		}
		b.intendKind(kind)
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, d.changes); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
		if run := b.stored("r1"); (run.Entries != nil) != (kind == state.KindApply || kind == state.KindPlan) {
			t.Errorf("the %s run says %s", kind, run.Entries)
		}
	}
}

// keysToo is a Consul with an instance and two keys.
type keysToo struct{ catalog }

func (c keysToo) Snapshot(ctx context.Context, t *config.Task) (*consul.Snapshot, error) {
	snap, err := c.catalog.Snapshot(ctx, t)
	snap.Inputs = []consul.Input{{Kind: condition.ServicesKind, Triggers: true, Observation: snap.Condition},
		{Kind: condition.ConsulKVKind, Observation: consul.Observation{Elements: map[string]string{"cfg/a": "2", "cfg/new": "1"}}}}
	return snap, err
}

func TestRun_PlanThatIsKeptSaysWhichEntriesCauseIt(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	j.driver.plan.Resources = []driver.ResourceChange{{Address: `aws_a.b["web-21"]`, Type: "aws_a", Action: driver.Delete}, {Address: "aws_a.c", Type: "aws_a", Action: driver.Update}}
	j.consul.count = 20
	run := j.apply()
	data, err := run.PlanData.Load(t.Context(), j.store, "web", nil)
	var kept driver.Plan
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := kept.Resources; !slices.Equal(got[0].Causes, []string{"web-21"}) || got[1].Causes != nil {
		t.Errorf("the causes are %v and %v", got[0].Causes, got[1].Causes)
	}
	// The digest that an approval applies to was made without them.
	if run := j.resume(time.Time{}); run.State != state.RunSucceeded {
		t.Errorf("approved: %s %s", run.State, run.Error)
	}
}

func TestRun_KeepsNoDetailsOfVeryManyEntries(t *testing.T) {
	synctest.Test(t, keepsNoDetailsOfVeryManyEntries) // in which a busy machine exceeds no time limit
}

func keepsNoDetailsOfVeryManyEntries(t *testing.T) {
	j := newJudging(t, config.Rules{})
	kept := func(count, details int) {
		t.Helper()
		inputs, err := state.LoadInputs(t.Context(), j.store, "web")
		if err != nil || len(inputs.Elements) != count || len(inputs.Details) != details {
			t.Errorf("%d entries: %d are kept with %d details: %v", count, len(inputs.Elements), len(inputs.Details), err)
		}
	}
	kept(60, 60)
	j.consul.count = state.MaxDetails + 1
	j.apply()
	kept(state.MaxDetails+1, 0)
	j.consul.count--
	if got := j.apply().Entries.String(); got != "service instances: -web-20000" {
		t.Error(got)
	}
}
