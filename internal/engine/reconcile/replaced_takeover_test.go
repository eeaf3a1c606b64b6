package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestTakeover_NewLeaderDoesNotAcceptAReplacedConsul(t *testing.T) {
	for name, before := range map[string]func(*bench){
		"which the leader of before has seen": (*bench).wasSeen,
		"which nobody has seen":               func(*bench) {},
		"which answers again after an outage": func(b *bench) {
			b.wasSeen()
			b.catalog.set("", errors.New("connection refused"))
			b.leads()
			b.catalog.set("B", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := replacedBench(t)
			before(b)
			b.leads()
			rec := b.record()
			if rec.Replaced == nil || !rec.Replaced.HoldsAll() || rec.Replaced.Tasks != 3 || rec.Consuls[""] != oldConsul || len(b.launcher.launches()) != 0 {
				t.Fatalf("%+v, %+v, %d launches", rec.Replaced, rec.Consuls, len(b.launcher.launches()))
			}
			// A person decides about it, as before.
			b.approveAll()
			b.leads()
			if rec := b.record(); rec.Replaced != nil || rec.Consuls[""] != newConsul || b.begun("task-0") != 1 {
				t.Errorf("once it is approved: %+v, %+v, %d runs", rec.Replaced, rec.Consuls, b.begun("task-0"))
			}
		})
	}
}

// wasSeen has the leader see that Consul was replaced.
func (b *bench) wasSeen() {
	b.t.Helper()
	if b.tick(); b.record().Replaced == nil {
		b.t.Fatal("it was not seen that Consul was replaced")
	}
}

func TestTakeover_NewLeaderSaysOnceThatConsulWasReplaced(t *testing.T) {
	b := replacedBench(t)
	events := &recorder{}
	heard := func() []outbox.Sink { return []outbox.Sink{events} }
	b.Sinks = heard
	b.wasSeen()
	since := b.record().Replaced.Since
	b.now = b.now.Add(time.Minute)
	b.Reconciler = b.another(b.Config.Tasks)
	b.Sinks = heard
	b.must(b.Tick(t.Context(), TickOptions{Leads: true}))
	if r, n := b.record().Replaced, events.count(outbox.ConsulReplaced); n != 1 || r == nil || !r.Since.Equal(since) {
		t.Errorf("it was said %d times; %+v, want it since %s", n, r, since)
	}
}

func TestTakeover_TaskThatCouldNotBeReadIsHeldOnByTheNewLeader(t *testing.T) {
	for name, readable := range map[string]bool{"it can be read later": false, "it can be read at once": true} {
		t.Run(name, func(t *testing.T) {
			b := replacedBench(t)
			b.catalog.closed = 2
			b.wasSeen()
			b.approveAll()
			b.tick()
			b.end(state.RunSucceeded, "B")
			if rec := b.record(); rec.Replaced == nil || rec.Replaced.Unconfirmed != 1 || !b.task("task-1").Unconfirmed {
				t.Fatalf("%+v, %+v", rec.Replaced, b.task("task-1"))
			}
			b.launcher.forget()
			b.now = b.now.Add(time.Minute)
			if !readable {
				b.leads()
				if rec := b.record(); rec.Replaced == nil || rec.Replaced.Unconfirmed != 1 || !b.task("task-1").Unconfirmed {
					t.Fatalf("%+v, %+v", rec.Replaced, b.task("task-1"))
				}
				b.now = b.now.Add(refreshEvery)
			}
			b.catalog.closed = 0
			b.leads()
			if r := b.task("task-1").Reason; b.begun("task-1") != 0 || r.Code != state.ReasonReplaced {
				t.Fatalf("%d runs begin: %+v", b.begun("task-1"), r)
			}
			b.approveAll()
			b.tick()
			if rec := b.record(); b.begun("task-1") != 1 || rec.Replaced != nil {
				t.Errorf("once it is approved: %d runs begin, %+v", b.begun("task-1"), rec.Replaced)
			}
		})
	}
}

// In each case, a leader is frozen right before it writes, until another one has taken over.
func TestTakeover_LeaderOfBeforeOverwritesNothingAboutAReplacedConsul(t *testing.T) {
	frozen := func(b *bench, write string, meanwhile func()) {
		b.t.Helper()
		before := b.Reconciler
		b.at(write, func() {
			b.now = b.now.Add(b.LeaseTTL + time.Second)
			b.Reconciler = b.another(b.Config.Tasks)
			meanwhile()
			b.must(b.Tick(b.t.Context(), TickOptions{Leads: true}))
		})
		if _, err := before.Tick(b.t.Context(), TickOptions{Leads: true}); !errors.Is(err, lease.ErrLost) {
			b.t.Fatalf("the leader of before writes: %v", err)
		}
	}
	t.Run("it has read the Consul of before", func(t *testing.T) {
		b := replacedBench(t)
		b.catalog.identity = oldConsul
		b.catalog.set("A", nil)
		b.now = b.now.Add(refreshEvery)
		frozen(b, "write reconcile/", func() {
			b.catalog.identity = newConsul
			b.catalog.set("B", nil)
		})
		b.tick()
		if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 3 || rec.Consuls[""] != oldConsul || len(b.launcher.launches()) != 0 {
			t.Errorf("%+v, %+v, %d launches", rec.Replaced, rec.Consuls, len(b.launcher.launches()))
		}
	})
	t.Run("it uses an approval that is void by now", func(t *testing.T) {
		b := replacedBench(t)
		b.wasSeen()
		b.approveAll()
		frozen(b, "write task/", func() { b.catalog.set("C", nil) })
		b.tick()
		if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 3 || rec.Replaced.Approved != nil || rec.Consuls[""] != oldConsul || len(b.launcher.launches()) != 0 {
			t.Errorf("%+v, %+v, %d launches", rec.Replaced, rec.Consuls, len(b.launcher.launches()))
		}
	})
	t.Run("it has read a task that cannot be read by now", func(t *testing.T) {
		b := replacedBench(t)
		b.catalog.closed = 2
		b.wasSeen()
		b.approveAll()
		b.tick()
		b.end(state.RunSucceeded, "B")
		b.launcher.forget()
		b.catalog.closed = 0
		b.catalog.set("A", nil) // everything is back
		b.now = b.now.Add(refreshEvery)
		frozen(b, "write task/", func() {
			b.catalog.closed = 2
			b.catalog.set("B", nil)
		})
		b.catalog.closed = 0
		b.now = b.now.Add(refreshEvery)
		b.tick()
		if r := b.task("task-1").Reason; b.begun("task-1") != 0 || r.Code != state.ReasonReplaced {
			t.Errorf("%d runs begin: %+v", b.begun("task-1"), r)
		}
	})
}
