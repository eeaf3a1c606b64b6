package instance

import (
	"context"
	"log/slog"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/awsrole"
	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/base/awsconfig"
	"github.com/terrapulse/terrapulse/internal/consul/dynamic"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Carrier carries out the runs of an instance.
type Carrier struct {
	driver.Driver
	Remote   reconcile.Remote                                                 // nil if runs work on this machine
	Output   func(context.Context, *config.Config, state.Run) (string, error) // of a remote run; nil without Remote
	Values   *dynamic.Evaluator
	Parallel int    // runs at a time
	Program  string // that runs modules, with its version
}

// Carry begins to search for what carries out the runs of a configuration, parallel of them at a
// time (see Workers). Wait returns the result, and stop ends the search.
func Carry(ctx context.Context, cfg *config.Config, parallel int, log *slog.Logger) (wait func() (Carrier, error), stop func()) {
	if k := remotes.Of(cfg); k != nil {
		values := Values(ctx, log)
		d := k.New(options(k, values, log))
		c := Carrier{Driver: d, Remote: d, Output: d.Output, Values: values, Parallel: remoteWorkers(parallel), Program: k.System}
		return func() (Carrier, error) { return c, nil }, func() {}
	}
	search, stop := terraformcli.FindInBackground(ctx, cfg.Terraform, log)
	return func() (Carrier, error) {
		found, err := search()
		if err != nil {
			return Carrier{}, err
		}
		d := Driver(ctx, found, parallel, log)
		share(d, cfg, log)
		return Carrier{Driver: d, Values: d.Values, Parallel: d.Parallel, Program: found.Program() + " " + found.Version.String()}, nil
	}, stop
}

// options are what a driver needs whose runs go on in another system.
func options(k *remotes.Kind, values *dynamic.Evaluator, log *slog.Logger) remotes.Options {
	tokens := &tokens{look: values.Text, now: time.Now, kept: map[string]keptToken{}}
	token := func(ctx context.Context, cfg *config.Config, written string) (string, error) {
		return tokens.token(ctx, cfg, "driver."+k.Name, written)
	}
	return remotes.Options{Token: token, Values: values, CheckValues: dynamic.Check, Log: log}
}

// remoteSteps is how many steps of runs in another system are carried out at a time. A step
// makes a few requests, but a plan waits for its end.
const remoteSteps = 32

func remoteWorkers(parallel int) int {
	if parallel <= 0 {
		return remoteSteps
	}
	return parallel
}

// Bystander returns a driver that plans tasks while another program may apply them, and how
// many of them at a time. It takes no locks, writes nothing into another system, and installs no
// Terraform.
func Bystander(ctx context.Context, cfg *config.Config, parallel int, log *slog.Logger) (driver.Driver, int, error) {
	if k := remotes.Of(cfg); k != nil {
		o := options(k, Values(ctx, log), log)
		o.Untouched = true
		return k.New(o), remoteWorkers(parallel), nil
	}
	binary, err := terraformcli.FindLocal(ctx, cfg.Terraform, log)
	if err != nil {
		return nil, 0, err
	}
	d := Driver(ctx, binary, parallel, log)
	d.Unlocked = true
	share(d, cfg, log)
	return d, d.Parallel, nil
}

// share lets tasks share the providers that they use, if the user has not configured where Terraform
// gets them.
func share(d *tfdriver.Driver, cfg *config.Config, log *slog.Logger) {
	shared, err := terraformcli.SharedOnMachine(cfg.WorkingDir)
	if err != nil {
		log.Debug("each task has its own copy of its providers", "error", err)
		return
	}
	d.Shared = shared
}

// Checker returns a driver that only checks the tasks of a configuration.
func Checker(cfg *config.Config) driver.Driver {
	if k := remotes.Of(cfg); k != nil {
		return k.New(remotes.Options{CheckValues: dynamic.Check})
	}
	return tfdriver.New(tfdriver.Options{})
}

// Driver returns the driver that runs a Terraform on this machine, and so many
// tasks at a time (see Workers). It looks for credentials of AWS only if a template
// or a task's role needs them.
func Driver(ctx context.Context, found *terraformcli.Binary, parallel int, log *slog.Logger) *tfdriver.Driver {
	return tfdriver.New(tfdriver.Options{
		Terraform: found, Parallel: Workers(parallel), Log: log,
		Values: Values(ctx, log), Assume: assume,
	})
}

// assume assumes the AWS role of a task, also for a plan: this process has the same rights for all runs.
func assume(ctx context.Context, _ state.Kind, role, task string) (map[string]string, func(), error) {
	cfg, err := awsconfig.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	return awsrole.Assume(ctx, cfg, role, task)
}

// Values returns what evaluates templates on this machine.
func Values(ctx context.Context, log *slog.Logger) *dynamic.Evaluator {
	return &dynamic.Evaluator{Context: ctx, Log: log, AWS: func(ctx context.Context) (dynamic.AWS, error) {
		cfg, err := awsconfig.Load(ctx)
		if err != nil {
			return nil, err
		}
		return secrets.New(cfg), nil
	}}
}

// keepToken renews Vault's token from now on if a provider needs it. Otherwise
// it could expire before the first run.
func (i *Instance) keepToken(ctx context.Context, cfg *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, consulPatience)
	defer cancel()
	if err := i.values.Keep(ctx, cfg); err != nil {
		i.Log.Warn("the token for Vault is not renewed before the first run that needs it", "error", err)
	}
}
