package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

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
