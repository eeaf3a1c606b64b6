package runner

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// checker is a driver that plans for a check.
type checker struct {
	driver.Driver
	plan driver.Plan
	err  error
	then func() // called during the plan; may be nil
}

func (c checker) Plan(context.Context, driver.Job) (driver.Plan, error) {
	if c.then != nil {
		c.then()
	}
	return c.plan, c.err
}

// shown is a Consul with one instance, as a snapshot shows it.
type shown struct{ catalog }

func (s shown) Snapshot(ctx context.Context, t *config.Task) (*consul.Snapshot, error) {
	snap, err := s.catalog.Snapshot(ctx, t)
	snap.Inputs = []consul.Input{{Kind: condition.ServicesKind, Triggers: true, Observation: snap.Condition}}
	return snap, err
}

// different is a plan that changes three resources.
func different() driver.Plan {
	p := driver.Plan{Resources: []driver.ResourceChange{
		{Address: "a.gone", Action: driver.Create, Attributes: []driver.AttributeChange{{Path: "id"}}},
		{Address: "a.other", Action: driver.Update, Attributes: []driver.AttributeChange{{Path: "port", Before: 1, After: 2}, {Path: "computed", Unknown: true}}},
		{Address: "data.x", Action: driver.Read},
	}, Drift: []driver.ResourceChange{{Address: "a.other", Action: driver.Update, Attributes: []driver.AttributeChange{{Path: "port", Before: 2, After: 1}}}}}
	p.Changes = driver.Count(p.Resources)
	return p
}

// check carries out a check of the task as run r1.
func check(t *testing.T, d checker, applied map[string]string) *fixture {
	t.Helper()
	b := newFixture(t, nil)
	b.Driver, b.Consul = d, shown{}
	if err := state.SaveInputs(t.Context(), b.store, "web", state.Inputs{Kind: "services", Elements: applied}); err != nil {
		t.Fatal(err)
	}
	b.intendKind(state.KindDrift)
	b.underCheck("r1")
	return b
}

// underCheck makes a run the check of the task, which has no other run then.
func (b *fixture) underCheck(id string) {
	b.t.Helper()
	task, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey("web"))
	if err != nil {
		b.t.Fatal(err)
	}
	next := task.Data
	next.Drift = &state.Drift{After: noon.Add(-1), Run: &state.LiveRun{ID: id, Launch: "l-" + id}, Found: next.Drifted()}
	next.Run = nil
	if _, err := b.store.Apply(b.t.Context(), task.Write(next)); err != nil {
		b.t.Fatal(err)
	}
}

// told are the events in the store.
func (b *fixture) told() string {
	b.t.Helper()
	recs, err := b.store.List(b.t.Context(), outbox.Prefix)
	if err != nil {
		b.t.Fatal(err)
	}
	all := ""
	for _, rec := range recs {
		all += string(rec.Value)
	}
	return all
}

var same = map[string]string{"web-1": "x"}

// checked runs the check r1, and returns its record and the one of its task. Nothing but the leader says what it
// means for the task.
func (b *fixture) checked(ctx context.Context) state.Run {
	b.t.Helper()
	before := b.task()
	if err := b.run(ctx); err != nil {
		b.t.Fatal(err)
	}
	if after := b.task(); after.Revision != before.Revision || b.told() != "" {
		b.t.Errorf("a check writes its task: %+v; events: %s", after, b.told())
	}
	return b.stored("r1")
}

func TestCheck_FindsWhatDiffers(t *testing.T) {
	run := check(t, checker{plan: different()}, same).checked(t.Context())
	if found := run.Found; found == nil || found.Count != 2 || found.String() != "2 resources differ: a.gone (is missing), a.other (port)" ||
		found.Changes.Add != 1 || found.Changes.Change != 1 {
		t.Errorf("found is %+v", found)
	}
	if run.State != state.RunSucceeded || run.PlanData == (state.Kept{}) {
		t.Errorf("the check reads %+v", run)
	}
	nothing := driver.Plan{Resources: []driver.ResourceChange{}, Changes: &state.Changes{}}
	if run := check(t, checker{plan: nothing}, same).checked(t.Context()); run.State != state.RunSucceeded || run.Found != nil {
		t.Errorf("the check reads %+v", run)
	}
}

func TestCheck_SaysWhyItFailed(t *testing.T) {
	run := check(t, checker{err: errors.New("the firewall does not answer")}, same).checked(t.Context())
	if run.State != state.RunFailed || run.Error != "the firewall does not answer" {
		t.Errorf("the check reads %+v", run)
	}
}

func TestCheck_OtherDataThanWasAppliedIsNotPlanned(t *testing.T) {
	planned := func() { t.Error("it is planned") }
	run := check(t, checker{plan: different(), then: planned}, map[string]string{"web-1": "old"}).checked(t.Context())
	if run.State != state.RunSuperseded || !strings.Contains(run.Error, "service instances") || run.Found != nil {
		t.Errorf("the check reads %+v", run)
	}
}

func TestCheck_CanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	run := check(t, checker{err: errors.New("interrupted"), then: cancel}, same).checked(ctx)
	if run.State != state.RunInterrupted {
		t.Errorf("the check reads %+v", run)
	}
}

func TestDriftOf_IsBoundedAndTheSameForOtherValues(t *testing.T) {
	long := strings.Repeat("é", 5000)
	var all []driver.ResourceChange
	for range 1000 {
		r := driver.ResourceChange{Address: long, Action: driver.Update}
		for range 100 {
			r.Attributes = append(r.Attributes, driver.AttributeChange{Path: long, Before: "a", After: "b"})
		}
		all = append(all, r)
	}
	found := driftOf(driver.Plan{Resources: all, Changes: driver.Count(all)})
	if size := len(state.Encode(*found)); found.Count != 1000 || size > 50_000 {
		t.Errorf("%d resources in %d bytes", found.Count, size)
	}
	one, two := different(), different()
	two.Resources[1].Attributes[0].After = 3
	if driftOf(one).Digest != driftOf(two).Digest {
		t.Error("another value makes it other drift: a plan that always differs would be applied again and again")
	}
	two.Drift[0].Attributes[0].Path = "name"
	if driftOf(one).Digest == driftOf(two).Digest {
		t.Error("another attribute is the same drift")
	}
	if found := driftOf(driver.Plan{Changes: &state.Changes{}}); found != nil {
		t.Errorf("an empty plan is drift: %+v", found)
	}
}

// A token of HCP Terraform that may not read a plan leaves only its numbers.
func TestDriftOf_NumbersAlone(t *testing.T) {
	numbers := func(destroy int) *state.Drifted {
		return driftOf(driver.Plan{Changes: &state.Changes{Add: 1, Destroy: destroy}})
	}
	if found := numbers(2); found.Resources == nil || found.String() != "3 resources differ" {
		t.Errorf("found %+v: %s", found, found)
	}
	if numbers(2).Digest == numbers(3).Digest {
		t.Error("other numbers are the same drift")
	}
}
