package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

const ttl = time.Minute

// start is the time at which each test begins.
var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// at returns the options of a process whose clock shows this time after the start.
func at(d time.Duration) lease.Options {
	return lease.Options{TTL: ttl, Now: func() time.Time { return start.Add(d) }}
}

func newStore(t testing.TB) state.Store {
	t.Helper()
	s := statetest.NewMemory()
	t.Cleanup(func() { s.Close() })
	return s
}

func acquire(t testing.TB, s state.Store, owner string, opts lease.Options) *lease.Lease {
	t.Helper()
	l, err := lease.Acquire(context.Background(), s, "reconcile", owner, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// expectHeld fails unless owner cannot take the lease because of holder.
func expectHeld(t testing.TB, s state.Store, owner string, opts lease.Options, holder string, until time.Time) {
	t.Helper()
	_, err := lease.Acquire(context.Background(), s, "reconcile", owner, opts)
	var held *lease.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("%s acquires: %v, want a HeldError", owner, err)
	}
	if held.Name != "reconcile" || held.Owner != holder || !held.Until.Equal(until) {
		t.Errorf("held by %s until %v, want %s until %v", held.Owner, held.Until, holder, until)
	}
	for _, what := range []string{"reconcile", holder, until.Format(time.RFC3339)} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("the error does not say %q: %v", what, err)
		}
	}
}

func expectLost(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, lease.ErrLost) {
		t.Errorf("%s: %v, want ErrLost", what, err)
	}
}

func holder(t testing.TB, s state.Store) lease.Holder {
	t.Helper()
	h, err := lease.Read(context.Background(), s, "reconcile")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestLease_AcquireRenewRelease(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	if h := holder(t, s); h != (lease.Holder{}) {
		t.Errorf("before anyone led: %+v", h)
	}
	a := acquire(t, s, "a", at(0))
	if a.Fence() != 1 || !a.Valid(start) {
		t.Errorf("fence %d, valid %v", a.Fence(), a.Valid(start))
	}
	if h, want := holder(t, s), (lease.Holder{Owner: "a", Fence: 1, Expires: start.Add(ttl), TTL: ttl}); h != want {
		t.Errorf("the record says %+v, want %+v", h, want)
	}
	expectHeld(t, s, "b", at(ttl-1), "a", start.Add(ttl))

	if err := a.Renew(ctx, start.Add(ttl/2)); err != nil {
		t.Fatal(err)
	}
	expectHeld(t, s, "b", at(ttl), "a", start.Add(ttl*3/2))
	if !a.Valid(start.Add(ttl)) || a.Valid(start.Add(ttl*3/2)) {
		t.Error("after a renewal the lease is not valid for its whole time from then on, or longer")
	}

	if err := a.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if h, want := holder(t, s), (lease.Holder{Fence: 1}); h != want {
		t.Errorf("after the release the record says %+v, want %+v", h, want)
	}
	if a.Valid(start) {
		t.Error("valid after the release")
	}
	expectLost(t, "renew after release", a.Renew(ctx, start))
	expectLost(t, "release again", a.Release(ctx))
	_, err := a.Apply(ctx, state.Create("task/a", nil))
	expectLost(t, "apply after release", err)

	if b := acquire(t, s, "b", at(0)); b.Fence() != 2 {
		t.Errorf("the next fence is %d, want 2", b.Fence())
	}
}

func TestApply_StaleHolderCannotWrite(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	a := acquire(t, s, "a", at(0))
	records, err := a.Apply(ctx, state.Create("task/a", []byte("from a")))
	if err != nil || len(records) != 1 || string(records[0].Value) != "from a" {
		t.Fatalf("%+v, %v", records, err)
	}
	task := records[0]

	b := acquire(t, s, "b", at(ttl))
	_, err = a.Apply(ctx, state.Replace(task, []byte("late")))
	expectLost(t, "apply", err)
	if a.Valid(start) {
		t.Error("the holder does not remember that it lost the lease")
	}
	expectLost(t, "renew", a.Renew(ctx, start))
	expectLost(t, "release", a.Release(ctx))
	if h := holder(t, s); h.Owner != "b" || h.Fence != b.Fence() {
		t.Errorf("the lease is now %+v, want b's", h)
	}
	if got, err := s.Get(ctx, "task/a"); err != nil || string(got.Value) != "from a" {
		t.Errorf("the task is %q, %v", got.Value, err)
	}

	// A renewal is the other way to learn of the loss.
	c := acquire(t, s, "c", at(2*ttl))
	expectLost(t, "renew", b.Renew(ctx, start.Add(2*ttl)))
	if b.Valid(start.Add(ttl)) || !c.Valid(start.Add(2*ttl)) {
		t.Error("valid is the wrong one")
	}
}

func TestApply_StaleHolderCannotWriteAfterItsSuccessorReleased(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	a := acquire(t, s, "a", at(0))
	if err := acquire(t, s, "b", at(ttl)).Release(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := a.Apply(ctx, state.Create("task/a", nil))
	expectLost(t, "apply", err)
}

func TestLease_ExpiredLeaseThatNobodyTookIsStillHeld(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	a := acquire(t, s, "a", at(0))
	late := start.Add(3 * ttl)
	if a.Valid(late) {
		t.Error("valid after its time")
	}
	if _, err := a.Apply(ctx, state.Create("task/a", nil)); err != nil {
		t.Errorf("apply: %v", err)
	}
	if err := a.Renew(ctx, late); err != nil || !a.Valid(late) || a.Fence() != 1 {
		t.Errorf("renew: %v, valid %v, fence %d", err, a.Valid(late), a.Fence())
	}
}

var errAnswer = errors.New("connection reset")

// lossy drops the answers of the next writes; the count says how many.
func lossy(s state.Store) (*statetest.Faulty, *int) {
	lose := new(int)
	return &statetest.Faulty{Store: s, After: func([]state.Change) error {
		if *lose > 0 {
			*lose--
			return errAnswer
		}
		return nil
	}}, lose
}

func TestLease_LostAnswers(t *testing.T) {
	ctx := t.Context()
	t.Run("an owner need not wait for what its own attempt has left", func(t *testing.T) {
		s, lose := lossy(newStore(t))
		*lose = 1
		if _, err := lease.Acquire(ctx, s, "reconcile", "a", at(0)); !errors.Is(err, errAnswer) {
			t.Fatalf("acquire: %v", err)
		}
		expectHeld(t, s, "b", at(0), "a", start.Add(ttl))
		a := acquire(t, s, "a", at(0))
		if _, err := a.Apply(ctx, state.Create("task/a", nil)); err != nil {
			t.Error(err)
		}
	})
	t.Run("an attempt that a client repeats by itself is recognised", func(t *testing.T) {
		s := newStore(t)
		acquire(t, s, "z", at(-2*ttl))
		l := acquire(t, &repeating{s}, "a", at(0))
		if l.Fence() != 2 || !l.Valid(start) || l.Valid(start.Add(ttl)) {
			t.Errorf("fence %d, valid %v", l.Fence(), l.Valid(start))
		}
		if err := l.Renew(ctx, start); err != nil {
			t.Error(err)
		}
	})
	t.Run("a renewal", func(t *testing.T) {
		for name, next := range map[string]func(*lease.Lease) error{
			"renew":   func(l *lease.Lease) error { return l.Renew(ctx, start.Add(ttl/2)) },
			"apply":   func(l *lease.Lease) error { _, err := l.Apply(ctx, state.Create("task/a", nil)); return err },
			"release": func(l *lease.Lease) error { return l.Release(ctx) },
		} {
			s, lose := lossy(newStore(t))
			l := acquire(t, s, "a", at(0))
			*lose = 1
			if err := l.Renew(ctx, start.Add(ttl/2)); !errors.Is(err, errAnswer) || errors.Is(err, lease.ErrLost) {
				t.Errorf("renew: %v", err)
			}
			if l.Valid(start.Add(ttl)) {
				t.Error("the holder counts on a renewal that was never answered")
			}
			if err := next(l); err != nil {
				t.Errorf("then %s: %v", name, err)
			}
			if name != "release" && !l.Valid(start.Add(ttl)) {
				t.Errorf("after %s the holder does not know of its renewal", name)
			}
		}
	})
	t.Run("giving back", func(t *testing.T) {
		s, lose := lossy(newStore(t))
		l := acquire(t, s, "a", at(0))
		*lose = 1
		if err := l.Release(ctx); !errors.Is(err, errAnswer) {
			t.Errorf("release: %v", err)
		}
		if l.Valid(start) {
			t.Error("the holder goes on with what may be another's by now")
		}
		if err := l.Release(ctx); err != nil {
			t.Errorf("release again: %v", err)
		}
	})
	t.Run("a write under the lease", func(t *testing.T) {
		s, lose := lossy(newStore(t))
		l := acquire(t, s, "a", at(0))
		*lose = 1
		if _, err := l.Apply(ctx, state.Create("task/a", nil)); !errors.Is(err, errAnswer) {
			t.Errorf("apply: %v", err)
		}
		_, err := l.Apply(ctx, state.Create("task/a", nil))
		var refused *state.ConflictError
		if !errors.As(err, &refused) || refused.Change.Key != "task/a" || errors.Is(err, lease.ErrLost) {
			t.Errorf("apply again: %v, want a refusal of task/a", err)
		}
		if !l.Valid(start) {
			t.Error("a refused change of the caller's counts as a lost lease")
		}
	})
}

// repeating makes every write twice, as a client does after a lost answer, and returns the second
// answer.
type repeating struct{ state.Store }

func (r *repeating) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if _, err := r.Store.Apply(ctx, changes...); err != nil {
		return nil, err
	}
	return r.Store.Apply(ctx, changes...)
}

func TestAcquire_OwnerTakesOverFromItselfUnderANewToken(t *testing.T) {
	s := newStore(t)
	first := acquire(t, s, "a", at(0))
	second := acquire(t, s, "a", at(0))
	if second.Fence() != 2 {
		t.Errorf("fence %d, want 2", second.Fence())
	}
	_, err := first.Apply(t.Context(), state.Create("task/a", nil))
	expectLost(t, "apply under the first", err)
}

func TestLease_FailingStoreDoesNotLoseTheLease(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	down := true
	faulty := &statetest.Faulty{Store: s, Before: func([]state.Change) error {
		if down {
			return errAnswer
		}
		return nil
	}}
	if _, err := lease.Acquire(ctx, faulty, "reconcile", "a", at(0)); !errors.Is(err, errAnswer) {
		t.Errorf("acquire: %v", err)
	}
	if h := holder(t, s); h.Fence != 0 {
		t.Errorf("the record says %+v", h)
	}
	down = false
	l := acquire(t, faulty, "a", at(0))
	down = true
	if err := l.Renew(ctx, start.Add(1)); !errors.Is(err, errAnswer) || errors.Is(err, lease.ErrLost) {
		t.Errorf("renew: %v", err)
	}
	if !l.Valid(start.Add(ttl - 1)) {
		t.Error("the lease ended with a store that was down for a moment")
	}
	down = false
	if err := l.Renew(ctx, start.Add(1)); err != nil {
		t.Errorf("renew: %v", err)
	}
}

func TestAcquire_OneOfManyContendersLeads(t *testing.T) {
	s := newStore(t)
	const contenders = 16
	for round := range 5 {
		var wg sync.WaitGroup
		won := make(chan *lease.Lease, contenders)
		for i := range contenders {
			wg.Go(func() {
				l, err := lease.Acquire(context.Background(), s, "reconcile", fmt.Sprintf("r%d-c%d", round, i), at(time.Duration(round)*ttl))
				var held *lease.HeldError
				switch {
				case err == nil:
					won <- l
				case !errors.As(err, &held):
					t.Errorf("acquire: %v", err)
				}
			})
		}
		wg.Wait()
		close(won)
		var leaders []*lease.Lease
		for l := range won {
			leaders = append(leaders, l)
		}
		if len(leaders) != 1 || leaders[0].Fence() != uint64(round+1) {
			t.Fatalf("round %d: %d lead", round, len(leaders))
		}
	}
}

func TestLease_ConcurrentWritesAndRenewals(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	l := acquire(t, s, "a", at(0))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				if _, err := l.Apply(ctx, state.Create(fmt.Sprintf("run/%d-%d", i, j), nil)); err != nil {
					t.Errorf("apply: %v", err)
				}
			}
		})
		wg.Go(func() {
			for j := range 50 {
				if err := l.Renew(ctx, start.Add(time.Duration(j))); err != nil {
					t.Errorf("renew: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if runs, err := s.List(ctx, "run/"); err != nil || len(runs) != 200 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

func TestApply_TakesOneChangeLessThanTheStore(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	l := acquire(t, s, "a", at(0))
	var changes []state.Change
	for i := range lease.MaxChanges {
		changes = append(changes, state.Create(fmt.Sprintf("run/%d", i), nil))
	}
	records, err := l.Apply(ctx, changes...)
	if err != nil || len(records) != len(changes) || records[0].Key != "run/0" {
		t.Errorf("%d records, %v", len(records), err)
	}
	if _, err := l.Apply(ctx, append(changes, state.Create("run/more", nil))...); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d changes, at most %d", state.MaxChanges, lease.MaxChanges)) {
		t.Errorf("one more: %v", err)
	}
	if _, err := l.Apply(ctx); err != nil {
		t.Errorf("no changes: %v", err)
	}
}

func TestAcquire_InvalidRecordIsNamed(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	if _, err := s.Apply(ctx, state.Create("lease/reconcile", []byte("{half"))); err != nil {
		t.Fatal(err)
	}
	_, aerr := lease.Acquire(ctx, s, "reconcile", "a", at(0))
	_, rerr := lease.Read(ctx, s, "reconcile")
	for _, err := range []error{aerr, rerr} {
		if err == nil || !strings.Contains(err.Error(), "lease/reconcile") || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%v, want an error that names the record and what to do", err)
		}
	}
}

func TestNewOwner_IsUnique(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		seen[lease.NewOwner()] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d different owners of 100", len(seen))
	}
	if _, err := lease.Acquire(t.Context(), newStore(t), "reconcile", "", lease.Options{}); err == nil {
		t.Error("an owner without a name took a lease")
	}
}

func TestAcquire_DefaultOptions(t *testing.T) {
	s := newStore(t)
	l := acquire(t, s, lease.NewOwner(), lease.Options{})
	if now := time.Now(); !l.Valid(now) || l.Valid(now.Add(lease.DefaultTTL)) {
		t.Error("the lease does not last for DefaultTTL from now on")
	}
}

// A process that takes the lease again and again reads its record once.
func TestAcquire_KnownRecordIsNotReadAgain(t *testing.T) {
	s := &statetest.Faulty{Store: newStore(t)}
	var known lease.Known
	opts := at(0)
	opts.Known = &known
	take := func(what, owner string, opts lease.Options, again bool, reads int64) {
		t.Helper()
		s.Reset()
		l := acquire(t, s, owner, opts)
		if l.Again() != again || s.Reads.Load() != reads {
			t.Errorf("%s: again %v, %d reads; want %v, %d", what, l.Again(), s.Reads.Load(), again, reads)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	take("the first time", "p1", opts, false, 1)
	take("the second time", "p1", opts, true, 0)
	take("another process", "p2", at(0), false, 1)
	take("after another process", "p1", opts, false, 0)
	take("once more", "p1", opts, true, 0)
	if h := holder(t, s); h.Fence != 5 {
		t.Errorf("the token is %d after five leaderships", h.Fence)
	}
	acquire(t, s, "p2", at(0))
	expectHeld(t, s, "p1", opts, "p2", start.Add(ttl))
}
