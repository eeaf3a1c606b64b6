package tableapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/function"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// inspections starts inspections of tasks and of drafts.
type inspections struct {
	function function.Function
	store    state.Store
	inForce  func(ctx context.Context) (cfg *config.Config, bundle string, err error)
	source   *overlay.Source
}

// start starts an inspection. If the plan is made in another system, functions/reconcile would answer
// only when it has ended: so the launch is written here.
func (s inspections) start(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error) {
	planner, err := s.planner(ctx)
	switch {
	case err != nil:
		return state.PlannedRun{}, err
	case !planner.Config.Driver().Kind().Remote:
		return inspect(ctx, s.function, task, draft)
	}
	return planner.Plan(ctx, task, draft, "the API")
}

// planner starts plans of the bundle in force: each launch by an invocation of functions/reconcile.
func (s inspections) planner(ctx context.Context) (reconcile.Planner, error) {
	cfg, digest, err := s.inForce(ctx)
	return reconcile.Planner{Store: s.store, Launcher: asynchronous{s.function}, Config: cfg, Source: s.source, Bundle: digest, Now: time.Now}, err
}

// asynchronous has functions/reconcile execute launches.
type asynchronous struct{ function function.Function }

func (a asynchronous) Start(ctx context.Context, launch state.Launch) error {
	return a.function.Start(ctx, launch.ID)
}

func (asynchronous) Status(context.Context, []string) (map[string]reconcile.LaunchStatus, error) {
	return nil, nil // nobody calls it for plans
}

// inspect has functions/reconcile start an inspection in a container.
func inspect(ctx context.Context, f function.Function, task string, draft json.RawMessage) (state.PlannedRun, error) {
	request := invoke.Request{Mode: invoke.Inspect, Draft: draft, Noted: audit.Of(ctx).Noted}
	if draft == nil {
		request.Tasks = []string{task}
	}
	answer, err := callForPlans(ctx, f, request)
	if err == nil && len(answer.Runs) != 1 {
		err = fmt.Errorf("function %s has started %d runs: %s", f.Name, len(answer.Runs), answer.Problem)
	}
	if err != nil {
		return state.PlannedRun{}, fmt.Errorf("start an inspection of task %s: %w", task, err)
	}
	return state.PlannedRun{ID: answer.Runs[0].Run, Task: answer.Runs[0].Task}, nil
}

// callForPlans has functions/reconcile start plans.
func callForPlans(ctx context.Context, f function.Function, r invoke.Request) (invoke.Answer, error) {
	answer, err := f.Call(ctx, r)
	if err == nil && answer.Busy {
		err = fmt.Errorf("%w (function %s: %s)", reconcile.ErrBusy, f.Name, answer.Problem)
	}
	return answer, err
}

// wake returns a function that starts a tick for a requested change.
func wake(f function.Function, log *slog.Logger) func(context.Context) {
	return func(ctx context.Context) {
		if err := f.Tick(ctx); err != nil {
			log.Warn("cannot invoke the reconcile function: the change waits for the next tick", "error", err)
		}
	}
}

// output has functions/reconcile read what another system prints: only that function has the token,
// the secrets that the output must not show, and a way to a system in its network.
func output(f function.Function) func(context.Context, *config.Config, state.Run) (string, error) {
	return func(ctx context.Context, _ *config.Config, run state.Run) (string, error) {
		ctx, stop := context.WithTimeout(ctx, outputLimit)
		defer stop()
		answer, err := f.Call(ctx, invoke.Request{Mode: invoke.Output, Tasks: []string{run.Task}, Run: run.ID})
		if err == nil && answer.Problem != "" {
			err = errors.New(answer.Problem)
		}
		return answer.Output, err
	}
}
