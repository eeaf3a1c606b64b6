package reconcilefunction

import (
	"fmt"
	"testing"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkLinearDecisions answers a tick that has queued nearly all tasks.
func BenchmarkLinearDecisions(b *testing.B) {
	testtools.Linear(b, 1000, func(n int) func() {
		var report reconcile.Report
		for i := range n {
			task := &config.Task{Name: fmt.Sprintf("switch-%05d", i)}
			report.Decisions = append(report.Decisions, decide.Decision{Task: task, Action: decide.Run})
			if i > 0 {
				report.Postponed = append(report.Postponed, task.Name)
			}
		}
		return func() {
			if all := decisions(report); len(all) != n || !all[0].Run || all[n-1].Run {
				b.Fatalf("%d decisions, of the first %+v, of the last %+v", len(all), all[0], all[n-1])
			}
		}
	})
}
