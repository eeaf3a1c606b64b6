package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/apiclient"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// migrateCheckCommand says what would change if Terrapulse took over.
type migrateCheckCommand struct{ *app }

func (c *migrateCheckCommand) Synopsis() string {
	return "Say what a move from Consul-Terraform-Sync would change"
}

func (c *migrateCheckCommand) Help() string {
	return `Usage: terrapulse migrate check -config-file=PATH [flags]

  Reads the configuration of Consul-Terraform-Sync, finds the state of each of
  its tasks, and plans it as Terrapulse would run it. Says of each task whether
  that will change nothing, what it will change, or why it cannot be done. If
  Consul-Terraform-Sync runs on this machine, its tasks are compared with those
  of the files: what was changed through its API is in none of them.

  Nothing is changed: no workspace is made, no lock is taken, nothing is written
  and nothing installed. Run it in the folder where Consul-Terraform-Sync runs,
  with its environment, as relative paths and tokens come from there.

  The exit code is 0 if every task can be taken over and 11 if one cannot; with
  -detailed-exitcode it is 2 if something would change.
`
}

func (c *migrateCheckCommand) about() about {
	f, _ := c.flags()
	return about{flags: f, examples: []string{"-config-file cts.hcl", "-config-file cts.hcl -plan -detailed-exitcode"},
		codes: codesOfPlan}
}

type migrateCheckOptions struct {
	config   configFlags
	log      logFlags
	api      string
	parallel int
	exitCode bool
	plans    bool
	json     bool
}

func (c *migrateCheckCommand) flags() (*flag.FlagSet, *migrateCheckOptions) {
	f, o := newFlags("migrate check"), &migrateCheckOptions{}
	o.config.register(f)
	o.log.register(f)
	parallelFlag(f, &o.parallel, "are planned")
	f.StringVar(&o.api, "http-addr", "", "The `URL` of Consul-Terraform-Sync's API, if it runs. Default: the configured port on this machine.")
	f.BoolVar(&o.plans, "plan", false, "Also print the plans of tasks that would change something.")
	f.BoolVar(&o.exitCode, "detailed-exitcode", false, "Exit code 0 means that nothing changes, 2 that something does, 11 that a task cannot be taken over.")
	f.BoolVar(&o.json, "json", false, "Print JSON, for scripts.")
	return f, o
}

// What becomes of a task that is taken over.
const (
	willNothing = "nothing" // nothing will change
	willChange  = "changes"
	willNot     = "cannot"
	willStay    = "disabled"
)

// takeover is what becomes of one task.
type takeover struct {
	Task    string `json:"task"`
	Will    string `json:"will"` // nothing, changes, cannot or disabled
	Why     string `json:"why,omitempty"`
	Add     int    `json:"add"`
	Change  int    `json:"change"`
	Destroy int    `json:"destroy"`
	Plan    string `json:"plan,omitempty"` // of a task that changes
}

// migration is what would become of everything.
type migration struct {
	API   string     `json:"api,omitempty"` // the URL at which an API answers
	Notes []string   `json:"notes"`         // what is not in the files, and what else is to be known
	Lost  bool       `json:"lost"`          // something that was done through the API would be lost
	Tasks []takeover `json:"tasks"`
}

func (c *migrateCheckCommand) Run(args []string) int {
	f, o := c.flags()
	if code := c.parseAll(f, args); code >= 0 {
		return code
	}
	cfg, code := o.config.load(c.app)
	if code >= 0 {
		return code
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.stderr, "Warning: %s\n", w)
	}
	log, err := o.log.logger(c.app, "WARN")
	if err != nil {
		return c.fail(exitFlags, err)
	}
	client, code := c.connect(cfg)
	if code >= 0 {
		return code
	}
	if code := c.reach(c.ctx, client); code >= 0 {
		return code
	}
	binary, err := terraform.FindLocal(c.ctx, cfg.Terraform, log)
	if err != nil {
		return c.fail(exitTerraform, err)
	}

	m := &migration{Notes: []string{}, Tasks: make([]takeover, len(cfg.Tasks))}
	m.compare(c.ctx, cfg, o.api)
	planner := tfdriver.New(tfdriver.Options{Terraform: binary, Values: c.values(log), Unlocked: true, Parallel: workers(o.parallel)})
	var group errgroup.Group
	group.SetLimit(workers(o.parallel))
	for i := range cfg.Tasks {
		group.Go(func() error {
			m.Tasks[i] = takeOver(c.ctx, cfg, &cfg.Tasks[i], client, planner)
			return nil
		})
	}
	group.Wait()
	if c.ctx.Err() != nil {
		return c.fail(exitError, context.Cause(c.ctx))
	}
	if m.API != "" && m.count(willChange) > 0 {
		m.Notes = append(m.Notes, "the plans were made without a lock: what was being applied just then may show in them")
	}
	if o.json {
		if code := c.printJSON(m); code != exitOK {
			return code
		}
	} else {
		m.print(c.app, o.plans)
	}
	switch {
	case m.count(willNot) > 0:
		return exitError
	case o.exitCode && (m.count(willChange) > 0 || m.Lost):
		return exitChanges
	default:
		return exitOK
	}
}

// takeOver plans a task against the state that Consul-Terraform-Sync has left.
func takeOver(ctx context.Context, cfg *config.Config, t *config.Task, client *consul.Client, planner driver.Driver) takeover {
	result := takeover{Task: t.Name}
	if !t.Enabled {
		result.Will, result.Why = willStay, "it is disabled, and stays so"
		return result
	}
	snap, err := client.Preview(ctx, t)
	var plan driver.Plan
	if err == nil {
		plan, err = planner.Plan(ctx, driver.Job{Config: cfg, Task: t, Snapshot: snap, Output: io.Discard})
	}
	if err != nil {
		result.Will, result.Why = willNot, err.Error()
		return result
	}
	result.Add, result.Change, result.Destroy = plan.Changes.Add, plan.Changes.Change, plan.Changes.Destroy
	if plan.Empty {
		result.Will = willNothing
		if plan.New {
			result.Why = "it has no state, and makes nothing"
		}
		return result
	}
	result.Will, result.Plan = willChange, plan.Text
	result.Why = fmt.Sprintf("%d to add, %d to change, %d to destroy", result.Add, result.Change, result.Destroy)
	if plan.New {
		result.Why = fmt.Sprintf("it has no state %s, so that everything would be made (%s): if it has run before, its state is elsewhere",
			whereState(cfg, t), result.Why)
	}
	return result
}

// whereState is where the state of a task was looked for.
func whereState(cfg *config.Config, t *config.Task) string {
	switch backend := cfg.Terraform.Backend; backend.Type {
	case "local":
		return "below " + t.WorkingDir
	default:
		return fmt.Sprintf("in the workspace %s of the backend %q", t.Name, backend.Type)
	}
}

func (m *migration) count(will string) int {
	n := 0
	for _, t := range m.Tasks {
		if t.Will == will {
			n++
		}
	}
	return n
}

func (m *migration) print(a *app, plans bool) {
	var t table
	t.row(plain, "TASK", "WILL CHANGE", "WHY")
	for _, task := range m.Tasks {
		n, word := plain, task.Will
		switch task.Will {
		case willNothing:
			n = good
		case willChange:
			word = "this"
		case willNot:
			n, word = bad, "cannot be taken over"
		case willStay:
			word = "nothing"
		}
		t.row(n, task.Task, word, task.Why)
	}
	t.print(a.stdout)
	for _, note := range m.Notes {
		fmt.Fprintf(a.stdout, "\nNote: %s.\n", note)
	}
	for _, task := range m.Tasks {
		if plans && task.Will == willChange {
			fmt.Fprintf(a.stdout, "\n### Task %s\n%s\n", task.Task, strings.TrimSpace(task.Plan))
		}
	}
}

// apiPatience is how long the API of a Consul-Terraform-Sync may take to answer.
const apiPatience = 5 * time.Second

// compare looks for a Consul-Terraform-Sync that runs, and notes what it does
// that is in no file.
func (m *migration) compare(ctx context.Context, cfg *config.Config, address string) {
	given := address != ""
	if !given && cfg.Port == 0 {
		return
	}
	if !given {
		scheme := "http"
		if cfg.TLS.Enabled {
			scheme = "https"
		}
		address = fmt.Sprintf("%s://localhost:%d", scheme, cfg.Port)
	}
	address = strings.TrimSuffix(address, "/")
	running, err := taskStatuses(ctx, cfg, address)
	var dial *net.OpError
	switch {
	case !given && errors.As(err, &dial) && dial.Op == "dial":
		m.note("no Consul-Terraform-Sync runs here: nothing answers at %s. What was changed through its API has ended with it, and is not known here", address)
		return
	case err != nil:
		m.note("what runs at %s was not compared with the files: %v", address, err)
		return
	}
	m.API = address
	m.note("an API answers at %s: stop what runs there before `terrapulse start`, as two programs must not work on one state", address)
	for _, name := range slices.Sorted(maps.Keys(running)) {
		t, ok := cfg.Task(name)
		switch is := running[name]; {
		case !ok:
			m.lose("task %s was made through the API and is in no file, so that it would be lost: keep what %s/v1/tasks/%s shows, "+
				"and make it again with `terrapulse task create`", name, address, name)
		case is.Enabled && !t.Enabled:
			m.lose("task %s runs, but the files say that it is disabled, and so it would not run any more: set enabled = true", name)
		case !is.Enabled && t.Enabled:
			m.lose("task %s was disabled through the API, but the files say that it is enabled, and so it would run again: set enabled = false", name)
		}
		if s := running[name].Status; ok && (s == "errored" || s == "critical") {
			m.note("task %s fails where it runs now (%s)", name, s)
		}
	}
	for _, t := range cfg.Tasks {
		if _, ok := running[t.Name]; !ok {
			m.note("task %s is in the files but does not run there: they have changed since it was started", t.Name)
		}
	}
}

func (m *migration) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

func (m *migration) lose(format string, args ...any) {
	m.Lost = true
	m.note(format, args...)
}

// taskStatuses asks an API for its tasks. Over TLS it is spoken to as its own
// configuration has it.
func taskStatuses(ctx context.Context, cfg *config.Config, address string) (map[string]apiclient.TaskStatus, error) {
	o := apiclient.Options{Address: address}
	if cfg.TLS.Enabled {
		o.CACert, o.CAPath = cfg.TLS.CACert, cfg.TLS.CAPath
	}
	if cfg.TLS.VerifyIncoming {
		o.ClientCert, o.ClientKey = cfg.TLS.Cert, cfg.TLS.Key
	}
	client, err := apiclient.New(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	return client.TaskStatuses(ctx)
}
