package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// window returns a bench whose gates are watched, on the clock of the bubble.
func newWindow(t *testing.T) (*bench, *gates) {
	b := newBench(t, tasks(1)...)
	b.Windowed, b.Reconciler.Now = true, time.Now
	return b, &gates{c: make(chan struct{}, 1), mark: "A"}
}

func (g *gates) watch(_ context.Context, set consul.GateSet, _ consul.Marks) Watch {
	g.keys = set.Keys()
	return g
}

func TestWindow_SeesAChangeAtOnceAndLeavesTheLeaseFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gates := newWindow(t)
		var reports []Report
		var changed time.Time
		b.Window(t.Context(), gates.watch, TickOptions{}, time.Now().Add(time.Hour), func(r Report, err error) bool {
			if err != nil {
				t.Fatal(err)
			}
			switch reports = append(reports, r); len(reports) {
			case 1: // the first run was launched: nothing is held while it runs
				held, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "other", lease.Options{TTL: time.Minute, Now: time.Now})
				if err != nil {
					t.Fatalf("the lease is held while there is nothing to do: %v", err)
				}
				if err := held.Release(t.Context()); err != nil {
					t.Error(err)
				}
				b.end(state.RunSucceeded, "A")
				b.catalog.set("B", nil)
				gates.show("B", nil)
				changed = time.Now()
			case 2:
				if took := time.Since(changed); took > windowRest {
					t.Errorf("seen after %s", took)
				}
				return false
			}
			return true
		})
		if len(reports) != 2 || len(reports[1].Launches) != 1 {
			t.Errorf("%+v", reports)
		}
	})
}

func TestWindow_EndsInTimeAndWritesNothingWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gates := newWindow(t)
		b.now = time.Now()
		b.settle()
		time.Sleep(2 * liveCheck)
		began, ticks := time.Now(), 0
		b.Window(t.Context(), gates.watch, TickOptions{}, began.Add(50*time.Second), func(Report, error) bool { ticks++; return true })
		if took := time.Since(began); took > 50*time.Second {
			t.Errorf("it took %s", took)
		}
		if ticks > 2 {
			t.Errorf("%d ticks", ticks)
		}
	})
}

func TestWindow_ContinuesAfterATickWithoutLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gates := newWindow(t)
		other, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "other", lease.Options{TTL: time.Hour, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		var refused, launched int
		b.Window(t.Context(), gates.watch, TickOptions{}, time.Now().Add(time.Hour), func(r Report, err error) bool {
			if held := new(lease.HeldError); errors.As(err, &held) {
				refused++
				if err := other.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				return true
			}
			launched = len(r.Launches)
			return false
		})
		if refused != 1 || launched != 1 {
			t.Errorf("refused %d times, launched %d", refused, launched)
		}
	})
}

func TestWindow_TicksWhenARunOfThisProcessHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gates := newWindow(t)
		ends := make(chan struct{}, 1)
		var ended time.Time
		var reports []Report
		b.Window(t.Context(), gates.watch, TickOptions{Ends: ends}, time.Now().Add(time.Hour), func(r Report, err error) bool {
			if err != nil {
				t.Fatal(err)
			}
			if reports = append(reports, r); len(reports) == 1 {
				b.end(state.RunSucceeded, "A")
				ends <- struct{}{}
				ended = time.Now()
			}
			return len(reports) < 2
		})
		if took := time.Since(ended); took > windowRest || len(reports) != 2 || reports[1].Idle {
			t.Errorf("%d reports after %s", len(reports), took)
		}
	})
}

// Go chooses at random among what is ready.
func TestWait_TakesASignalOfTheGatesWithWhatEndsIt(t *testing.T) {
	ends := make(chan struct{}, 1)
	for range 50 {
		g := &gates{c: make(chan struct{}, 1)}
		g.c <- struct{}{}
		ends <- struct{}{}
		if ended, _ := wait(t.Context(), g, ends, nil, 0); !ended {
			<-ends
		}
		if len(g.c) > 0 {
			t.Fatal("a signal that the next tick answers makes one more")
		}
	}
}
