package linger_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const revision = "prod-runner:7"

func newRunner(s state.Store, id string) *linger.Runner {
	return &linger.Runner{Store: s, ID: id, Definition: revision, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

func newOffers(s state.Store) *linger.Offers {
	return &linger.Offers{Store: s, Apply: s.Apply, Definition: revision, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

// offer writes a launch, offered to a runner that lingers if there is one.
func offer(t *testing.T, o *linger.Offers, id string) state.Launch {
	t.Helper()
	runner := o.Next(t.Context())
	launch := state.Launch{ID: id, Kind: state.KindApply, Created: o.Now(), Offer: runner.Data.ID}
	changes := []state.Change{state.Create(state.LaunchKey(id), state.Encode(launch)).Until(launch.KeptUntil())}
	if launch.Offered() {
		changes = append(changes, linger.Write(runner, id))
		o.Drop()
	}
	if _, err := o.Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	return launch
}

// lingering is a runner that waits in the background.
type lingering struct {
	took chan string // which launch it took; "" if it ended
	stop context.CancelFunc
}

func wait(t *testing.T, r *linger.Runner, until time.Time) lingering {
	ctx, stop := context.WithCancel(t.Context())
	l := lingering{make(chan string, 1), stop}
	go func() {
		launch, _ := r.Next(ctx, until)
		l.took <- launch.ID
	}()
	time.Sleep(100 * time.Millisecond) // it is free
	return l
}

func TestLinger_FreeRunnerTakesALaunchAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTable(t)
		r := newRunner(s, "a")
		waiting := wait(t, r, time.Now().Add(5*time.Minute))
		o := newOffers(s)
		began := time.Now()
		taker, err := o.Place(t.Context(), offer(t, o, "l1"))
		if took := time.Since(began); taker != "a" || err != nil || took > time.Second || <-waiting.took != "l1" {
			t.Fatalf("taken by %q after %s (%v)", taker, took, err)
		}
		if got := s.runner("a"); got == nil || got.Launch != "l1" || got.Free() {
			t.Errorf("its record reads %+v", got)
		}
		if busy := newOffers(s).Next(t.Context()); busy.Exists() {
			t.Errorf("a runner that works gets an offer: %+v", busy.Data)
		}

		// It lingers again, and takes the next one.
		waiting = wait(t, r, time.Now().Add(5*time.Minute))
		o = newOffers(s)
		if taker, err := o.Place(t.Context(), offer(t, o, "l2")); taker != "a" || err != nil || <-waiting.took != "l2" {
			t.Fatalf("then taken by %q (%v)", taker, err)
		}
	})
}

func TestLinger_RunnerEndsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTable(t)
		began := time.Now()
		waiting := wait(t, newRunner(s, "a"), began.Add(time.Minute))
		if took := <-waiting.took; took != "" || time.Since(began) > time.Minute+time.Second || s.runner("a") != nil {
			t.Errorf("took %q, ended after %s, its record reads %+v", took, time.Since(began), s.runner("a"))
		}
	})
}

func TestLinger_StoppedContainerEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTable(t)
		waiting := wait(t, newRunner(s, "a"), time.Now().Add(time.Hour))
		began := time.Now()
		waiting.stop()
		if took := <-waiting.took; took != "" || time.Since(began) > time.Second || s.runner("a") != nil {
			t.Errorf("took %q, ended after %s, its record reads %+v", took, time.Since(began), s.runner("a"))
		}
	})
}

func TestLinger_OfferToADeadRunnerIsWithdrawnAfter5Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTable(t)
		died(t, s, "a")
		o := newOffers(s)
		began := time.Now()
		launch := offer(t, o, "l1")
		taker, err := o.Place(t.Context(), launch)
		if took := time.Since(began); taker != state.TakenByContainer || err != nil || took != linger.OfferFor {
			t.Fatalf("taken by %q after %s (%v)", taker, took, err)
		}
		if s.runner("a") != nil {
			t.Error("its record is still there: the next offer is 5 s late, too")
		}
		// Another leader reads it later.
		if taker, err := newOffers(s).Place(t.Context(), launch); taker != state.TakenByContainer || err != nil {
			t.Errorf("later taken by %q (%v)", taker, err)
		}
	})
}

func TestPlace_OldOfferIsWithdrawnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTable(t)
		died(t, s, "a")
		launch := offer(t, newOffers(s), "l1") // and the leader dies
		time.Sleep(linger.OfferFor)
		began := time.Now()
		if taker, err := newOffers(s).Place(t.Context(), launch); taker != state.TakenByContainer || err != nil || time.Since(began) > 0 {
			t.Errorf("taken by %q after %s (%v)", taker, time.Since(began), err)
		}
	})
}

// died writes the record of a free runner that has died.
func died(t *testing.T, s state.Store, id string) {
	t.Helper()
	r := state.Runner{ID: id, Definition: revision, Since: time.Now(), Until: time.Now().Add(time.Hour)}
	if _, err := s.Apply(t.Context(), state.Create(state.RunnerKey(id), state.Encode(r)).Until(r.KeptUntil())); err != nil {
		t.Fatal(err)
	}
}

func TestLinger_LateRunnerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTable(t)
		runner := &slow{table: s}
		waiting := wait(t, newRunner(runner, "a"), time.Now().Add(time.Hour))
		runner.by.Store(int64(2 * linger.OfferFor))
		o := newOffers(s)
		launch := offer(t, o, "l1")
		if taker, err := o.Place(t.Context(), launch); taker != state.TakenByContainer || err != nil {
			t.Fatalf("taken by %q (%v)", taker, err)
		}
		if took := <-waiting.took; took != "" {
			t.Errorf("it took %s, which has a container", took)
		}
	})
}

// slow is a table whose writes arrive late.
type slow struct {
	*table
	by atomic.Int64
}

func (s *slow) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	time.Sleep(time.Duration(s.by.Load()))
	return s.table.Apply(ctx, changes...)
}

func TestLinger_LostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTable(t)
		lost := 0
		own := &losing{table: s, lose: func() bool { lost++; return lost <= 2 }} // of being free, and of taking
		waiting := wait(t, newRunner(own, "a"), time.Now().Add(time.Hour))
		time.Sleep(time.Second)
		o := newOffers(s)
		if taker, err := o.Place(t.Context(), offer(t, o, "l1")); taker != "a" || err != nil || <-waiting.took != "l1" {
			t.Errorf("taken by %q (%v)", taker, err)
		}

		lost = 0
		waiting = wait(t, newRunner(s, "b"), time.Now())
		<-waiting.took
		own.lose = func() bool { lost++; return lost == 2 } // of its end
		waiting = wait(t, newRunner(own, "c"), time.Now().Add(time.Second))
		if took := <-waiting.took; took != "" || s.runner("c") != nil {
			t.Errorf("took %q, its record reads %+v", took, s.runner("c"))
		}

		// Of the withdrawal.
		o = newOffers(s)
		died(t, s, "d")
		launch := offer(t, o, "l2")
		o.Apply = (&losing{table: s, lose: func() bool { return true }}).Apply
		if _, err := o.Place(t.Context(), launch); !errors.Is(err, errStore) {
			t.Errorf("a lost answer: %v", err)
		}
		if taker, err := newOffers(s).Place(t.Context(), launch); taker != state.TakenByContainer || err != nil || s.runner("d") != nil {
			t.Errorf("then taken by %q (%v)", taker, err)
		}
	})
}

// losing is a table that loses answers to writes.
type losing struct {
	*table
	lose func() bool
}

func (l *losing) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	written, err := l.table.Apply(ctx, changes...)
	if err == nil && l.lose() {
		return nil, errStore
	}
	return written, err
}

func TestOffers_GoOnlyToRunnersThatFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTable(t)
		now := time.Now()
		for _, r := range []state.Runner{
			{ID: "first", Since: now.Add(-time.Minute), Until: now.Add(time.Minute)},
			{ID: "last", Since: now, Until: now.Add(time.Minute)},
			{ID: "over", Until: now.Add(-31 * time.Second)},
			{ID: "slow-clock", Since: now.Add(-time.Hour), Until: now.Add(-29 * time.Second)},
			{ID: "offered", Until: now.Add(time.Minute), Offer: "l0"},
			{ID: "working", Until: now.Add(time.Minute), Launch: "l0"},
			{ID: "old", Definition: "prod-runner:6", Until: now.Add(time.Minute)},
			{ID: "old-working", Definition: "prod-runner:6", Until: now.Add(time.Minute), Launch: "l0"},
		} {
			if r.Definition == "" {
				r.Definition = revision
			}
			if _, err := s.Apply(t.Context(), state.Create(state.RunnerKey(r.ID), state.Encode(r)).Until(r.KeptUntil())); err != nil {
				t.Fatal(err)
			}
		}
		o := newOffers(s)
		o.Skew = 30 * time.Second
		var got []string
		for runner := o.Next(t.Context()); runner.Exists(); runner = o.Next(t.Context()) {
			got = append(got, runner.Data.ID)
			o.Drop()
		}
		if len(got) != 3 || got[0] != "last" || got[1] != "first" || got[2] != "slow-clock" {
			t.Errorf("offers go to %v, want the one that worked last first", got)
		}
		if s.runner("old") != nil || s.runner("old-working") == nil {
			t.Errorf("of another revision, the free runner is to end, and the other one not")
		}
	})
}
