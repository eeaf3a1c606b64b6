package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkGrowthStatus prints the status of n tasks from a store in SQLite, against a bare read of
// the records of all tasks.
func BenchmarkGrowthStatus(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		path := filepath.Join(b.TempDir(), "state.db")
		store, err := sqlite.Open(b.Context(), path)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { store.Close() })
		changes := []state.Change{state.Create(state.ReconcileKey, state.Encode(state.Reconcile{LastSuccess: time.Now()}))}
		for i := range n {
			name := fmt.Sprintf("switch-%05d", i)
			if _, err := store.Apply(b.Context(), append(changes, state.Create(state.TaskKey(name), state.Encode(statetest.Ran(name))))...); err != nil {
				b.Fatal(err)
			}
			changes = nil
		}
		for name, args := range map[string][]string{"text": {"status"}, "JSON": {"status", "-json"}} {
			b.Run(name, func(b *testing.B) {
				var size int
				testtools.Growth{
					Do: func() {
						var out, errs testtools.Output
						if code := run(b.Context(), append(args, "-store=sqlite:"+path), &out, &errs); code != exitOK {
							b.Fatalf("exit code %d: %s", code, &errs)
						}
						size = len(out.String())
					},
					Bare: func() {
						if _, err := store.List(b.Context(), state.TaskPrefix); err != nil {
							b.Fatal(err)
						}
					},
					Most: 60,
				}.Measure(b)
				b.ReportMetric(float64(size), "output-B/op")
			})
		}
	})
}

// BenchmarkGrowthRest measures the resident memory of `start` with n tasks that are disabled, some
// seconds after it has read the configuration and written their records, and then how much of a
// processor it uses.
func BenchmarkGrowthRest(b *testing.B) {
	program := filepath.Join(b.TempDir(), "terrapulse")
	if err := testtools.Build(program, "cmd/terrapulse"); err != nil {
		b.Fatal(err)
	}
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		s := newSite(b)
		var tasks strings.Builder
		for i := range n {
			tasks.WriteString(s.task(fmt.Sprintf("switch-%05d", i), "enabled = false\n  "+onWeb))
		}
		m := &bounds{b: b, program: program}
		for b.Loop() {
			p := m.start(s, s.config(tasks.String()))
			long(b, "all tasks have a record", func() bool {
				return strings.Count(s.run("status", "-json").stdout, `"code": "disabled"`) == n
			})
			time.Sleep(5 * time.Second)
			resident := residentMB(b, p.Process.Pid, "VmRSS")
			const rest = 20 * time.Second
			before := usedProcessor(b, p.Process.Pid)
			time.Sleep(rest)
			percent := 100 * float64(usedProcessor(b, p.Process.Pid)-before) / float64(rest)
			b.ReportMetric(resident, "resident-MB")
			b.ReportMetric(percent, "percent-of-a-core")
			if resident > 150 || percent > 0.5 {
				b.Errorf("at rest it has %.0f MB and uses %.2f %% of a core: more than 150 MB or 0.5 %%", resident, percent)
			}
			p.stop()
		}
	})
}

// usedProcessor is the time of the processor that a process has used.
func usedProcessor(b *testing.B, pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("needs /proc")
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest) // from the third field of proc_pid_stat(5) on
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // 100 a second on Linux
}
