package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// nothing is a driver that applies nothing, at once.
type nothing struct{ driver.Driver }

func (nothing) Apply(context.Context, driver.Job) (driver.Outcome, error) {
	return driver.Outcome{Changes: &state.Changes{}}, nil
}

// quiet is a reconciler whose tasks have all been applied, with a clock to set.
type quiet struct {
	*reconcile.Reconciler
	store *statetest.Faulty
	path  string
	now   time.Time
}

func newQuiet(t testing.TB, cfg *config.Config, client *consul.Client) *quiet {
	t.Helper()
	q := &quiet{path: filepath.Join(t.TempDir(), "state.db"), now: time.Now()}
	store, err := sqlite.Open(t.Context(), q.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	q.store = &statetest.Faulty{Store: store}
	clock := func() time.Time { return q.now }
	log := slog.New(slog.DiscardHandler)
	run := &runner.Runner{Config: func() *config.Config { return cfg }, Store: q.store, Consul: client, Driver: nothing{},
		Owner: lease.NewOwner(), Claim: time.Minute, Now: clock, Log: log}
	launcher := launch.NewLocal(t.Context(), 4, log, run.Run)
	q.Reconciler = &reconcile.Reconciler{Config: cfg, Store: q.store, Consul: client, Launcher: launcher,
		Owner: run.Owner, LeaseTTL: time.Minute, Now: clock, Log: log}
	for range 2 {
		if _, err := q.Tick(t.Context(), reconcile.TickOptions{}); err != nil {
			t.Fatal(err)
		}
		launcher.Wait()
		q.now = q.now.Add(time.Minute)
	}
	return q
}

// idleCounts measures an idle tick: requests to Consul, reads and writes of the store.
func idleCounts(t testing.TB, cfg *config.Config, client *consul.Client, proxy *consultest.Proxy) (requests int, reads, writes int64) {
	t.Helper()
	q := newQuiet(t, cfg, client)
	q.store.Reset()
	proxy.Reset()
	report, err := q.Tick(t.Context(), reconcile.TickOptions{})
	if err != nil || !report.Idle {
		t.Fatalf("the tick is not idle (%v): %+v", err, report.Decisions)
	}
	return proxy.Total(), q.store.Reads.Load(), q.store.Writes.Load()
}

// documentTasks are 60 tasks on config entries and on two kinds of resources.
func documentTasks(s *site) string {
	var tasks string
	for i := range 20 {
		tasks += s.task(fmt.Sprintf("intentions-%d", i), fmt.Sprintf("condition \"config-entries\" {\n    kind = \"service-intentions\"\n    name = \"web-%d\"\n  }", i)) +
			s.task(fmt.Sprintf("exports-%d", i), fmt.Sprintf("condition \"resources\" {\n    group = \"multicluster\"\n    version = \"v2\"\n    kind = \"exportedservices\"\n    name_prefix = \"web-%d\"\n  }", i)) +
			s.task(fmt.Sprintf("artists-%d", i), "condition \"resources\" {\n    group = \"demo\"\n    version = \"v2\"\n    kind = \"artist\"\n  }")
	}
	return tasks
}

func TestEightHoursOfIdleTicksLeaveMemoryAndFileFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("2,880 ticks")
	}
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	heap, heapAfter, file, fileAfter := eightHours(t, s)
	if heapAfter > heap+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", heap, heapAfter)
	}
	if fileAfter > file+64<<10 {
		t.Errorf("the store grew from %d to %d bytes", file, fileAfter)
	}
}

// eightHours ticks through eight hours of a clock of its own, and measures
// after the first and after the last.
func eightHours(t testing.TB, s *site) (heap, heapAfter uint64, file, fileAfter int64) {
	t.Helper()
	cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: s.config(s.task("a", onWeb) + s.task("b", onWeb))}}, Getenv: os.Getenv, Hostname: "test"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := consul.New(cfg.Consul)
	if err != nil {
		t.Fatal(err)
	}
	q := newQuiet(t, cfg, client)
	size := func() (heap uint64, file int64) {
		var mem runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&mem)
		for _, name := range []string{q.path, q.path + "-wal"} {
			if info, err := os.Stat(name); err == nil {
				file += info.Size()
			}
		}
		return mem.HeapAlloc, file
	}
	hours := func(h int) {
		for range h * 60 * 6 { // a tick every ten seconds
			if _, err := q.Tick(t.Context(), reconcile.TickOptions{}); err != nil {
				t.Fatal(err)
			}
			q.now = q.now.Add(10 * time.Second)
		}
	}
	hours(1) // caches fill
	heap, file = size()
	hours(7)
	heapAfter, fileAfter = size()
	return heap, heapAfter, file, fileAfter
}
