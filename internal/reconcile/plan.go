package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Planner starts plan runs. They change nothing and do not occupy their tasks,
// so that they need no lease.
type Planner struct {
	Store    state.Store
	Launcher Launcher
	Config   *config.Config // what the files say; overrides come from the store
	// Source is the cache of the effective configuration; may be nil.
	Source *overlay.Source
	Bundle string // as in Reconciler
	Now    func() time.Time
}

// Planner starts plan runs of the Reconciler's tasks.
func (r *Reconciler) Planner() Planner {
	return Planner{Store: r.Store, Launcher: r.Launcher, Config: r.Config, Source: r.Source, Bundle: r.Bundle, Now: r.Now}
}

// Plan launches a run for one task or, if a definition is given, for the task
// that it defines.
func (p Planner) Plan(ctx context.Context, task string, definition json.RawMessage, who string) (state.PlannedRun, error) {
	if definition != nil {
		launch, err := p.StartDraft(ctx, definition, who)
		if err != nil {
			return state.PlannedRun{}, err
		}
		return launch.Runs[0], nil
	}
	launches, err := p.Start(ctx, []string{task}, who)
	if err != nil {
		return state.PlannedRun{}, err
	}
	return launches[0].Runs[0], nil
}

// Start launches a run for each task. It returns the launches that were
// written, also with an error.
func (p Planner) Start(ctx context.Context, tasks []string, who string) ([]state.Launch, error) {
	effective, err := p.Source.Read(ctx, p.Store, p.Config)
	if err != nil {
		return nil, err
	}
	runs := make([]state.PlannedRun, len(tasks))
	for n, name := range tasks {
		t, ok := effective.Config.Task(name)
		if !ok {
			return nil, fmt.Errorf("plan task %s: there is no such task", name)
		}
		runs[n] = state.PlannedRun{ID: newID(), Task: name, Definition: t.Digest(effective.Config)}
	}
	var launches []state.Launch
	for chunk := range slices.Chunk(runs, runsPerLaunch) {
		launch := state.Launch{Config: effective.Config.Digest(), Runs: chunk}
		written, err := p.start(ctx, launch, who)
		if written != nil {
			launches = append(launches, *written)
		}
		if err != nil {
			return launches, err
		}
	}
	return launches, nil
}

// StartDraft launches a run for a task that is not in the configuration: its
// definition travels in the launch.
func (p Planner) StartDraft(ctx context.Context, definition json.RawMessage, who string) (*state.Launch, error) {
	effective, err := p.Source.Read(ctx, p.Store, p.Config)
	if err != nil {
		return nil, err
	}
	cfg, t, err := effective.Draft(definition)
	if err != nil {
		return nil, err
	}
	return p.start(ctx, state.Launch{Config: cfg.Digest(), Draft: definition,
		Runs: []state.PlannedRun{{ID: newID(), Task: t.Name, Definition: t.Digest(cfg)}}}, who)
}

// start writes the launch and its runs, and starts it. It returns the launch if
// that was written.
func (p Planner) start(ctx context.Context, launch state.Launch, who string) (*state.Launch, error) {
	now := p.Now()
	launch.ID, launch.Bundle, launch.Kind, launch.Created = newID(), p.Bundle, state.KindPlan, now
	var changes []state.Change
	for _, planned := range launch.Runs {
		run := state.Run{ID: planned.ID, Task: planned.Task, Kind: launch.Kind, Launch: launch.ID, Created: now, State: state.RunIntended,
			Reason: state.Reason{Code: state.ReasonForced, Text: "plan requested by " + who}}
		changes = append(changes, state.Create(state.RunKey(run.Task, run.ID), state.Encode(run)).Until(run.KeptUntil()))
	}
	changes = append(changes, state.Create(state.LaunchKey(launch.ID), state.Encode(launch)).Until(now.Add(keptLaunches)))
	if _, err := p.Store.Apply(ctx, changes...); err != nil {
		return nil, fmt.Errorf("write the plan runs: %w", err)
	}
	if err := p.Launcher.Start(ctx, launch); err != nil {
		return &launch, fmt.Errorf("start launch %s: %w", launch.ID, err)
	}
	return &launch, nil
}
