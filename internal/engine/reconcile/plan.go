package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
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
	// Consul says what tasks would read under a what-if; only WhatIf uses it.
	Consul Supposer
}

// Planner starts plan runs of the Reconciler's tasks.
func (r *Reconciler) Planner() Planner {
	return Planner{Store: r.Store, Launcher: r.Launcher, Config: r.Config, Source: r.Source, Bundle: r.Bundle, Now: r.Now}
}

// Bounded is a Launcher that permits only a number of plans at a time.
type Bounded interface {
	// Admits returns in how many launches at most this sender may start so many plans now, which are one or
	// more. The error is ErrBusy if it refuses them.
	Admits(ctx context.Context, by string, plans int) (launches int, err error)
}

// MaxPlans is how many plans a launch has at most. It has so many only if few launches are permitted: they
// are made one after the other, and its record must be much smaller than state.MaxBytes.
const MaxPlans = 250

// ErrBusy is the error of plans that are refused because there would be too many.
var ErrBusy = errors.New("too many plans")

// Fit returns an error that is ErrBusy, with what to do, if more plans are requested than are permitted.
func Fit(requested, permitted int, advice string) error {
	if requested <= permitted {
		return nil
	}
	return fmt.Errorf("%w: %d requested, and at most %d can start now: %s", ErrBusy, requested, max(permitted, 0), advice)
}

// Plan launches a run for one task or, if a definition is given, for the task
// that it defines.
func (p Planner) Plan(ctx context.Context, task string, definition json.RawMessage, who string) (state.PlannedRun, error) {
	return first(p.Start(ctx, []string{task}, definition, who))
}

// PlanReplacing launches a run for the task as the definition has it. There may be a task of its name.
func (p Planner) PlanReplacing(ctx context.Context, definition json.RawMessage, who string) (state.PlannedRun, error) {
	effective, err := p.Source.Read(ctx, p.Store, p.Config)
	if err != nil {
		return state.PlannedRun{}, err
	}
	cfg, task, err := effective.Replacing(definition)
	if err != nil {
		return state.PlannedRun{}, err
	}
	return first(p.launch(ctx, cfg, []string{task.Name}, runsPerLaunch, state.Launch{Draft: definition, Replacing: true}, state.Run{Reason: planRequested(who)}, nil))
}

func first(launches []state.Launch, err error) (state.PlannedRun, error) {
	if err != nil {
		return state.PlannedRun{}, err
	}
	return launches[0].Runs[0], nil
}

func planRequested(who string) state.Reason {
	return state.Reason{Code: state.ReasonForced, Text: "plan requested by " + who}
}

// Start launches a run for each task or, if a definition is given, for the task
// that it defines, which is not in the configuration: the definition travels in
// the launch. It returns the launches that were written, also with an error.
func (p Planner) Start(ctx context.Context, tasks []string, definition json.RawMessage, who string) (launches []state.Launch, err error) {
	effective, err := p.Source.Read(ctx, p.Store, p.Config)
	if err != nil {
		return nil, err
	}
	cfg := effective.Config
	if definition != nil {
		var draft *config.Task
		if cfg, draft, err = effective.Draft(definition); err != nil {
			return nil, err
		}
		tasks = []string{draft.Name}
	}
	return p.launch(ctx, cfg, tasks, runsPerLaunch, state.Launch{Draft: definition}, state.Run{Reason: planRequested(who)}, nil)
}

// launch launches a run like the given one for each task, perLaunch in a launch, or more if the launcher
// permits fewer launches. What all launches have in common is in like. written, if set, is called before the
// first launch starts.
func (p Planner) launch(ctx context.Context, cfg *config.Config, tasks []string, perLaunch int, like state.Launch, each state.Run,
	written func(context.Context, []state.Launch) error) (launches []state.Launch, err error) {
	now := p.Now()
	like.By = audit.Of(ctx).Sender()
	if b, ok := p.Launcher.(Bounded); ok && len(tasks) > 0 {
		permitted, err := b.Admits(ctx, like.By, len(tasks))
		if err != nil {
			return nil, err
		}
		perLaunch = max(perLaunch, (len(tasks)+permitted-1)/permitted)
	}
	for names := range slices.Chunk(tasks, perLaunch) {
		launch := like
		launch.ID, launch.Kind, launch.Config, launch.Bundle, launch.Created, launch.Runs = newID(), state.KindPlan, cfg.Digest(), p.Bundle, now, nil
		changes := make([]state.Change, len(names), len(names)+1)
		for i, name := range names {
			t, ok := cfg.Task(name)
			if !ok {
				return launches, fmt.Errorf("plan task %s: there is no such task", name)
			}
			run := each
			run.ID, run.Task, run.Kind, run.Launch, run.Created, run.State = newID(), name, launch.Kind, launch.ID, now, state.RunIntended
			launch.Runs = append(launch.Runs, state.PlannedRun{ID: run.ID, Task: name, Definition: t.Digest(cfg)})
			changes[i] = state.Create(state.RunKey(name, run.ID), state.Encode(run)).Until(run.KeptUntil())
		}
		changes = append(changes, state.Create(state.LaunchKey(launch.ID), state.Encode(launch)).Until(launch.KeptUntil()))
		for some := range slices.Chunk(changes, state.MaxChanges) {
			if _, err := p.Store.Apply(ctx, some...); err != nil {
				return launches, fmt.Errorf("write the plan runs: %w", err)
			}
		}
		launches = append(launches, launch)
	}
	if written != nil {
		if err := written(ctx, launches); err != nil {
			return launches, err
		}
	}
	for _, launch := range launches {
		if err := p.Launcher.Start(ctx, launch); err != nil {
			return launches, fmt.Errorf("start launch %s: %w", launch.ID, err)
		}
	}
	return launches, nil
}
