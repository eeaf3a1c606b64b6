package reconcile

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestLoop_StandbyTakesOverWhenTheLeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newLoopBench(t, tasks(2)...)
		first.start()
		other := first.another(first.Config.Tasks)
		other.Now = time.Now
		second := first.loop(other)
		second.start()
		pass(time.Minute)
		if len(second.stood) != 1 || second.stood[0] != first.Owner {
			t.Fatalf("told to stand by for %v, want once for %s", second.stood, first.Owner)
		}
		first.finish()
		first.end()
		pass(second.LeaseTTL / 4)
		if got := first.launched(); len(got) != 0 {
			t.Errorf("the second runs %v, though nothing has changed", got)
		}
		if held, err := lease.Read(t.Context(), first.store, state.LeaderLease); err != nil || held.Owner != other.Owner || held.Fence != 2 {
			t.Errorf("the lease reads %+v (%v)", held, err)
		}
	})
}

// However long a lease lasts, nobody waits for it who need not.
func TestLoop_LongLeaseDelaysOnlyTakeoverAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newLoopBench(t, tasks(1)...)
		first.LeaseTTL = time.Hour
		first.start()
		other := first.another(first.Config.Tasks)
		other.Now, other.LeaseTTL = time.Now, time.Hour
		second := first.loop(other)
		second.start()
		first.finish()
		pass(time.Minute)

		first.bench.now = time.Now()
		first.must(first.people().Force(t.Context(), "task-0", "another instance"))
		pass(10 * time.Second)
		if got := first.launched(); len(got) != 1 {
			t.Fatalf("what another instance was asked for: launched %v", got)
		}
		first.finish()
		first.end()
		pass(10 * time.Second)
		if held, err := lease.Read(t.Context(), first.store, state.LeaderLease); err != nil || held.Owner != other.Owner {
			t.Errorf("the leader has stopped, and the lease reads %+v (%v)", held, err)
		}
	})
}

// deaf is a store that, once it is so, answers no write before its context ends.
type deaf struct {
	state.Store
	now atomic.Bool
}

func (d *deaf) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if d.now.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return d.Store.Apply(ctx, changes...)
}

func TestLoop_EndsSoonIfTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		store := &deaf{Store: b.store}
		b.Loop.Store = store
		b.start()
		b.finish()
		store.now.Store(true)
		told := time.Now()
		b.end()
		if took := time.Since(told); took >= 10*time.Second {
			t.Errorf("it ended after %s", took)
		}
	})
}

func TestLoop_StandbyTakesOverWhenTheLeaderWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		if _, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "killed", lease.Options{TTL: b.LeaseTTL, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		b.start()
		pass(b.LeaseTTL - time.Second)
		if len(b.launched()) != 0 {
			t.Fatal("it took over before the lease was over")
		}
		pass(b.LeaseTTL)
		if len(b.launched()) != 1 {
			t.Fatal("it has not taken over within twice the lease's time")
		}
	})
}

func TestLoop_StandbyEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		if _, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "another", lease.Options{TTL: time.Hour, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		b.start()
		pass(time.Second)
		b.end()
		if len(b.launched()) != 0 {
			t.Error("it acted without the lease")
		}
	})
}

func TestLoop_LeaderWithoutLeaseStops(t *testing.T) {
	for name, notice := range map[string]func(*loopBench){
		"when it decides": func(b *loopBench) { b.change("B") },
		"when it renews":  func(b *loopBench) { pass(b.LeaseTTL / 2); b.change("B") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newLoopBench(t, tasks(1)...)
				b.start()
				b.finish()
				rec, err := b.store.Get(t.Context(), "lease/"+state.LeaderLease)
				if err != nil {
					t.Fatal(err)
				}
				taken := state.Encode(lease.Holder{Owner: "another", Fence: 2, Expires: time.Now().Add(time.Minute), TTL: time.Minute})
				if _, err := b.store.Apply(t.Context(), state.Replace(rec, taken)); err != nil {
					t.Fatal(err)
				}
				notice(b)
				if got := b.launched(); len(got) != 0 {
					t.Errorf("it launched %v", got)
				}
				if len(b.stood) != 1 || b.stood[0] != "another" {
					t.Errorf("it stands by for %v", b.stood)
				}
				pass(2 * time.Minute) // the other was killed: it leads again, and finds the change
				if got := b.launched(); len(got) != 1 {
					t.Errorf("leading again, it launched %v", got)
				}
			})
		})
	}
}

func TestLoop_IdleLeaderWithoutLeaseStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		b.Witness, b.OneClock = new(lease.Witness), true
		b.start()
		b.finish()
		b.bench.now = time.Now().Add(time.Hour) // by another's clock the lease is long over
		if _, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "another",
			lease.Options{TTL: time.Hour, Now: func() time.Time { return b.bench.now }}); err != nil {
			t.Fatal(err)
		}
		pass(b.LeaseTTL)
		if len(b.stood) != 1 || b.stood[0] != "another" {
			t.Errorf("it stands by for %v", b.stood)
		}
	})
}

func TestLoop_LeaderSurvivesShortStoreFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(1)...)
		failing := &failingStore{Store: b.store}
		b.Loop.Store = failing
		b.start()
		b.finish()
		for range 20 { // each shorter than the lease
			failing.set(errors.New("database is locked"))
			pass(4 * time.Second)
			failing.set(nil)
			pass(4 * time.Second)
		}
		if held, err := lease.Read(t.Context(), b.store, state.LeaderLease); err != nil || held.Fence != 1 {
			t.Errorf("the lease reads %+v (%v)", held, err)
		}
		b.change("B")
		if got := b.launched(); len(got) != 1 {
			t.Errorf("launched %v", got)
		}
	})
}
