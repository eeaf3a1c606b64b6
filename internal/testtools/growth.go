package testtools

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// GrowthTasks and GrowthServices are the sizes of growth benches, whose names begin with
// BenchmarkGrowth. tools/curves draws what they report.
var (
	GrowthTasks    = []int{10, 100, 1000, 10_000}
	GrowthServices = []int{1000, 5000, 20_000}
)

// Grow runs a sub-benchmark for each size, such as tasks=1000.
func Grow(b *testing.B, unit string, sizes []int, measure func(b *testing.B, n int)) {
	for _, n := range sizes {
		if testing.Short() && n > sizes[0] {
			break
		}
		b.Run(fmt.Sprintf("%s=%d", unit, n), func(b *testing.B) { measure(b, n) })
	}
}

// Growth is an operation that a growth bench measures.
type Growth struct {
	Before func() // prepares a call of Do, and is not measured; may be nil
	Do     func()
	// Bare is a bare read or another trivial operation. A bench reports how many times longer Do takes,
	// which depends less on the machine than a time.
	Bare func()
	Most float64 // bound of that ratio; none if 0
}

// A growth bench repeats an operation for at least this time and this often: one call of a short
// operation shows nothing.
const (
	growthTime  = 200 * time.Millisecond
	growthCalls = 3
)

// Measure reports the median time, the allocations and the ratio to the bare operation. It repeats
// the operation itself, so that `-benchtime 1x` is enough.
func (g Growth) Measure(b *testing.B) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		var took, bare []time.Duration
		var bytes, objects []uint64
		for spent := time.Duration(0); spent < growthTime || len(took) < growthCalls; {
			if g.Before != nil {
				g.Before()
			}
			bare = append(bare, timed(g.Bare))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took = append(took, timed(g.Do))
			runtime.ReadMemStats(&after)
			bytes, objects = append(bytes, after.TotalAlloc-before.TotalAlloc), append(objects, after.Mallocs-before.Mallocs)
			spent += took[len(took)-1] + bare[len(bare)-1]
		}
		b.ReportMetric(float64(median(took)), "ns/op")
		b.ReportMetric(float64(median(bytes)), "B/op")
		b.ReportMetric(float64(median(objects)), "allocs/op")
		ratio := float64(median(took)) / float64(max(median(bare), 1))
		b.ReportMetric(ratio, "x-bare")
		if g.Most > 0 && ratio > g.Most {
			b.Errorf("it takes %.1f times as long as the bare operation, bound %g", ratio, g.Most)
		}
	}
}

// Heap returns the bytes of the heap that are in use after a garbage collection.
func Heap() uint64 {
	runtime.GC()
	runtime.GC() // also what only finalizers had kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func timed(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func median[T time.Duration | uint64](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}
