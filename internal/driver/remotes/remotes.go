// Package remotes lists the drivers whose runs go on in another system, and makes them.
//
// Such a driver is a package beside this one, a file in this package that describes it,
// and a line in Kinds. Programs that carry out such runs link all of them, and call them by the
// driver that the configuration names. Terraform, which needs a process as long as a run takes, is
// not among them: so functions/reconcile does not link it.
package remotes

import (
	"context"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// Kinds are the drivers whose runs go on in another system.
var Kinds = []*Kind{hcpKind}

// Kind is such a driver.
type Kind struct {
	Name   string // of its block in task files
	System string // that carries out the runs, for people
	// Fix is what to do if this machine cannot reach the system, FixInAWS if functions in AWS cannot.
	Fix, FixInAWS string
	New           func(Options) Driver
}

// Options are what a driver needs from the process that uses it. A driver that only checks tasks
// needs CheckValues alone.
type Options struct {
	// Token returns a token. Written is its text in the configuration, which may be a template.
	Token func(ctx context.Context, cfg *config.Config, written string) (string, error)
	// Values evaluates the templates of tasks.
	Values Values
	// CheckValues returns an error if a template of a task is wrong; may be nil.
	CheckValues func(cfg *config.Config, t *config.Task) error
	// Untouched makes plans write nothing into the system.
	Untouched bool
	Log       *slog.Logger
}

// Values evaluates the templates of a task's providers and variables.
type Values interface {
	Evaluate(ctx context.Context, cfg *config.Config, t *config.Task) (values.Values, error)
}

// Driver is a driver whose runs go on in another system. Poll, Await and Stop are those of
// reconcile.Remote.
type Driver interface {
	driver.Driver
	Poll(ctx context.Context, cfg *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error)
	Await(ctx context.Context, cfg *config.Config, waits []state.RemoteWait) map[string]state.RemoteStatus
	Stop(ctx context.Context, cfg *config.Config, r *state.RemoteRun) (applied bool, err error)
	// Output returns what the system has printed of what a run waits for.
	Output(ctx context.Context, cfg *config.Config, run state.Run) (string, error)
	// Reach sends a request to the system, and says what has answered.
	Reach(ctx context.Context, cfg *config.Config) (string, error)
}

// All makes all drivers, each with its options.
func All(options func(*Kind) Options) map[*Kind]Driver {
	all := map[*Kind]Driver{}
	for _, k := range Kinds {
		all[k] = k.New(options(k))
	}
	return all
}

// Of returns the kind of the driver of a configuration; nil if its runs do not go on in another
// system.
func Of(cfg *config.Config) *Kind {
	for _, k := range Kinds {
		if k.Name == cfg.Driver().Kind().Name {
			return k
		}
	}
	return nil
}
