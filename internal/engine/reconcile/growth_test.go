package reconcile_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// refreshEvery is after which time a tick reads everything.
const refreshEvery = 5 * time.Minute

// BenchmarkGrowthTick measures the ticks of a leader on one machine, with all tasks applied and the
// records in SQLite. The catalog is in memory: what Consul needs comes on top.
func BenchmarkGrowthTick(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		f := onSQLite(b, fleetOf(n))
		b.Run("idle", func(b *testing.B) {
			f.b = b
			idle := func() {
				if !f.tick(reconcile.TickOptions{}).Idle {
					b.Fatal("the tick is not idle")
				}
			}
			reads, writes := f.counted(idle)
			testtools.Growth{Do: idle, Bare: f.readOne, Most: 50}.Measure(b)
			report(b, reads, writes)
			if reads != 1 || writes != 0 {
				b.Errorf("an idle tick reads %d times and writes %d times, want 1 and 0", reads, writes)
			}
		})
		b.Run("change", func(b *testing.B) {
			f.b = b
			one := f.Config.Tasks[n/2].Name
			settled := func() {
				f.settle()
				f.change(one)
			}
			change := func() {
				if runs := f.tick(reconcile.TickOptions{}).Launches; len(runs) != 1 {
					b.Fatalf("%d launches for one change", len(runs))
				}
			}
			settled()
			reads, writes := f.counted(change)
			testtools.Growth{Before: settled, Do: change, Bare: f.readTasks, Most: 150}.Measure(b)
			report(b, reads, writes)
			f.settle()
		})
		b.Run("everything", func(b *testing.B) {
			f.b = b
			everything := func() {
				f.now = f.now.Add(refreshEvery)
				if f.tick(reconcile.TickOptions{}).Idle {
					b.Fatal("the tick read nothing")
				}
			}
			reads, writes := f.counted(everything)
			testtools.Growth{Do: everything, Bare: f.readTasks, Most: 50}.Measure(b)
			report(b, reads, writes)
		})
	})
}

// BenchmarkGrowthPrepare derives tasks and gates from a configuration, against a bare read of all records.
func BenchmarkGrowthPrepare(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		f := onSQLite(b, fleetOf(n))
		changed := 0
		testtools.Growth{
			Do: func() {
				changed++
				if err := f.Prepare(b.Context(), fmt.Sprint(changed)); err != nil {
					b.Fatal(err)
				}
			},
			Bare: f.readTasks,
			Most: 15,
		}.Measure(b)
	})
}

// BenchmarkGrowthHeap measures what a leader keeps in memory, after a garbage collection: the
// configuration from files, what was derived from it, and what is kept between ticks.
func BenchmarkGrowthHeap(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		var text strings.Builder
		for _, t := range fleetOf(n).Tasks {
			fmt.Fprintf(&text, "task {\n name = %q\n module = \"./m\"\n condition \"services\" { names = [%q] }\n}\n", t.Name, t.Name)
		}
		for b.Loop() {
			before := testtools.Heap()
			cfg := configtest.Load(b, b.TempDir(), "tasks.hcl", text.String())
			loaded := testtools.Heap()
			f := onSQLite(b, cfg)
			b.ReportMetric(float64(loaded-before), "config-B")
			b.ReportMetric(float64(testtools.Heap()-before), "heap-B")
			runtime.KeepAlive(f)
		}
	})
}

// onSQLite is a fleet that leads on one machine, with all tasks applied.
func onSQLite(b *testing.B, cfg *config.Config) *fleet {
	b.Helper()
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "state.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	f := newFleet(b, store, cfg)
	f.lead()
	f.settle()
	return f
}

// counted returns how often an operation reads the store and writes to it. It calls the operation once.
func (f *fleet) counted(do func()) (reads, writes int64) {
	f.store.Reset()
	do()
	return f.store.Reads.Load(), f.store.Writes.Load()
}

func report(b *testing.B, reads, writes int64) {
	b.ReportMetric(float64(reads), "reads/op")
	b.ReportMetric(float64(writes), "writes/op")
}

// readOne is a bare read of one record.
func (f *fleet) readOne() {
	if _, err := f.store.Get(f.b.Context(), state.ReconcileKey); err != nil {
		f.b.Fatal(err)
	}
}

// readTasks is a bare read of the records of all tasks.
func (f *fleet) readTasks() {
	if _, err := f.store.List(f.b.Context(), state.TaskPrefix); err != nil {
		f.b.Fatal(err)
	}
}
