// Package driver defines how a task's infrastructure is brought in line with the data
// of Consul. Each driver is a package below this one.
package driver

import (
	"context"
	"io"
	"slices"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Driver checks, plans, applies and destroys one task. It is safe for
// concurrent use by different tasks.
type Driver interface {
	// Check finds what would make every run of the task fail, without Consul and
	// without running Terraform.
	Check(cfg *config.Config, t *config.Task) config.Errors
	// Plan finds what Apply would change. It changes nothing.
	Plan(ctx context.Context, job Job) (Plan, error)
	// Apply brings the task's infrastructure in line with the snapshot. It applies
	// only what Job.Judge accepts.
	Apply(ctx context.Context, job Job) (*state.Changes, error)
	// Destroy deletes all resources that the task has created. It destroys only what
	// Job.Judge accepts.
	Destroy(ctx context.Context, job Job) (*state.Changes, error)
}

// CheckAll returns what Check finds about all tasks. A problem of a module that
// several tasks use is returned once.
func CheckAll(d Driver, cfg *config.Config) config.Errors {
	var all config.Errors
	for i := range cfg.Tasks {
		for _, problem := range d.Check(cfg, &cfg.Tasks[i]) {
			if !slices.Contains(all, problem) {
				all = append(all, problem)
			}
		}
	}
	return all
}

// Job is one task to plan, apply or destroy.
type Job struct {
	Config   *config.Config
	Task     *config.Task
	Snapshot *consul.Snapshot
	Changes  consul.Names // since the last apply; empty where that is not what the job is about
	Run      state.Run    // its record as claimed; zero outside a run
	Output   io.Writer    // takes the driver's output, in whole lines without secrets
	// Planned, if set, is called when Apply or Destroy have planned without a Judge.
	Planned func()
	// Judge says whether a plan may be applied; its error, such as a *WaitError, is
	// why not. If it is set, Apply and Destroy plan first, and apply that very plan.
	// If it is nil, they apply without a plan, which is faster.
	Judge func(ctx context.Context, plan Plan) error
}
