package overview_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkGrowthRead reads the overview of n tasks, each with as many runs as are kept in its record,
// against a bare read of the records. A run is under way for one task in ten.
func BenchmarkGrowthRead(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "state.db"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { store.Close() })
		cfg := new(config.Config)
		for i := range n {
			name := fmt.Sprintf("switch-%05d", i)
			cfg.Tasks = append(cfg.Tasks, config.Task{Name: name, Enabled: true, Condition: config.Condition{Spec: condition.Services{{Names: []string{name}}}}})
			if _, err := store.Apply(b.Context(), recordsOf(name, i%10 == 0)...); err != nil {
				b.Fatal(err)
			}
		}
		effective := overlay.Compose(cfg, nil)
		reader := overview.Reader{Store: store, Now: time.Now}
		var size int
		testtools.Growth{
			Do: func() {
				o, err := reader.Read(b.Context(), effective)
				if err != nil || len(o.Tasks) != n {
					b.Fatalf("%d tasks: %v", len(o.Tasks), err)
				}
				raw, err := json.Marshal(o)
				if err != nil {
					b.Fatal(err)
				}
				size = len(raw)
			},
			Bare: func() {
				if _, err := store.List(b.Context(), state.TaskPrefix); err != nil {
					b.Fatal(err)
				}
			},
			Most: 50,
		}.Measure(b)
		b.ReportMetric(float64(size), "answer-B/op")
	})
}

// recordsOf are the records of a task that has run often, and perhaps runs now.
func recordsOf(name string, running bool) (changes []state.Change) {
	task := statetest.Ran(name)
	if running {
		run := state.Run{ID: "r", Task: name, Kind: state.KindApply, State: state.RunRunning, Created: time.Now()}
		task.Run = &state.LiveRun{ID: run.ID, Created: run.Created}
		changes = append(changes, state.Create(state.RunKey(name, run.ID), state.Encode(run)))
	}
	return append(changes, state.Create(state.TaskKey(name), state.Encode(task)))
}
