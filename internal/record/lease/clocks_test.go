package lease_test

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

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
