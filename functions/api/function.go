package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/invoke/function"
	"github.com/terrapulse/terrapulse/internal/state"
)

// inspect returns a function that starts an inspection of a task or of a draft.
func inspect(f function.Function) func(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error) {
	return func(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error) {
		request := invoke.Request{Mode: invoke.Inspect, Draft: draft}
		if draft == nil {
			request.Tasks = []string{task}
		}
		answer, err := f.Call(ctx, request)
		if err == nil && len(answer.Runs) != 1 {
			err = fmt.Errorf("function %s has started %d runs: %s", f.Name, len(answer.Runs), answer.Problem)
		}
		if err != nil {
			return state.PlannedRun{}, fmt.Errorf("start an inspection of task %s: %w", task, err)
		}
		return state.PlannedRun{ID: answer.Runs[0].Run, Task: answer.Runs[0].Task}, nil
	}
}

// wake returns a function that starts a tick for a requested change.
func wake(f function.Function, log *slog.Logger) func(context.Context) {
	return func(ctx context.Context) {
		if err := f.Tick(ctx); err != nil {
			log.Warn("cannot invoke the reconcile function: the change waits for the next tick", "error", err)
		}
	}
}
