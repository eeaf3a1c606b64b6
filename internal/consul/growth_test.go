package consul

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkGrowthObserve reads n services of a real Consul, as a tick does after any of them has changed,
// for one task on all of them and for a task on each. Both are measured against bare reads of the same
// services. Polling the gates, which is all that an idle tick reads, is measured against a bare read of one.
func BenchmarkGrowthObserve(b *testing.B) {
	testtools.Grow(b, "services", testtools.GrowthServices, func(b *testing.B, n int) {
		s, names := withServices(b, n)
		each := make([]Query, n)
		for i, name := range names {
			each[i] = query(b, services(name))
		}
		bare := func() { consultest.ReadServices(b, s.Addr(), names) }
		c := client(b, s.Addr())
		for name, queries := range map[string][]Query{"one task": {query(b, matching("^service-[0-9]+$"))}, "task each": each} {
			b.Run(name, func(b *testing.B) {
				testtools.Growth{Do: func() { observed(b, c.Observe(b.Context(), queries), n) }, Bare: bare, Most: 3}.Measure(b)
			})
		}
		b.Run("gates", func(b *testing.B) {
			gates := PollGates(each)
			testtools.Growth{
				Do: func() {
					if _, err := c.Poll(b.Context(), gates); err != nil {
						b.Fatal(err)
					}
				},
				Bare: func() { consultest.ReadServices(b, s.Addr(), names[:1]) },
				Most: 4,
			}.Measure(b)
		})
	})
}

// observed checks that the answers have n services.
func observed(b *testing.B, answers []Answer, n int) {
	b.Helper()
	found := 0
	for _, a := range answers {
		if a.Err != nil {
			b.Fatal(a.Err)
		}
		found += len(a.Elements)
	}
	if found != n {
		b.Fatalf("%d of %d services", found, n)
	}
}
