package lease_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/sqlite"
	"github.com/terrapulse/terrapulse/internal/state/statetest"
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
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
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

func TestAcquire_ClocksThatDiffer(t *testing.T) {
	const skew = 5 * time.Second
	tolerant := func(d time.Duration) lease.Options {
		o := at(d)
		o.Skew = skew
		return o
	}
	t.Run("a contender ahead by no more than the allowance waits long enough", func(t *testing.T) {
		s := newStore(t)
		a := acquire(t, s, "a", tolerant(0))
		// By a's clock the lease is in its last moment; b's clock differs by up to 5 s.
		last := ttl - 1
		if !a.Valid(start.Add(last)) {
			t.Fatal("a's lease is over")
		}
		expectHeld(t, s, "b", tolerant(last+skew), "a", start.Add(ttl+skew))
		if b := acquire(t, s, "b", tolerant(ttl+skew)); b.Fence() != 2 || a.Valid(start.Add(ttl)) {
			t.Errorf("fence %d, a valid %v", b.Fence(), a.Valid(start.Add(ttl)))
		}
	})
	t.Run("a contender ahead by more takes a lease whose holder can then not write", func(t *testing.T) {
		s := newStore(t)
		a := acquire(t, s, "a", tolerant(0))
		acquire(t, s, "b", tolerant(ttl+time.Hour))
		if !a.Valid(start) {
			t.Fatal("a cannot know yet")
		}
		_, err := a.Apply(t.Context(), state.Create("task/a", nil))
		expectLost(t, "apply", err)
	})
	t.Run("a contender behind waits longer", func(t *testing.T) {
		s := newStore(t)
		acquire(t, s, "a", tolerant(0))
		expectHeld(t, s, "b", tolerant(-skew), "a", start.Add(ttl+skew))
		acquire(t, s, "b", tolerant(ttl+skew))
	})
	t.Run("a lease that expires later than it can last does not block", func(t *testing.T) {
		s := newStore(t)
		acquire(t, s, "a", tolerant(6*time.Hour)) // and the holder dies, and its clock is set right
		acquire(t, s, "b", tolerant(0))
	})
	t.Run("a witness waits for the whole time of a lease that expires later than it can last", func(t *testing.T) {
		s := newStore(t)
		acquire(t, s, "a", at(6*time.Hour))
		w := new(lease.Witness)
		watching := func(d time.Duration) lease.Options {
			o := at(d)
			o.Witness, o.OneClock = w, true
			return o
		}
		expectHeld(t, s, "b", watching(time.Second), "a", start.Add(time.Second+ttl))
		expectHeld(t, s, "b", watching(ttl), "a", start.Add(time.Second+ttl))
		acquire(t, s, "b", watching(ttl+time.Second))
	})
	t.Run("a witness whose clock was set back begins anew", func(t *testing.T) {
		s := newStore(t)
		acquire(t, s, "a", at(0))
		w := new(lease.Witness)
		watching := func(d time.Duration) lease.Options {
			o := at(d)
			o.Witness = w
			return o
		}
		expectHeld(t, s, "b", watching(6*time.Hour), "a", start.Add(6*time.Hour+ttl))
		expectHeld(t, s, "b", watching(0), "a", start.Add(ttl))
		acquire(t, s, "b", watching(ttl))
	})
	t.Run("contenders that share a clock need not wait for the witness", func(t *testing.T) {
		s := newStore(t)
		acquire(t, s, "a", at(0))
		o := at(ttl)
		o.Witness, o.OneClock = new(lease.Witness), true
		acquire(t, s, "b", o)
	})
	t.Run("a holder whose clock was set back does not act longer", func(t *testing.T) {
		s := newStore(t)
		a := acquire(t, s, "a", tolerant(0))
		acquire(t, s, "b", tolerant(ttl+skew))
		expectLost(t, "renew", a.Renew(t.Context(), start.Add(-time.Hour)))
	})
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
	if _, err := l.Apply(ctx, append(changes, state.Create("run/more", nil))...); err == nil || !strings.Contains(err.Error(), "64 changes, at most 63") {
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

func TestAcquire_WithWitness(t *testing.T) {
	watching := func(d time.Duration, w *lease.Witness) lease.Options {
		o := at(d)
		o.Witness = w
		return o
	}
	for name, ahead := range map[string]time.Duration{"a clock that is right": 0, "a clock a day ahead": 24 * time.Hour, "a clock a day behind": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s, ctx := newStore(t), t.Context()
			a := acquire(t, s, "a", at(0))
			w := new(lease.Witness)
			// Its first attempt starts the wait for a whole TTL.
			expectHeld(t, s, "b", watching(ahead+10*time.Second, w), "a", start.Add(ahead+10*time.Second+ttl))
			expectHeld(t, s, "b", watching(ahead+ttl, w), "a", start.Add(ahead+10*time.Second+ttl))
			if err := a.Renew(ctx, start.Add(ttl)); err != nil {
				t.Fatal(err)
			}
			// A renewal that it sees starts the wait again.
			seen := ahead + ttl + 10*time.Second
			expectHeld(t, s, "b", watching(seen, w), "a", start.Add(seen+ttl))
			expectHeld(t, s, "b", watching(seen+ttl-1, w), "a", start.Add(seen+ttl))
			if b := acquire(t, s, "b", watching(seen+ttl, w)); b.Fence() != 2 {
				t.Errorf("fence %d, want 2", b.Fence())
			}
			expectLost(t, "renew", a.Renew(ctx, start.Add(ttl)))
		})
	}
	t.Run("a released lease is free at once", func(t *testing.T) {
		s, w := newStore(t), new(lease.Witness)
		a := acquire(t, s, "a", at(0))
		expectHeld(t, s, "b", watching(0, w), "a", start.Add(ttl))
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		acquire(t, s, "b", watching(1, w))
	})
	t.Run("a holder whose lease lasts longer is waited for as long", func(t *testing.T) {
		s, w := newStore(t), new(lease.Witness)
		long := at(0)
		long.TTL = 3 * ttl
		acquire(t, s, "a", long)
		expectHeld(t, s, "b", watching(0, w), "a", start.Add(3*ttl))
		acquire(t, s, "b", watching(3*ttl, w))
	})
}

// Processes with different clocks take, renew, use, lose and release a lease in any order, and
// answers get lost. Tokens must only grow, and no write of an older token may follow one of a newer
// token. If the clocks agree within the skew, or all contenders watch, no two processes may act at
// once.
func TestLease_AnyHistoryKeepsTheFence(t *testing.T) {
	const skew = 4 * time.Second
	t.Run("by the clock", func(t *testing.T) {
		histories(t, 0, skew, func() lease.Options { return lease.Options{Skew: skew} })
	})
	t.Run("watching, with clocks that are hours apart", func(t *testing.T) {
		histories(t, -5*time.Hour, 5*time.Hour, func() lease.Options { return lease.Options{Witness: new(lease.Witness)} })
	})
}

// histories lets processes contend with the given options; their clocks are ahead by between least
// and most.
func histories(t *testing.T, least, most time.Duration, contend func() lease.Options) {
	inner := newStore(t)
	history := 0
	rapid.Check(t, func(t *rapid.T) {
		history++
		ctx := context.Background()
		name := fmt.Sprintf("h%d", history)
		log := "log/" + name // the newest token that wrote
		s, lose := lossy(inner)
		if _, err := s.Apply(ctx, state.Create(log, []byte("0"))); err != nil {
			t.Fatal(err)
		}
		skews := make([]time.Duration, 3) // of the processes' clocks
		options := make([]lease.Options, len(skews))
		for i := range skews {
			skews[i] = time.Duration(rapid.IntRange(int(least/time.Second), int(most/time.Second)).Draw(t, "skew")) * time.Second
			options[i] = contend()
		}
		held := make([]*lease.Lease, len(skews))
		now, fence := start, uint64(0)

		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, len(skews)-1).Draw(t, "process")
			clock := func() time.Time { return now.Add(skews[i]) }
			*lose = rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "lose")
			switch rapid.SampledFrom([]string{"wait", "acquire", "renew", "write", "release", "crash"}).Draw(t, "step") {
			case "wait":
				now = now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
			case "acquire":
				opts := options[i]
				opts.TTL, opts.Now = 30*time.Second, clock
				l, err := lease.Acquire(ctx, s, name, fmt.Sprintf("p%d", i), opts)
				var other *lease.HeldError
				switch {
				case err == nil:
					if l.Fence() <= fence {
						t.Fatalf("token %d after %d", l.Fence(), fence)
					}
					fence = l.Fence()
					held[i] = l
				case !errors.As(err, &other) && !errors.Is(err, errAnswer):
					t.Fatalf("acquire: %v", err)
				}
			case "renew":
				if l := held[i]; l != nil {
					expectNoOther(t, l.Renew(ctx, clock()))
				}
			case "release":
				if l := held[i]; l != nil {
					expectNoOther(t, l.Release(ctx))
				}
			case "crash": // and another process in its place
				held[i], options[i] = nil, contend()
			case "write":
				l := held[i]
				if l == nil {
					break
				}
				r, err := inner.Get(ctx, log)
				if err != nil {
					t.Fatal(err)
				}
				var newest uint64
				fmt.Sscan(string(r.Value), &newest)
				if _, err := l.Apply(ctx, state.Replace(r, fmt.Append(nil, l.Fence()))); err == nil && l.Fence() < newest {
					t.Fatalf("token %d wrote after token %d", l.Fence(), newest)
				} else if err != nil {
					expectNoOther(t, err)
				}
			}
			acting := 0
			for j, l := range held {
				if l != nil && l.Valid(now.Add(skews[j])) {
					acting++
				}
			}
			if acting > 1 {
				t.Fatalf("%d processes may act at once", acting)
			}
		}
	})
}

// expectNoOther expects no error but a lost lease or a lost answer.
func expectNoOther(t *rapid.T, err error) {
	if err != nil && !errors.Is(err, lease.ErrLost) && !errors.Is(err, errAnswer) {
		t.Fatal(err)
	}
}
