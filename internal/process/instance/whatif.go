package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/preview"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/engine/verdict"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/policycheck"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// WhatIf plans tasks without an instance, with what Consul would show, and judges the plans.
// It applies and records nothing.
type WhatIf struct {
	// Planner plans; it needs no Snapshot and no WhatIf.
	Planner preview.Planner
	// Store has what was applied last, and what people have stopped. Without it, what would be gone is
	// compared with what Consul shows now.
	Store state.Store
	// Planning is called with how many tasks are planned.
	Planning func(n int)
}

// compared is the difference of a task's data to what it would be, and its record.
type compared struct {
	snap        *consul.Snapshot
	differences []consul.Difference
	unknown     bool
	record      state.Task
}

// Ask returns what would happen to the enabled tasks among these.
func (w WhatIf) Ask(ctx context.Context, tasks []*config.Task, what condition.WhatIf) (apispec.WhatIf, error) {
	var enabled []*config.Task
	for _, t := range tasks {
		if t.Enabled {
			enabled = append(enabled, t)
		}
	}
	supposed, err := w.Planner.Consul.Suppose(ctx, enabled, what)
	if err != nil {
		return apispec.WhatIf{}, err
	}
	q := state.Question{Supposed: what.String(), Tasks: len(enabled)}
	planner := w.Planner
	var all state.Reconcile
	if w.Store != nil {
		rec, err := state.ReadReconcile(ctx, w.Store)
		if err != nil {
			return apispec.WhatIf{}, err
		}
		all = rec.Data
		planner.Store = w.Store
	}
	known := map[*config.Task]*compared{}
	concerned := supposed.Sort(&q, enabled, func(i int) (err error) {
		known[enabled[i]], err = w.compare(ctx, enabled[i], supposed, i)
		return err
	})
	planner.WhatIf = &state.WhatIf{Supposed: q.Supposed}
	planner.Snapshot = func(_ context.Context, t *config.Task) (*consul.Snapshot, error) { return known[t].snap, nil }
	if q.Order, err = reconcile.Places(ctx, w.Store, planner.Config, enabled, time.Now()); err != nil {
		return apispec.WhatIf{}, err
	}
	w.Planning(len(concerned))
	shown := apiview.Question(q, nil, time.Now())
	would := map[string]*state.Verdict{}
	for _, r := range planner.Plan(ctx, concerned) {
		result, v := w.result(ctx, r, *known[r.Task], all)
		would[r.Task.Name] = &v
		shown.Results = append(shown.Results, result)
	}
	apiview.InOrder(would, apiview.Places(q))
	for i, r := range shown.Results {
		if v := would[r.Task]; v != nil {
			shown.Results[i].Verdict = apiview.Verdict(v)
		}
	}
	return shown, nil
}

// compare compares what a task would read with what it was applied with.
func (w WhatIf) compare(ctx context.Context, t *config.Task, supposed *consul.Supposed, i int) (*compared, error) {
	snap, err := supposed.Snapshot(i)
	if err != nil {
		return nil, err
	}
	c := &compared{snap: snap}
	var before state.Inputs
	if w.Store != nil {
		record, err := state.Read[state.Task](ctx, w.Store, state.TaskKey(t.Name))
		if err != nil {
			return nil, fmt.Errorf("read task %s: %w", t.Name, err)
		}
		c.record = record.Data
		before, err = state.LoadInputs(ctx, w.Store, t.Name)
		if c.unknown = errors.Is(err, state.ErrTorn); err != nil && !c.unknown {
			return nil, fmt.Errorf("read what the task was applied with: %w", err)
		}
	}
	if err := snap.Visibility.Confirm(ctx, before.Sources); err != nil {
		return nil, err
	}
	now, err := supposed.Now(i)
	if err != nil {
		return nil, err
	}
	for n, in := range snap.Inputs {
		elements, details := before.Of(in.Kind.Name), before.Details
		if c.record.Applied.At.IsZero() {
			elements, details = now.Inputs[n].Elements, now.Inputs[n].Details
		}
		c.differences = append(c.differences, consul.Diff(in.Kind.Entries, elements, details, in.Observation))
	}
	return c, nil
}

// result judges a plan.
func (w WhatIf) result(ctx context.Context, planned preview.Result, c compared, all state.Reconcile) (apispec.WhatIfResult, state.Verdict) {
	t, plan := planned.Task, planned.Plan
	var changed state.EntryChanges
	for _, d := range c.differences {
		d.CountIn(&changed)
	}
	now := time.Now()
	definition, sources := t.Digest(w.Planner.Config), runner.Sources(c.differences, c.record)
	causes, _ := t.InputCauses(sources, c.unknown, now)
	replaced, err := runner.Replacement{Task: t, All: all, Record: c.record, Content: state.Content{Definition: definition, Input: c.snap.Digest()},
		Sources: sources, Unknown: c.unknown}.Causes(ctx, w.Planner.Consul, now)
	causes = append(replaced, causes...)
	known := verdict.Case{Task: t, Definition: definition, State: c.record, Paused: all.Paused, Condition: c.snap.Condition.Digest,
		Causes: causes, Removals: changed.OnlyRemovals(), Now: now}
	v := verdict.Of(known.Planned(plan.Changes, cmp.Or(planned.Err, err), func() ([]state.Cause, error) {
		refused, err := w.check(ctx, t, plan, c)
		if err != nil {
			return nil, err
		}
		causes, _ := t.PlanCauses(causes, append(refused, plan.Causes...), plan.Counted(), c.record.Applied.Sizes, now)
		return causes, nil
	}))
	shown := apispec.WhatIfResult{Task: t.Name, State: apispec.WhatIfResultStatePlanned,
		Changes: apiview.LostFirst(plan.Changes), Plan: apiview.Optional(plan.Text)}
	if planned.Err != nil {
		shown.State, shown.Error = apispec.WhatIfResultStateFailed, apiview.Optional(planned.Err.Error())
	}
	return shown, v
}

// check runs the task's checks on the plan.
func (w WhatIf) check(ctx context.Context, t *config.Task, plan driver.Plan, c compared) ([]state.Cause, error) {
	in := policycheck.Input{Task: t.Name, Run: policycheck.Run{Kind: state.KindPlan}, Entries: policycheck.Entries(consul.AllNames(c.differences))}
	return runner.Check(ctx, t, plan, in, w.Planner.Config.Dir(), terraformcli.Environ(), io.Discard)
}
