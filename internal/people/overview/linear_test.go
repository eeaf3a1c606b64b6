package overview_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkLinearMap draws the map of one task that watches many services.
func BenchmarkLinearMap(b *testing.B) {
	testtools.Linear(b, 1000, func(n int) func() {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("service-%05d", i))
		}
		task := config.Task{Name: "firewall", Enabled: true, Condition: config.Condition{Spec: condition.Services{{Names: names}}}}
		reader := overview.Reader{Store: statetest.NewMemory(), Now: time.Now, Known: new(overview.Known)}
		all, err := reader.ListAll(b.Context(), overlay.Compose(&config.Config{Tasks: []config.Task{task}}, nil))
		if err != nil {
			b.Fatal(err)
		}
		draw := func() {
			if drawn := all.Map(selection.Map{}, nil); drawn.Counts.Sources != n || len(drawn.Tasks) != 1 {
				b.Fatalf("the map has %+v", drawn.Counts)
			}
		}
		draw() // the sources of each task are kept
		return draw
	})
}
