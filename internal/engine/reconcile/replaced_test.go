package reconcile

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

var (
	oldConsul = state.Identity{Cluster: "old", Index: 100}
	newConsul = state.Identity{Cluster: "new", Index: 15}
)

func TestConsulReplaced_IsSeenByClusterAndIndex(t *testing.T) {
	const here, there = "", "dc2"
	known := map[string]state.Identity{here: oldConsul, there: {Index: 1000}}
	held := &state.Replaced{Since: noon, Why: "before", Now: map[string]state.Identity{here: newConsul}}
	byIndex := &state.Replaced{Since: noon, Why: "before", Now: map[string]state.Identity{there: {Index: 10}}}
	for _, c := range []struct {
		name   string
		was    *state.Replaced
		shown  map[string]state.Identity
		marked int      // tasks that an earlier replacement holds
		want   []string // datacenters
	}{
		{"nothing was identified", nil, nil, 0, nil},
		{"the same", nil, known, 0, nil},
		{"the same, and the record of an earlier replacement was not written", nil, known, 1, nil},
		{"another cluster", nil, map[string]state.Identity{here: newConsul}, 0, []string{here}},
		{"the index of another datacenter is near 0", nil, map[string]state.Identity{here: oldConsul, there: {Index: 10}}, 0, []string{there}},
		{"a datacenter that is new", nil, map[string]state.Identity{"dc3": {Index: 10}}, 0, nil},
		{"still replaced", held, map[string]state.Identity{here: {Cluster: "new", Index: 99}}, 0, []string{here}},
		{"replaced, and not identified", held, nil, 0, []string{here}},
		{"Consul of before is back", held, map[string]state.Identity{here: {Cluster: "old", Index: 101}}, 0, nil},
		{"Consul of before is back, and had replaced another one", held, map[string]state.Identity{here: {Cluster: "old", Index: 101}}, 2, []string{here}},
		{"replaced once more", held, map[string]state.Identity{here: {Cluster: "third", Index: 9}}, 0, []string{here}},
		{"the index grows", byIndex, map[string]state.Identity{there: {Index: 1001}}, 0, []string{there}},
	} {
		got := consulReplaced(state.Reconcile{Consuls: known, Replaced: c.was}, c.shown, c.marked, noon)
		var in []string
		if got != nil {
			in = slices.Sorted(maps.Keys(got.Now))
		}
		if !slices.Equal(in, c.want) || got.HoldsAll() != (c.want != nil && c.marked == 0) {
			t.Errorf("%s: replaced in %q, want %q; %+v", c.name, in, c.want, got)
		}
		if got != nil && (got.Why == "" || !got.Since.Equal(noon)) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// replacedBench has 3 tasks that were applied with what an old Consul showed. Then
// another Consul shows something else.
func replacedBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, tasks(3)...)
	b.catalog.identity = oldConsul
	b.settle()
	for _, name := range []string{"task-0", "task-1", "task-2"} {
		if err := state.SaveInputs(t.Context(), b.store, name, state.Inputs{Elements: map[string]string{"A": "1"}}); err != nil {
			t.Fatal(err)
		}
	}
	b.launcher.forget()
	b.catalog.identity = newConsul
	b.catalog.set("B", nil)
	return b
}

func (b *bench) record() state.Reconcile {
	b.t.Helper()
	rec, err := state.ReadReconcile(b.t.Context(), b.store)
	if err != nil {
		b.t.Fatal(err)
	}
	return rec.Data
}

func (b *bench) approveAll() {
	b.t.Helper()
	c := &control.Control{Store: b.store, Now: b.Now}
	if err := c.ApproveAll(b.t.Context(), identity.Identity{Name: "alice"}, ""); err != nil {
		b.t.Fatal(err)
	}
}

func TestTick_ReplacedConsulIsSaidOnceAndHoldsEverything(t *testing.T) {
	b := replacedBench(t)
	events := &recorder{}
	b.Reconciler = b.another(b.Config.Tasks) // also at the first tick of another process
	b.Sinks = func() []outbox.Sink { return []outbox.Sink{events} }
	b.tick()
	b.now = b.now.Add(refreshEvery + time.Second)
	b.tick()
	if n := len(b.launcher.launches()); n != 0 {
		t.Fatalf("%d launches", n)
	}
	if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 3 || rec.Replaced.Entries != 3 || rec.Consuls[""] != oldConsul || rec.Tasks.Phases["waiting"] != 3 {
		t.Errorf("%+v, %+v", rec.Replaced, rec)
	}
	if got := events.count(outbox.ConsulReplaced); got != 1 {
		t.Errorf("it was said %d times", got)
	}
	// The data comes back.
	b.catalog.set("A", nil)
	b.tick()
	if rec := b.record(); rec.Replaced != nil || rec.Consuls[""] != newConsul || len(b.launcher.launches()) != 0 {
		t.Errorf("%+v, %d launches", rec, len(b.launcher.launches()))
	}
	if got := events.count(outbox.ConsulRestored); got != 1 {
		t.Errorf("the end was said %d times", got)
	}
	// From now on, what goes is gone.
	b.catalog.set("B", nil)
	b.tick()
	if len(b.launcher.launches()) == 0 {
		t.Error("an ordinary change is held")
	}
}

func TestTick_ApprovalOfAReplacedConsulAppliesToWhatWasShown(t *testing.T) {
	b := replacedBench(t)
	events := &recorder{}
	b.Sinks = func() []outbox.Sink { return []outbox.Sink{events} }
	people := &control.Control{Store: b.store, Now: b.Now}
	if err := people.ApproveAll(t.Context(), identity.Identity{Name: "alice"}, ""); !errors.Is(err, control.ErrNotReplaced) {
		t.Errorf("before it is held: %v", err)
	}
	b.tick()
	b.approveAll()
	b.approveAll() // harmless
	b.catalog.set("C", nil)
	b.tick()
	if rec := b.record(); rec.Replaced == nil || rec.Replaced.Approved != nil || len(b.launcher.launches()) != 0 {
		t.Errorf("other data than was approved: %+v", rec.Replaced)
	}
	if got := events.count(outbox.ConsulReplaced); got != 2 {
		t.Errorf("that it was not used was said %d times", got-1)
	}
	b.approveAll()
	b.tick()
	launches := b.launcher.launches()
	if len(launches) == 0 || len(launches[0].Runs) != 3 || launches[0].Replaced != nil || launches[0].Consuls[""] != newConsul {
		t.Fatalf("%+v", launches)
	}
	run, err := state.Read[state.Run](t.Context(), b.store, state.RunKey("task-1", launches[0].Runs[1].ID))
	if err != nil || run.Data.Approval == nil || run.Data.Approval.By != "alice" || run.Data.Approval.Content.Input == "" || run.Data.Approval.Content.Plan != "" {
		t.Errorf("%+v, %v", run.Data.Approval, err)
	}
	if rec := b.record(); rec.Replaced != nil || events.count(outbox.ConsulAccepted) != 1 {
		t.Errorf("%+v", rec.Replaced)
	}
}

func TestTick_AnotherConsulWithEverythingIsTheConsulFromNowOn(t *testing.T) {
	b := replacedBench(t)
	b.catalog.set("A", nil)
	b.now = b.now.Add(refreshEvery + time.Second)
	b.tick()
	if rec := b.record(); rec.Replaced != nil || rec.Consuls[""] != newConsul {
		t.Errorf("%+v", rec)
	}
}

func TestTick_HoldOfAReplacedConsulEndsOnlyIfItIsKnownWhichConsulHasTheData(t *testing.T) {
	b := replacedBench(t)
	b.tick()
	b.catalog.set("A", nil)
	b.catalog.hidden = errors.New("no answer")
	b.now = b.now.Add(refreshEvery + time.Second)
	b.tick()
	if rec := b.record(); rec.Replaced == nil || rec.Consuls[""] != oldConsul {
		t.Errorf("the hold ended: %+v, %+v", rec.Replaced, rec.Consuls)
	}
	b.catalog.hidden = nil
	b.now = b.now.Add(refreshEvery + time.Second)
	b.tick()
	if rec := b.record(); rec.Replaced != nil || rec.Consuls[""] != newConsul {
		t.Errorf("the hold goes on: %+v, %+v", rec.Replaced, rec.Consuls)
	}
}

func TestTick_ConsulThatIsReplacedWhileItIsReadIsReadAgain(t *testing.T) {
	for name, approved := range map[string]bool{"nothing was lost before": false, "what was lost before is approved": true} {
		b := replacedBench(t)
		third := state.Identity{Cluster: "third", Index: 12}
		if approved {
			b.tick()
			b.approveAll()
		} else {
			b.catalog.identity = oldConsul
			b.catalog.set("A", nil)
			b.now = b.now.Add(refreshEvery + time.Second)
		}
		b.catalog.after = func(c *catalog) { c.digest, c.identity = "C", third }
		b.tick()
		b.tick()
		if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 3 || rec.Consuls[""] != oldConsul || len(b.launcher.launches()) != 0 {
			t.Errorf("%s: %+v, %+v, %d launches", name, rec.Replaced, rec.Consuls, len(b.launcher.launches()))
		}
	}
}

func TestTick_HoldGoesOnIfConsulIsReplacedOnceMoreWithASlightlyLowerIndex(t *testing.T) {
	b := replacedBench(t)
	b.catalog.identity = state.Identity{Index: 15} // Connect is off
	b.tick()
	b.catalog.set("A", nil) // everything is back
	b.now = b.now.Add(refreshEvery + time.Second)
	b.catalog.after = func(c *catalog) { c.digest, c.identity = "C", state.Identity{Index: 12} }
	b.tick()
	b.tick()
	if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 3 || len(b.launcher.launches()) != 0 {
		t.Errorf("the hold ended: %+v, %+v, %d launches", rec.Replaced, rec.Consuls, len(b.launcher.launches()))
	}
}

func TestTick_DataOfAConsulThatAnswersForAMomentEndsNoHold(t *testing.T) {
	b := replacedBench(t)
	b.catalog.identity = state.Identity{Index: 21} // Connect is off
	reads := 0
	b.catalog.after = func(c *catalog) {
		switch reads++; reads {
		case 1:
			c.digest = "A" // the Consul of before answers the second read of this tick
		case 2:
			c.digest, c.identity = "C", state.Identity{Index: 15}
		}
	}
	b.tick()
	b.now = b.now.Add(refreshEvery + time.Second)
	b.tick()
	if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 3 || len(b.launcher.launches()) != 0 {
		t.Errorf("the hold ended: %+v, %+v, %d launches", rec.Replaced, rec.Consuls, len(b.launcher.launches()))
	}
}

func TestTick_TaskThatCannotBeReadWhenTheRestIsApprovedIsHeldOn(t *testing.T) {
	b := replacedBench(t)
	events := &recorder{}
	b.Sinks = func() []outbox.Sink { return []outbox.Sink{events} }
	b.catalog.closed = 2
	b.tick()
	b.approveAll()
	b.tick()
	launches := b.launcher.launches()
	if len(launches) != 1 || len(launches[0].Runs) != 2 || events.count(outbox.ConsulAccepted) != 1 {
		t.Fatalf("%+v, %d events", launches, events.count(outbox.ConsulAccepted))
	}
	if rec := b.record(); rec.Replaced == nil || rec.Replaced.Unconfirmed != 1 || !b.task("task-1").Unconfirmed || rec.Consuls[""] != newConsul {
		t.Fatalf("%+v, %+v", rec.Replaced, rec.Consuls)
	}
	if r := launches[0].Replaced; r.HoldsAll() || launches[0].Runs[0].Unconfirmed || launches[0].Runs[1].Unconfirmed {
		t.Errorf("the launch has %+v", launches[0])
	}
	if err := (&control.Control{Store: b.store, Now: b.Now}).ApproveAll(t.Context(), identity.Identity{Name: "alice"}, ""); !errors.Is(err, control.ErrNotReplaced) {
		t.Errorf("nothing more is held: %v", err)
	}

	b.catalog.closed = 0
	b.now = b.now.Add(pollMin)
	b.tick()
	if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 1 || b.task("task-1").Reason.Code != state.ReasonReplaced || events.count(outbox.ConsulReplaced) != 2 {
		t.Errorf("%+v: %+v, said %d times", rec.Replaced, b.task("task-1").Reason, events.count(outbox.ConsulReplaced))
	}
	b.approveAll()
	b.tick()
	if rec := b.record(); rec.Replaced != nil || b.task("task-1").Accepted == nil || events.count(outbox.ConsulAccepted) != 2 {
		t.Errorf("%+v, %+v", rec.Replaced, b.task("task-1"))
	}
}

func TestTick_WhoChangedATaskDoesNotApproveItsLossWhereAnotherPersonMust(t *testing.T) {
	b := replacedBench(t)
	events := &recorder{}
	b.Sinks = func() []outbox.Sink { return []outbox.Sink{events} }
	b.Config.Tasks[1].Approval.DistinctApprover = true
	b.overridden(state.Override{Task: "task-1", By: "alice", Enabled: new(true)})
	b.tick()
	b.approveAll()
	b.tick()
	if runs := b.launcher.launches()[0].Runs; len(runs) != 2 || b.begun("task-1") != 0 || b.task("task-1").Reason.Code != state.ReasonReplaced {
		t.Fatalf("%+v; task-1: %+v", runs, b.task("task-1").Reason)
	}
	if rec := b.record(); rec.Replaced == nil || !slices.Equal(rec.Replaced.Names, []string{"task-1"}) || events.count(outbox.ConsulReplaced) != 2 {
		t.Fatalf("%+v; said %d times", rec.Replaced, events.count(outbox.ConsulReplaced))
	}
	b.approveAll() // by alice, once more
	b.tick()
	if b.begun("task-1") != 0 || events.count(outbox.ConsulReplaced) != 3 {
		t.Fatalf("%d runs began, said %d times", b.begun("task-1"), events.count(outbox.ConsulReplaced))
	}
	b.must((&control.Control{Store: b.store, Now: b.Now}).ApproveAll(t.Context(), identity.OfToken("bob"), ""))
	b.tick()
	if b.begun("task-1") != 1 || b.record().Replaced != nil {
		t.Errorf("bob has approved it: %+v", b.task("task-1").Reason)
	}
}

func TestTick_LossIsNotApprovedByTokensThatAreRevokedOrWereMadeForIt(t *testing.T) {
	b := replacedBench(t)
	_, ann, err := b.tokens().Create(t.Context(), "ann", "eve", time.Time{})
	b.must(err)
	_, bob, err := b.tokens().Create(t.Context(), "bob", "eve", time.Time{})
	b.must(err)
	b.Config.Tasks[1].Approval.Require = 2
	b.now = b.now.Add(time.Minute)
	b.tick()
	b.now = b.now.Add(time.Minute)
	_, late, err := b.tokens().Create(t.Context(), "late", "eve", time.Time{})
	b.must(err)
	approve := func(who identity.Identity) {
		b.must((&control.Control{Store: b.store, Now: b.Now}).ApproveAll(t.Context(), who, ""))
		b.tick()
	}
	approve(ann.Identity())
	b.must(b.tokens().Revoke(t.Context(), "ann", "eve"))
	approve(bob.Identity())
	approve(late.Identity())
	if b.begun("task-1") != 0 || b.task("task-1").Reason.Code != state.ReasonReplaced {
		t.Fatalf("one valid token has approved it: %+v", b.task("task-1").Reason)
	}
	approve(identity.OfToken("api.token"))
	if b.begun("task-1") != 1 || b.record().Replaced != nil {
		t.Errorf("two have approved it: %+v", b.task("task-1").Reason)
	}
}

func TestTick_RunThatHasReadTheConsulOfBeforeIsAwaited(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"": 0, "its clock was set back since": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := replacedBench(t)
			events := &recorder{}
			b.Sinks = func() []outbox.Sink { return []outbox.Sink{events} }
			b.catalog.identity = oldConsul
			b.catalog.set("A", nil)
			b.now = b.now.Add(ahead)
			b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-0": "Jo"}}))
			launch := b.launcher.launches()[0]
			b.claimed(launch.Runs[0], "container")
			b.launcher.forget()
			b.launcher.status = map[string]LaunchStatus{launch.ID: {Running: true}}

			// The run has read more than was applied before, which the new Consul shows.
			b.catalog.identity = newConsul
			b.now = b.now.Add(refreshEvery + time.Second - ahead)
			b.tick()
			if rec := b.record(); rec.Replaced == nil || rec.Replaced.Unconfirmed != 1 || rec.Consuls[""] != newConsul || events.count(outbox.ConsulReplaced) != 0 {
				t.Fatalf("%+v, %+v, said %d times", rec.Replaced, rec.Consuls, events.count(outbox.ConsulReplaced))
			}
			if err := state.SaveInputs(t.Context(), b.store, "task-0", state.Inputs{Elements: map[string]string{"A": "1", "B": "1"}}); err != nil {
				t.Fatal(err)
			}
			b.end(state.RunSucceeded, "AB")
			b.must(b.Tick(t.Context(), TickOptions{Ended: true}))
			if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 1 || len(b.launcher.launches()) != 0 || events.count(outbox.ConsulReplaced) != 1 {
				t.Errorf("%+v, %d launches, said %d times", rec.Replaced, len(b.launcher.launches()), events.count(outbox.ConsulReplaced))
			}
		})
	}
}
