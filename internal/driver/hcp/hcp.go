// Package hcp is the driver for HCP Terraform and Terraform Enterprise, which run Terraform
// themselves: each task has a workspace there, and each run of a task has a run there, its
// remote run.
//
// A run consists of steps. Between them, no process is needed: the run waits, and a tick
// polls HCP Terraform for all runs that wait. The first step uploads the root module with
// the data from Consul and creates the remote run, which is never applied without a
// confirmation. The next step judges its plan and confirms it, and the last one reads how it
// ended. Each step first reads the remote run: a person may have confirmed or discarded it,
// and the process may have died after any request.
package hcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clienttls"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/module"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// Values evaluates the templates of a task's providers and variables.
type Values interface {
	Evaluate(ctx context.Context, cfg *config.Config, t *config.Task) (values.Values, error)
}

// Options say how HCP Terraform is reached. A driver that only checks tasks needs none.
type Options struct {
	// Connect returns what calls HCP Terraform; a Client if nil.
	Connect func(Connection) (API, error)
	// Token returns a token. Written is its text in the configuration, which may be a template.
	// If Token is nil, that text is the token.
	Token func(ctx context.Context, cfg *config.Config, written string) (string, error)
	// Values is needed for tasks with templates.
	Values Values
	// CheckValues returns an error if a template of a task is wrong; may be nil.
	CheckValues func(cfg *config.Config, t *config.Task) error
	// Untouched makes plans write nothing into a workspace that exists, not even variables
	// that it lacks, and say what a run would set up there.
	Untouched bool
	Log       *slog.Logger     // slog.Default() if nil
	Now       func() time.Time // time.Now if nil
	// Wait waits for a time, or until ctx ends; with a timer if nil.
	Wait func(ctx context.Context, d time.Duration) error
}

// Driver runs tasks in HCP Terraform. It is safe for concurrent use.
type Driver struct {
	Options
	mu      sync.Mutex
	clients map[Connection]API
	unknown map[string]bool // statuses that were logged
	polls   polls
	watch   watch
	live    live
}

// New returns a driver.
func New(o Options) *Driver {
	if o.Connect == nil {
		o.Connect = func(c Connection) (API, error) { return NewClient(c) }
	}
	if o.Token == nil {
		o.Token = func(_ context.Context, _ *config.Config, written string) (string, error) { return written, nil }
	}
	token := o.Token
	o.Token = func(ctx context.Context, cfg *config.Config, written string) (string, error) {
		text, err := token(ctx, cfg, written)
		return strings.TrimSpace(text), err // a secret that was stored from a file ends with a line break
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == nil {
		o.Wait = wait
	}
	return &Driver{Options: o, clients: map[Connection]API{}, unknown: map[string]bool{}}
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if !delay.For(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

var errNoCloud = errors.New(`the configuration has no driver "terraform-cloud" any more, so Terrapulse cannot send requests to HCP Terraform: finish the run there`)

// api returns the client for the HCP Terraform of a configuration.
func (d *Driver) api(ctx context.Context, cfg *config.Config) (API, error) {
	cloud := cfg.Cloud()
	if cloud == nil {
		return nil, errNoCloud
	}
	token, err := d.Token(ctx, cfg, cloud.Token)
	if err != nil {
		return nil, fmt.Errorf("read the token of HCP Terraform: %w", err)
	}
	connection := Connection{Address: cloud.Hostname, Token: token}
	if t := cloud.TLS; t.Enabled {
		connection.TLS = clienttls.Options{CACert: t.CACert, CAPath: t.CAPath, Cert: t.Cert, Key: t.Key, ServerName: t.ServerName, SkipVerify: !t.Verify}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if api, ok := d.clients[connection]; ok {
		return api, nil
	}
	api, err := d.Connect(connection)
	if err != nil {
		return nil, err
	}
	clear(d.clients) // of an earlier configuration or token
	d.clients[connection] = api
	return api, nil
}

// Check implements driver.Driver.
func (d *Driver) Check(cfg *config.Config, t *config.Task) config.Errors {
	all := config.Errors(append(rootmodule.Check(cfg, t), module.Findings(t, rootmodule.InputTypes(t, module.VariableTypes(t, t.WorkingDir)))...))
	add := func(err error) {
		if err != nil {
			all = append(all, config.Diagnostic{Position: t.Source, Problem: err.Error()})
		}
	}
	if d.CheckValues != nil {
		add(d.CheckValues(cfg, t))
	}
	add(rootmodule.CheckEnv(t.Name, rootmodule.Env(t, cfg)))
	return all
}

// Apply implements driver.Driver.
func (d *Driver) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return d.change(ctx, job, false)
}

// Destroy implements driver.Driver. It deletes the workspace, too, if it was created for
// the task.
func (d *Driver) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return d.change(ctx, job, true)
}
