package reconcile

import (
	"fmt"
	"testing"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkLinearInclude adds a tick of once-mode that runs the tasks whose waiting runs the first has ended.
func BenchmarkLinearInclude(b *testing.B) {
	testtools.Linear(b, 1000, func(n int) func() {
		var report, next Report
		for i := range n {
			task := &config.Task{Name: fmt.Sprintf("switch-%05d", i)}
			report.Decisions = append(report.Decisions, decide.Decision{Task: task, Action: decide.End})
			next.Decisions = append(next.Decisions, decide.Decision{Task: task, Action: decide.Run})
		}
		return func() {
			if report.Include(next); report.Decisions[n-1].Action != decide.Run {
				b.Fatalf("the decision about the last task is %+v", report.Decisions[n-1])
			}
		}
	})
}
