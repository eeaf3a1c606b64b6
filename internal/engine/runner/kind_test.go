package runner

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// readOnly is a driver that plans.
type readOnly struct {
	driver.Driver
	plan driver.Plan
	err  error
}

func (r readOnly) Plan(context.Context, driver.Job) (driver.Plan, error) { return r.plan, r.err }

// destroyer is a driver that destroys.
type destroyer struct {
	driver.Driver
	run state.Run
}

func (d *destroyer) Destroy(_ context.Context, job driver.Job) (driver.Outcome, error) {
	d.run = job.Run
	return driver.Outcome{Changes: &state.Changes{Destroy: 2}}, nil
}

// intendKind changes the intended run to another kind.
func (b *fixture) intendKind(kind state.Kind) {
	b.t.Helper()
	b.launch.Kind = kind
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey("web", b.launch.Runs[0].ID))
	if err != nil {
		b.t.Fatal(err)
	}
	next := run.Data
	next.Kind = kind
	if _, err := b.store.Apply(b.t.Context(), run.Write(next)); err != nil {
		b.t.Fatal(err)
	}
}

func TestRun_PlanIsKeptAsTextAndAsData(t *testing.T) {
	plan := driver.Plan{Changes: &state.Changes{Add: 1}, Text: "1 to add", Digest: "d",
		Resources: []driver.ResourceChange{{Address: "a.b", Type: "a", Action: driver.Create}}}
	for _, kind := range []state.Kind{state.KindPlan, state.KindDrift} {
		b := newFixture(t, nil)
		b.Driver = readOnly{plan: plan}
		b.intendKind(kind)
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		run := b.stored("r1")
		if run.State != state.RunSucceeded || run.Digest != "" {
			t.Errorf("the %s run reads %+v", kind, run)
		}
		if text, err := state.LoadLog(t.Context(), b.store, "web", run.Plan.Name); err != nil || string(text) != plan.Text {
			t.Errorf("the text of the %s run is %q, %v", kind, text, err)
		}
		raw, err := state.LoadLog(t.Context(), b.store, "web", run.PlanData.Name)
		var data driver.Plan
		if err := errors.Join(err, json.Unmarshal(raw, &data)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(driver.Plan{Resources: plan.Resources, Digest: "d"}, data); diff != "" {
			t.Error(diff)
		}
	}
	// A plan that runs remotely has no data.
	b := newFixture(t, nil)
	b.Driver = readOnly{plan: driver.Plan{Changes: &state.Changes{}, Text: "none"}}
	b.intendKind(state.KindPlan)
	if err := b.run(t.Context()); err != nil || b.stored("r1").Plan == (state.Kept{}) || b.stored("r1").PlanData != (state.Kept{}) {
		t.Errorf("%+v, %v", b.stored("r1"), err)
	}
}

// A plan that was made in another system has a page there, also if it has failed.
func TestRun_PlanOfAnotherSystemHasItsPage(t *testing.T) {
	for name, fails := range map[string]error{"planned": nil, "failed": errors.New("no such module")} {
		b := newFixture(t, nil)
		b.Driver = readOnly{plan: driver.Plan{Changes: &state.Changes{}, URL: "https://hcp.example.com/runs/1"}, err: fails}
		b.intendKind(state.KindPlan)
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := b.stored("r1").Remote; r == nil || r.URL != "https://hcp.example.com/runs/1" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestRun_DestroyLeavesNothingApplied(t *testing.T) {
	b, d := newFixture(t, nil), &destroyer{}
	b.Driver = d
	b.intendKind(state.KindDestroy)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, task := b.stored("r1"), b.task()
	if run.State != state.RunSucceeded || run.Digest != "" || run.Changes.Destroy != 2 || task.Applied.Digest != "" || task.Run != nil {
		t.Errorf("the run reads %+v, its task %+v", run, task)
	}
	if d.run.ID != "r1" || d.run.Claim == "" {
		t.Errorf("the driver got the run %+v", d.run)
	}
	if inputs, err := state.LoadInputs(t.Context(), b.store, "web"); err != nil || inputs.Elements != nil {
		t.Errorf("kept as applied: %+v, %v", inputs, err)
	}
}
