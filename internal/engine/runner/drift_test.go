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

func TestCheck_FindsWhatDiffers(t *testing.T) {
	b := check(t, checker{plan: different()}, same)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	task, run := b.task(), b.stored("r1")
	found := task.Drifted()
	if found == nil || found.Count != 2 || found.Run != "r1" || !found.Since.Equal(noon) ||
		found.String() != "2 resources differ: a.gone (is missing), a.other (port)" || found.Changes.Add != 1 || found.Changes.Change != 1 {
		t.Errorf("found is %+v", found)
	}
	if task.Drift.Run != nil || !task.Drift.After.Equal(noon) || task.Applied != "A" || task.Last != nil || len(task.History) > 0 || task.Recheck {
		t.Errorf("the task reads %+v, %+v", task, task.Drift)
	}
	if run.State != state.RunSucceeded || run.PlanData == (state.Kept{}) {
		t.Errorf("the check reads %+v", run)
	}
	if told := b.told(); !strings.Contains(told, "drift_found") || strings.Contains(told, "run_succeeded") {
		t.Errorf("events: %s", told)
	}

	// The next check finds nothing, and removes the earlier one.
	b.intend("r2", b.task())
	b.intendKind(state.KindDrift)
	b.Driver = checker{plan: driver.Plan{Resources: []driver.ResourceChange{}, Changes: &state.Changes{}}}
	b.underCheck("r2")
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.task().Drifted() != nil || !strings.Contains(b.told(), "drift_ended") {
		t.Errorf("the task reads %+v; events: %s", b.task().Drift, b.told())
	}
	if run := b.stored("r1"); run.ID != "" {
		t.Errorf("the check before reads %+v", run)
	}
}

func TestCheck_FailedOneIsNoFailureOfTheTask(t *testing.T) {
	b := check(t, checker{err: errors.New("the firewall does not answer")}, same)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	task := b.task()
	if task.Failures > 0 || !task.RetryAt.IsZero() || task.Drift.Error != "the firewall does not answer" || !task.Drift.After.Equal(noon) || b.stored("r1").State != state.RunFailed {
		t.Errorf("the task reads %+v, %+v", task, task.Drift)
	}
	if told := b.told(); !strings.Contains(told, "drift_check_failed") || strings.Contains(told, "run_failed") {
		t.Errorf("events: %s", told)
	}
}

func TestCheck_OtherDataThanWasAppliedIsNotPlanned(t *testing.T) {
	b := check(t, checker{plan: different(), then: func() { t.Error("it is planned") }}, map[string]string{"web-1": "old"})
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	task := b.task()
	if task.Drifted() != nil || !strings.Contains(task.Drift.Skipped, "service instances") || task.Drift.Error != "" || b.stored("r1").State != state.RunSuperseded || b.told() != "" {
		t.Errorf("the task reads %+v; events: %s", task.Drift, b.told())
	}
}

func TestCheck_OutcomeIsDroppedIfTheTaskHasRunSince(t *testing.T) {
	for name, meanwhile := range map[string]func(*state.Task){
		"a run begins": func(s *state.Task) { *s = s.WithoutCheck(); s.Run = &state.LiveRun{ID: "r7"} },
		"a run succeeds": func(s *state.Task) {
			*s, _ = s.Conclude(state.Run{ID: "r7", Kind: state.KindApply, State: state.RunSucceeded, Times: state.Times{Ended: noon}}, "def")
		},
		"another check": func(s *state.Task) { d := *s.Drift; d.Run = &state.LiveRun{ID: "r8"}; s.Drift = &d },
		"checks end":    func(s *state.Task) { s.Drift = nil },
		"the task is renamed": func(s *state.Task) {
			_, *s = state.Rename{From: "web", To: "new", At: noon}.Take(*s, state.Task{})
		},
	} {
		var b *fixture
		b = check(t, checker{plan: different(), then: func() {
			task, err := state.Read[state.Task](t.Context(), b.store, state.TaskKey("web"))
			if err != nil {
				t.Fatal(err)
			}
			next := task.Data
			meanwhile(&next)
			if _, err := b.store.Apply(t.Context(), task.Write(next)); err != nil {
				t.Fatal(err)
			}
		}}, same)
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b.task().Drifted() != nil || b.told() != "" || b.stored("r1").State != state.RunSucceeded {
			t.Errorf("%s: the task reads %+v, the check %+v; events: %s", name, b.task().Drift, b.stored("r1"), b.told())
		}
	}
}

func TestCheck_InterruptedOneIsDueAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := check(t, checker{err: errors.New("interrupted"), then: cancel}, same)
	if err := b.run(ctx); err != nil {
		t.Fatal(err)
	}
	if d := b.task().Drift; d.Run != nil || !d.After.Before(noon) || !d.Interrupted || d.Error != "" || b.told() != "" {
		t.Errorf("the task reads %+v; events: %s", d, b.told())
	}
}

// TestCheck_InterruptedTwiceWaitsForItsNextTime has a check that takes longer than the process lives
// that waits for it, as a function in AWS may: it must not be begun again for ever.
func TestCheck_InterruptedTwiceWaitsForItsNextTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := check(t, checker{err: errors.New("the time of the function is over"), then: cancel}, same)
	task, err := state.Read[state.Task](t.Context(), b.store, state.TaskKey("web"))
	if err != nil {
		t.Fatal(err)
	}
	next := task.Data
	next.Drift.Interrupted = true
	if _, err := b.store.Apply(t.Context(), task.Write(next)); err != nil {
		t.Fatal(err)
	}
	if err := b.run(ctx); err != nil {
		t.Fatal(err)
	}
	d, run := b.task().Drift, b.stored("r1")
	if d.Run != nil || d.After.Before(noon) || d.Interrupted || run.State != state.RunFailed || !strings.Contains(d.Error, "takes longer than the process lives") ||
		!strings.Contains(d.Error, "the time of the function is over") || !strings.Contains(b.told(), string(outbox.DriftCheckFailed)) {
		t.Errorf("the task reads %+v, the check %s: %s; events: %s", d, run.State, run.Error, b.told())
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
