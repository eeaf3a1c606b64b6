package testtools

import (
	"testing"
	"time"
)

// Linear fails if an operation on ten times as many things needs more than three times as much of the processor
// for each of them. One that compares each thing with each needs up to ten times as much. prepare returns the
// operation on n things, which is called once.
func Linear(b *testing.B, n int, prepare func(n int) (do func())) {
	b.Helper()
	const rounds, most = 7, 3
	for b.Loop() {
		used := func(do func()) time.Duration {
			before := processor()
			do()
			return processor() - before
		}
		few, many := time.Hour, time.Hour // the least of all rounds: others had to collect garbage
		for range rounds {
			few, many = min(few, used(prepare(n))), min(many, used(prepare(10*n)))
		}
		growth := float64(many) / float64(10*max(few, 1))
		b.ReportMetric(growth, "x-each")
		b.ReportMetric(float64(many), "ns/op")
		if growth > most {
			b.Errorf("with %d things it needs %s of the processor, with %d %s: %.1f times as much for each, bound %d", n, few, 10*n, many, growth, most)
		}
	}
}
