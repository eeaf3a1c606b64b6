// Package driver defines how a task's infrastructure is brought in line with the data
// of Consul. Each driver is a package below this one.
package driver

import (
	"context"
	"io"
	"slices"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
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
	Apply(ctx context.Context, job Job) (Outcome, error)
	// Destroy deletes all resources that the task has created. It destroys only what
	// Job.Judge accepts.
	Destroy(ctx context.Context, job Job) (Outcome, error)
}

// Outcome is what Apply or Destroy has done, also if it returns an error.
type Outcome struct {
	Changes *state.Changes // what was applied
	// Unsaved is the state that the backend did not take. Of it, Place and State are set; neither if nothing has
	// kept that state.
	Unsaved *state.Unsaved
	// Made are the addresses of all managed resources that the task then has. They are nil if they are not known,
	// or are the same as before.
	Made []string
	// Checks is what the check blocks of the module have found in an apply; nil if the driver does not show it.
	Checks *Checks
	// Decided is what people have decided about remote runs of earlier runs. What is reported again is recorded once.
	Decided []Decision
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
	Trace    string       // the span of the driver's work, as a traceparent; "" if the run is not traced
	Output   io.Writer    // takes the driver's output, in whole lines without secrets
	// Continued says that Output has what earlier steps of the run have printed.
	Continued bool
	// Applied says that the task was applied before, perhaps by another driver.
	Applied bool
	// BackendChanged says that the state was in another backend then.
	BackendChanged bool
	// ChecksRequired says that a check block that Terraform could not evaluate counts, too. Otherwise, a driver
	// need not read the results if none has failed.
	ChecksRequired bool
	// Judge says whether a plan may be applied; its error, such as a *WaitError, is
	// why not. If it is set, Apply and Destroy plan first, and apply that very plan.
	// If it is nil, they apply without a plan, which is faster.
	Judge func(ctx context.Context, plan Plan) error
	// OnlyIfOlder says that Apply and Destroy plan first only if the state may be an older one.
	OnlyIfOlder bool
	// Notes is set for Apply and Destroy.
	Notes Notes
	// Remote is the record of what another system has of the task; nil without a store.
	Remote RemoteRecord
}

// PlansFirst reports whether Apply and Destroy plan first, whatever the state is.
func (j Job) PlansFirst() bool { return j.Judge != nil && !j.OnlyIfOlder }

// Notes takes what is true from now on, even if the process dies before Apply or Destroy return.
type Notes interface {
	// Planned notes that a plan was made without Judge, and is applied next.
	Planned()
	// Saved notes that the backend has the state that Run.Unsaved names, or that another one is right.
	Saved()
}

// RemoteRecord is the record of what another system has of a task.
type RemoteRecord interface {
	// Read returns it as it was written last; it is zero if nothing was.
	Read(ctx context.Context) (state.Remote, error)
	// Write writes it, and renews the claim of the run. Apply and Destroy call it before each step that
	// they cannot undo, so that the next run finds what this one has begun. Run.Driver is filled in.
	// If there is an error, the step must not be taken.
	//
	// If By is this run, and By, Run.Version or Content are new, then the remote run
	// applies what this step of the run has read: that counts as applied when the run
	// succeeds. If By is an earlier run, this run only waits for its remote run.
	Write(ctx context.Context, r state.Remote) error
}
