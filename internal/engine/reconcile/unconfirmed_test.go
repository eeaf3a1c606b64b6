package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// denied is a Consul that denies the service api, and no gate.
type denied struct{ *catalog }

func (p denied) Observe(ctx context.Context, queries []consul.Query) []consul.Answer {
	hidden, _ := consul.ConditionQuery(&readsAPI(tasks(1))[0])
	answers := p.catalog.Observe(ctx, queries)
	for i := range answers {
		if queries[i].ID() == hidden.ID() {
			answers[i] = consul.Answer{Err: errors.New("permission denied")}
		}
	}
	return answers
}

// readsAPI makes tasks read the service api.
func readsAPI(tasks []config.Task) []config.Task {
	for i := range tasks {
		tasks[i].Condition.Spec = condition.Services{{Names: []string{"api"}}}
	}
	return tasks
}

// appliedWith records that the tasks were applied with the entry A.
func (b *bench) appliedWith(tasks ...config.Task) {
	b.t.Helper()
	for _, task := range tasks {
		b.must(state.SaveInputs(b.t.Context(), b.store, task.Name, state.Inputs{Elements: map[string]string{"A": "1"}, Kind: "services"}))
	}
}

func TestTick_UnreadableTaskDoesNotHideAReplacedConsul(t *testing.T) {
	all := tasks(2)
	readsAPI(all[1:])
	b := newBench(t, all...)
	b.catalog.identity = state.Identity{Index: 100} // Connect is off
	b.settle()
	b.appliedWith(all[0])
	b.Consul = denied{b.catalog}
	for i := range 12 { // for weeks
		b.catalog.identity.Index = uint64(100_000 * (i + 1))
		b.now = b.now.Add(refreshEvery + time.Second)
		b.tick()
	}
	if got := b.record().Consuls[""].Index; got != 1_200_000 {
		t.Errorf("index %d is recorded, of 1200000", got)
	}
	// An empty Consul, in which agents have registered some services again.
	b.catalog.identity.Index = 3000
	b.catalog.set("B", nil)
	b.launcher.forget()
	b.now = b.now.Add(time.Minute)
	b.tick()
	if n := b.launchedRuns()["task-0"]; n > 0 || b.record().Replaced == nil || b.task("task-0").Reason.Code != state.ReasonReplaced {
		t.Errorf("%d runs of a task that loses entries by a replaced Consul: %+v", n, b.task("task-0").Reason)
	}
}

func TestTick_UnreadableTaskIsReadLessAndLessOften(t *testing.T) {
	all := tasks(20)
	readsAPI(all[19:])
	b := newBench(t, all...)
	b.settle()
	b.Consul = denied{b.catalog}
	b.now = b.now.Add(refreshEvery)
	b.tick()
	if got := b.task("task-19"); got.Reason.Code != state.ReasonUnreadable {
		t.Fatalf("%+v", got.Reason)
	}
	busy, written := 0, b.taskRecord("task-19").Version
	for range 14 {
		b.now = b.now.Add(20 * time.Second)
		if !b.tick().Idle {
			busy++
		}
	}
	if busy > 4 {
		t.Errorf("%d of 14 ticks were not idle because of one task", busy)
	}
	if got := b.taskRecord("task-19"); got.Version != written {
		t.Errorf("its record was written again: %+v", got.Data)
	}
	// It is found that the task can be read again, though no gate has moved.
	b.Consul = b.catalog
	waited := b.until(func() bool { b.tick(); return b.task("task-19").Observed.UnreadableSince.IsZero() })
	if waited > refreshEvery {
		t.Errorf("that was found after %s", waited)
	}
}

func TestTick_TasksThatCannotBeReadDoNotFillTheRecord(t *testing.T) {
	const n = 300 // whose names are together many times as long as the record may be
	all := tasks(n)
	for i := range all {
		all[i].Name = fmt.Sprintf("%s-%06d", "firewall-policy-of-site-frankfurt-for-the-tenants-of-the-second-building-and-of-all-the-other-ones-there", i)
	}
	readsAPI(all[2:])
	b := newBench(t, all...)
	b.catalog.identity = oldConsul
	b.settle()
	b.appliedWith(all[:4]...)
	b.now = b.now.Add(refreshEvery)
	b.tick()
	// Consul is replaced, and its access control shows two tasks.
	b.catalog.set("B", nil)
	b.catalog.identity = newConsul
	b.Consul = denied{b.catalog}
	b.launcher.forget()
	b.tick()
	b.approveAll()
	for range 3 {
		b.now = b.now.Add(time.Minute)
		b.tick()
	}
	if got := b.launchedRuns(); len(got) != 2 || b.record().Replaced.Unconfirmed != n-2 {
		t.Errorf("runs of %d tasks, and %d that are held on", len(got), b.record().Replaced.Unconfirmed)
	}
	if size := len(state.Encode(b.record())); size > 5000 {
		t.Errorf("the reconcile record has %d bytes", size)
	}
	// The rights are back: what these tasks lose was not approved.
	b.end(state.RunSucceeded, "B")
	b.Consul = b.catalog
	b.launcher.forget()
	b.now = b.now.Add(refreshEvery)
	b.tick()
	for i, want := range []state.ReasonCode{state.ReasonUnchanged, state.ReasonUnchanged, state.ReasonReplaced, state.ReasonReplaced} {
		if got := b.task(all[i].Name); got.Reason.Code != want || got.Unconfirmed != (want == state.ReasonReplaced) {
			t.Errorf("%s: %+v, want %s", all[i].Name, got.Reason, want)
		}
	}
}

func TestTick_UnreadableTaskHoldsNoOtherAfterConsulWasReplaced(t *testing.T) {
	all := tasks(3)
	readsAPI(all[2:])
	b := newBench(t, all...)
	b.catalog.identity = oldConsul
	b.settle()
	b.appliedWith(all...)
	b.Consul = denied{b.catalog}
	b.catalog.identity = newConsul // with everything in it
	b.now = b.now.Add(refreshEvery + time.Second)
	b.tick()
	if rec := b.record(); rec.Consuls[""] != newConsul || rec.Replaced == nil || rec.Replaced.Unconfirmed != 1 || !b.task("task-2").Unconfirmed {
		t.Fatalf("%+v, %+v", rec.Consuls, rec.Replaced)
	}
	// Not everything is read by each tick.
	b.catalog.reads = 0
	b.must(b.people().Tick(t.Context()))
	b.tick()
	if b.catalog.reads > 2 { // the condition, and all inputs
		t.Errorf("%d views were read because of one task", b.catalog.reads)
	}
	// What the others lose from now on is gone; what the unreadable one loses is not.
	b.catalog.set("B", nil)
	b.launcher.forget()
	b.Consul = b.catalog
	b.tick()
	if got := b.launchedRuns(); len(got) != 2 || b.task("task-2").Reason.Code != state.ReasonReplaced {
		t.Errorf("%v, %+v", got, b.task("task-2").Reason)
	}
	// Its entries are back.
	b.catalog.set("A", nil)
	b.now = b.now.Add(time.Minute)
	b.tick()
	if rec := b.record(); rec.Replaced != nil || b.task("task-2").Unconfirmed {
		t.Errorf("%+v", rec.Replaced)
	}
}

func TestTick_TaskThatWasDisabledWhenConsulWasReplacedIsHeldOnceItIsEnabled(t *testing.T) {
	b := replacedBench(t)
	all := tasks(3)
	all[1].Enabled = false
	b.Reconciler = b.another(all)
	b.tick()
	b.approveAll()
	b.tick()
	if got := b.launchedRuns(); len(got) != 2 || !b.task("task-1").Unconfirmed {
		t.Fatalf("%v, %+v", got, b.task("task-1"))
	}
	b.end(state.RunSucceeded, "B")
	b.Reconciler = b.another(tasks(3))
	b.now = b.now.Add(time.Minute)
	b.launcher.forget()
	b.tick()
	if got := b.launchedRuns(); len(got) != 0 || b.task("task-1").Reason.Code != state.ReasonReplaced {
		t.Errorf("%v, %+v", got, b.task("task-1").Reason)
	}
	b.approveAll()
	b.tick()
	if got := b.launchedRuns(); len(got) != 1 || b.record().Replaced != nil {
		t.Errorf("%v, %+v", got, b.record().Replaced)
	}
}

func TestTick_TaskThatWasRemovedWhenConsulWasReplacedIsHeldOnceItIsBack(t *testing.T) {
	b := replacedBench(t)
	b.catalog.identity = oldConsul
	b.catalog.set("A", nil)
	b.Reconciler = b.another(tasks(1))
	for range 2 { // a removal counts once it has lasted
		b.now = b.now.Add(refreshEvery)
		b.tick()
	}
	if !b.task("task-1").Gone.Final {
		t.Fatalf("%+v", b.task("task-1").Reason)
	}
	b.catalog.identity = newConsul
	b.catalog.set("B", nil)
	b.tick()
	b.approveAll()
	b.tick()
	if got := b.launchedRuns(); len(got) != 1 || b.record().Consuls[""] != newConsul {
		t.Fatalf("%v, %+v", got, b.record().Consuls)
	}
	b.end(state.RunSucceeded, "B")
	b.launcher.forget()

	b.Reconciler = b.another(tasks(2))
	b.now = b.now.Add(time.Minute)
	b.tick()
	if got := b.launchedRuns(); len(got) != 0 || b.task("task-1").Reason.Code != state.ReasonReplaced {
		t.Errorf("%v, %+v", got, b.task("task-1").Reason)
	}
	b.approveAll()
	b.tick()
	if got := b.launchedRuns(); got["task-1"] != 1 {
		t.Errorf("what it loses was approved: %v, %+v", got, b.task("task-1").Reason)
	}
	// Nothing is kept of a task that has made nothing any more.
	b.changeTask("task-2", func(s *state.Task) { s.Applied.At = time.Time{} })
	b.end(state.RunSucceeded, "B")
	b.now = b.now.Add(refreshEvery)
	b.tick()
	if rec := b.record(); rec.Replaced != nil {
		t.Errorf("%+v", rec.Replaced)
	}
}

func TestTick_TaskIsHeldOnThoughConsulWasReplacedOnceMoreForAWhile(t *testing.T) {
	b := replacedBench(t)
	events := &recorder{}
	b.Sinks = func() []outbox.Sink { return []outbox.Sink{events} }
	b.catalog.closed = 2
	b.tick()
	b.approveAll()
	b.tick()
	b.end(state.RunSucceeded, "B")
	for _, name := range []string{"task-0", "task-2"} {
		b.must(state.SaveInputs(t.Context(), b.store, name, state.Inputs{Elements: map[string]string{"B": "1"}}))
	}
	b.launcher.forget()

	b.catalog.identity = state.Identity{Cluster: "third", Index: 12}
	b.catalog.set("C", nil)
	b.now = b.now.Add(refreshEvery + time.Second)
	b.tick()
	if rec := b.record(); !rec.Replaced.HoldsAll() || rec.Replaced.Tasks != 2 || rec.Consuls[""] != newConsul {
		t.Fatalf("%+v, %+v", rec.Replaced, rec.Consuls)
	}
	restored := events.count(outbox.ConsulRestored)
	b.catalog.identity = newConsul
	b.catalog.set("B", nil)
	b.now = b.now.Add(time.Minute)
	b.tick()
	if rec := b.record(); rec.Replaced.HoldsAll() || !b.task("task-1").Unconfirmed || events.count(outbox.ConsulRestored) != restored+1 {
		t.Errorf("%+v; task-1: %+v; that Consul is back was said %d times", rec.Replaced, b.task("task-1").Reason, events.count(outbox.ConsulRestored)-restored)
	}
	b.catalog.closed = 0
	b.now = b.now.Add(refreshEvery)
	b.tick()
	if got := b.launchedRuns(); got["task-1"] != 0 || b.task("task-1").Reason.Code != state.ReasonReplaced {
		t.Errorf("%v, %+v", got, b.task("task-1").Reason)
	}
	b.approveAll()
	b.tick()
	if got := b.launchedRuns(); got["task-1"] != 1 || b.record().Replaced != nil {
		t.Errorf("%v, %+v", got, b.record().Replaced)
	}
}

func TestTick_TaskWhoseRecordWasChangedMeanwhileIsNotConfirmed(t *testing.T) {
	b := replacedBench(t)
	b.catalog.closed = 2
	b.tick()
	b.now = b.now.Add(time.Minute)
	b.approveAll()
	changed := false
	b.store.Before = func(changes []state.Change) error {
		for _, c := range changes {
			if c.Key == state.TaskKey("task-1") && !changed {
				changed = true
				b.changeTask("task-1", func(s *state.Task) { s.OnHold = &state.OnHold{By: "bob"} })
			}
		}
		return nil
	}
	b.tick()
	if !changed {
		t.Fatal("its record was not written")
	}
	if rec := b.record(); rec.Replaced == nil || !rec.Replaced.HoldsAll() || rec.Consuls[""] != oldConsul {
		t.Fatalf("%+v, %+v", rec.Replaced, rec.Consuls)
	}
	b.end(state.RunSucceeded, "B")
	b.now = b.now.Add(time.Second)
	b.tick()
	if rec := b.record(); rec.Replaced == nil || rec.Replaced.Unconfirmed != 1 || !b.task("task-1").Unconfirmed {
		t.Errorf("%+v, %+v", rec.Replaced, b.task("task-1"))
	}
}
