package instance

import (
	"context"
	"log/slog"
	"time"

	"github.com/terrapulse/terrapulse/internal/awsconfig"
	"github.com/terrapulse/terrapulse/internal/awsrole"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/dynamic"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/secrets"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// Carrier carries out the runs of an instance.
type Carrier struct {
	driver.Driver
	Remote   reconcile.Remote                                                 // nil if Terraform runs on this machine
	Output   func(context.Context, *config.Config, state.Run) (string, error) // of a remote run; nil without Remote
	Values   *dynamic.Evaluator
	Parallel int    // runs at a time
	Program  string // that runs modules, with its version
}

// Carry begins to search for what carries out the runs of a configuration, parallel of them at a
// time (see Workers). Wait returns the result, and stop ends the search.
func Carry(ctx context.Context, cfg *config.Config, parallel int, log *slog.Logger) (wait func() (Carrier, error), stop func()) {
	if cfg.Cloud != nil {
		return func() (Carrier, error) { return cloud(ctx, parallel, log), nil }, func() {}
	}
	search, stop := terraform.FindInBackground(ctx, cfg.Terraform, log)
	return func() (Carrier, error) {
		found, err := search()
		if err != nil {
			return Carrier{}, err
		}
		d := Driver(ctx, found, parallel, log)
		return Carrier{Driver: d, Values: d.Values, Parallel: d.Parallel, Program: found.Program() + " " + found.Version.String()}, nil
	}, stop
}

// remoteSteps is how many steps of runs in HCP Terraform are carried out at a time. A step
// makes a few requests, but a plan waits for its end.
const remoteSteps = 32

// cloud returns a Carrier whose runs are carried out in HCP Terraform.
func cloud(ctx context.Context, parallel int, log *slog.Logger) Carrier {
	values := Values(ctx, log)
	d := cloudDriver(values, log)
	return Carrier{Driver: d, Remote: d, Output: d.Output, Values: values, Parallel: cloudWorkers(parallel), Program: "HCP Terraform"}
}

func cloudDriver(values *dynamic.Evaluator, log *slog.Logger) *hcp.Driver {
	tokens := &tokens{look: values.Text, now: time.Now}
	token := func(ctx context.Context, cfg *config.Config, written string) (string, error) {
		return tokens.token(ctx, cfg, "driver.terraform-cloud", written)
	}
	return hcp.New(hcp.Options{Token: token, Values: values, CheckValues: dynamic.Check, Log: log})
}

func cloudWorkers(parallel int) int {
	if parallel <= 0 {
		return remoteSteps
	}
	return parallel
}

// Bystander returns a driver that plans tasks while another program may apply them, and how
// many of them at a time. It takes no locks, writes nothing into workspaces in HCP Terraform,
// and installs no Terraform.
func Bystander(ctx context.Context, cfg *config.Config, parallel int, log *slog.Logger) (driver.Driver, int, error) {
	if cfg.Cloud != nil {
		d := cloudDriver(Values(ctx, log), log)
		d.Untouched = true
		return d, cloudWorkers(parallel), nil
	}
	binary, err := terraform.FindLocal(ctx, cfg.Terraform, log)
	if err != nil {
		return nil, 0, err
	}
	d := Driver(ctx, binary, parallel, log)
	d.Unlocked = true
	return d, d.Parallel, nil
}

// Checker returns a driver that only checks the tasks of a configuration.
func Checker(cfg *config.Config) driver.Driver {
	if cfg.Cloud != nil {
		return hcp.New(hcp.Options{CheckValues: dynamic.Check})
	}
	return tfdriver.New(tfdriver.Options{})
}

// Driver returns the driver that runs a Terraform on this machine, and so many
// tasks at a time (see Workers). It looks for credentials of AWS only if a template
// or a task's role needs them.
func Driver(ctx context.Context, found *terraform.Binary, parallel int, log *slog.Logger) *tfdriver.Driver {
	return tfdriver.New(tfdriver.Options{
		Terraform: found, Parallel: Workers(parallel), Log: log,
		Values: Values(ctx, log), Assume: assume,
	})
}

// assume assumes the AWS role of a task.
func assume(ctx context.Context, role, task string) (map[string]string, func(), error) {
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
