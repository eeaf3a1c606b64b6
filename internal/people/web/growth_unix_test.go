//go:build unix

package web_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkGrowthChangedPages loads pages of n tasks, each after a task has changed, while a leader
// folds the notes of the summary. It reports the time of the processor that 99 of 100 pages need at most,
// and bounds it by that of reading and decoding all rows once.
func BenchmarkGrowthChangedPages(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		c := newChanging(b, n)
		// A collection of garbage takes both processors for some pages in a row: measured 6 to 9 times.
		c.measure(2, 10, "/ui/tasks", fmt.Sprintf("/ui/tasks?after=switch-%05d", n/2), "/ui/tasks?sort=last", "/ui/tasks?phase=applied&sort=-name", "/ui/tasks?q=switch-000&sort=due", "/ui/health")
	})
}

// BenchmarkGrowthLabelledPages is the same for lists by label, of tasks at 50 sites in 4 tiers. They read the
// labels of all tasks. Neither are lists of the same tasks without that.
func BenchmarkGrowthLabelledPages(b *testing.B) {
	for name, paths := range map[string][]string{
		"filtered": {"/ui/tasks?label=site%3Dsite-07", "/ui/tasks?label=site%3Dsite-07+tier%3Dtier-3&sort=last", "/ui/tasks?label=tier%3Dtier-1&phase=applied"},
		"neither":  {"/ui/tasks", "/ui/tasks?sort=last", "/ui/tasks?phase=applied"},
		"grouped":  {"/ui/tasks?group=site", "/ui/tasks?group=tier&sort=last", "/ui/tasks?group=site&label=tier%3Dtier-1"},
	} {
		b.Run(name, func(b *testing.B) {
			testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
				c := newChanging(b, n, func(i int, t *config.Task) {
					t.Labels = map[string]string{"site": fmt.Sprintf("site-%02d", i%50), "tier": fmt.Sprintf("tier-%d", i/50%4)}
				})
				c.measure(3, 14, paths...)
			})
		})
	}
}

// measure loads pages, each after a task has changed. Half of them may need some times as much of a processor
// as reading all rows, and 99 of 100 at most many times.
func (c *changing) measure(half, most int, paths ...string) {
	b := c.b
	for _, path := range paths {
		c.load(path) // of a process that has answered before
	}
	for b.Loop() {
		var took, used, bare []time.Duration
		for i := range 300 {
			c.change()
			began, before := time.Now(), processor(b)
			c.load(paths[i%len(paths)])
			took, used = append(took, time.Since(began)), append(used, processor(b)-before)
			if i%10 == 0 {
				before := processor(b)
				var s summary.Summary
				if known, err := s.Read(b.Context(), c.store); err != nil || !known {
					b.Fatal(known, err)
				}
				bare = append(bare, processor(b)-before)
			}
		}
		slices.Sort(took)
		slices.Sort(used)
		slices.Sort(bare)
		p99, rows := used[len(used)*99/100], bare[len(bare)/2]
		b.ReportMetric(inMS(p99), "p99-cpu-ms")
		b.ReportMetric(inMS(used[len(used)/2]), "median-cpu-ms")
		b.ReportMetric(inMS(took[len(took)*99/100]), "p99-ms")
		b.ReportMetric(inMS(took[len(took)/2]), "median-ms")
		b.ReportMetric(float64(p99)/float64(rows), "p99-x-bare")
		if c.n == 10_000 && (p99 > time.Duration(most)*rows || used[len(used)/2] > time.Duration(half)*rows) {
			b.Errorf("half of the pages need up to %s of the processor, and 99 of 100 up to %s: more than %d and %d times as much as reading all rows (%s)", used[len(used)/2], p99, half, most, rows)
		}
	}
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// processor is the time of the processor that this process has used.
func processor(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
