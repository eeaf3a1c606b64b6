package consul

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

const manyServices = 10_000

// withManyServices is a Consul with service-0 to service-9999, and their names.
func withManyServices(b *testing.B) (*consultest.Server, []string) {
	return withServices(b, manyServices)
}

// withServices is a Consul with n services, a multiple of 50, and their names.
func withServices(b *testing.B, n int) (*consultest.Server, []string) {
	s := consultest.Start(b)
	var names []string
	for start := 0; start < n; start += 50 {
		node := fmt.Sprintf("node-%d", start/1000)
		put(b, s, &api.CatalogRegistration{Node: node, Address: "10.0.0.1", SkipNodeUpdate: start%1000 != 0})
		var ops api.TxnOps
		for i := start; i < start+50; i++ {
			name := fmt.Sprintf("service-%d", i)
			names = append(names, name)
			ops = append(ops, &api.TxnOp{Service: &api.ServiceTxnOp{Verb: api.ServiceSet, Node: node,
				Service: api.AgentService{ID: name, Service: name, Port: i, Tags: []string{"one", "two"}, Meta: map[string]string{"version": "1"}}}})
		}
		if ok, response, _, err := s.Client().Txn().Txn(ops, nil); err != nil || !ok {
			b.Fatal(err, response)
		}
	}
	return s, names
}

// BenchmarkObserve is a first look at 10,000 services, and one after a single
// change, which costs the same: the gates say that something has moved, not what.
func BenchmarkObserve(b *testing.B) {
	s, names := withManyServices(b)
	for name, selection := range map[string]condition.Spec{"names": services(names...), "regexp": matching("^service-[0-9]+$")} {
		b.Run(name, func(b *testing.B) {
			c := client(b, s.Addr())
			queries := []Query{query(b, selection)}
			peak := peakHeap(b)
			b.ReportAllocs()
			for b.Loop() {
				a := c.Observe(b.Context(), queries)[0]
				if a.Err != nil || len(a.Elements) != manyServices {
					b.Fatalf("%d elements: %v", len(a.Elements), a.Err)
				}
			}
			b.ReportMetric(float64(peak())/1e6, "peak-heap-MB")
		})
	}
}

// BenchmarkSnapshot reads 10,000 services to be rendered.
func BenchmarkSnapshot(b *testing.B) {
	s, names := withManyServices(b)
	c := client(b, s.Addr())
	peak := peakHeap(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Snapshot(b.Context(), task(services(names...))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(peak())/1e6, "peak-heap-MB")
}

// BenchmarkPoll is an idle look at the gates of 10,000 services.
func BenchmarkPoll(b *testing.B) {
	s, names := withManyServices(b)
	c := client(b, s.Addr())
	set := PollGates([]Query{query(b, services(names...))})
	for b.Loop() {
		if _, err := c.Poll(b.Context(), set); err != nil {
			b.Fatal(err)
		}
	}
}

// peakHeap samples the heap until the returned function is called, which
// gives the most bytes that were seen in use.
func peakHeap(b *testing.B) func() uint64 {
	runtime.GC()
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-stopped
		return peak.Load()
	}
}
