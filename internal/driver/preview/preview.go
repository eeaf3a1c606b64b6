// Package preview plans tasks with the current data of Consul. It changes nothing.
package preview

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Planner plans tasks.
type Planner struct {
	Config   *config.Config
	Consul   *consul.Client
	Driver   driver.Driver
	Parallel int // plans at a time
	Log      *slog.Logger
	// Snapshot returns what a task renders; by default, what Consul shows now.
	Snapshot func(ctx context.Context, t *config.Task) (*consul.Snapshot, error)
	WhatIf   *state.WhatIf // if something is supposed
	// Store has what another system has of a task; nil if there is none.
	Store state.Store

	// Begin returns where the output of a task's plan goes, and End is called
	// after it. Both may be nil.
	Begin func(task string) io.Writer
	End   func(task string)
}

// Result is the plan of a task, or why it failed. A disabled task has neither.
type Result struct {
	Task *config.Task
	Plan driver.Plan
	Err  error
}

// Plan returns a result for each task, in the same order.
func (p *Planner) Plan(ctx context.Context, tasks []*config.Task) []Result {
	results := make([]Result, len(tasks))
	var group errgroup.Group
	group.SetLimit(p.Parallel)
	for i, task := range tasks {
		results[i].Task = task
		if !task.Enabled {
			continue
		}
		group.Go(func() error {
			results[i].Plan, results[i].Err = p.plan(ctx, task)
			return nil
		})
	}
	_ = group.Wait() // the results hold the errors
	return results
}

func (p *Planner) plan(ctx context.Context, task *config.Task) (driver.Plan, error) {
	read := p.Snapshot
	if read == nil {
		read = p.Consul.Preview
	}
	snap, err := read(ctx, task)
	if err != nil {
		return driver.Plan{}, err
	}
	for _, warning := range []string{snap.Visibility.Hidden(), snap.Warning()} {
		if warning != "" {
			p.Log.Warn(warning, "task", task.Name)
		}
	}
	output := io.Discard
	if p.Begin != nil {
		output = p.Begin(task.Name)
		defer p.End(task.Name)
	}
	job := driver.Job{Config: p.Config, Task: task, Snapshot: snap, Output: output, Run: state.Run{WhatIf: p.WhatIf}}
	if p.Store != nil {
		job.Remote = recorded{p.Store, task.Name, p.Config.Driver().Kind().Name}
	}
	return p.Driver.Plan(ctx, job)
}

// recorded is the record of what another system has of a task, for plans.
type recorded struct {
	store        state.Store
	task, driver string
}

// Read implements driver.RemoteRecord.
func (r recorded) Read(ctx context.Context) (state.Remote, error) {
	return state.ReadRemote(ctx, r.store, r.task, r.driver)
}

// Write implements driver.RemoteRecord.
func (recorded) Write(context.Context, state.Remote) error {
	return errors.New("a plan records nothing")
}
