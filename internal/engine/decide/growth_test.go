package decide

import (
	"fmt"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkGrowthDecide decides for n tasks of which one has changed, against a decision for one task.
func BenchmarkGrowthDecide(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		inputs := make([]Input, n)
		for i := range inputs {
			inputs[i] = Input{Task: webTask(), State: applied(), Definition: "def", Reading: Reading{Observed: &Observed{Digest: "A"}}}
			inputs[i].Task.Name = fmt.Sprintf("task-%d", i)
		}
		inputs[n/2].Observed.Digest = "B"
		testtools.Growth{Do: func() { Decide(inputs, noon) }, Bare: func() { Decide(inputs[:1], noon) }}.Measure(b)
	})
}
