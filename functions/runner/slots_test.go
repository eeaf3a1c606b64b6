package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// The outcome of a run is written to the table, and its output to the bucket: nobody has to wait for
// that.
func TestEach_NextRunBeginsWhileTheOutcomeOfAnEarlierOneIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{parallel: 2, log: slog.New(slog.DiscardHandler)}
		var atWork, most atomic.Int32
		launch := state.Launch{Runs: make([]state.PlannedRun, 6)}
		began := time.Now()
		without, left := w.each(t.Context(), launch, func(ctx context.Context, _ state.Launch, _ state.PlannedRun) error {
			most.Store(max(most.Load(), atWork.Add(1)))
			time.Sleep(time.Minute) // Terraform
			atWork.Add(-1)
			giveSlotBack(ctx)
			time.Sleep(time.Minute) // the outcome
			return nil
		})
		if took := time.Since(began); took != 4*time.Minute || most.Load() != 2 || without != 0 || left != 0 {
			t.Errorf("it took %s, %d at a time, %d without an outcome, %d not begun", took, most.Load(), without, left)
		}
	})
}
