package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/instance"
	"github.com/terrapulse/terrapulse/internal/migrate"
	"github.com/terrapulse/terrapulse/internal/preview"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// migrateCheckCommand says what would change if Terrapulse took over.
type migrateCheckCommand struct {
	*app
	config   configFlags
	log      logFlags
	api      string
	parallel int
	exitCode bool
	plans    bool
}

func (c *migrateCheckCommand) about() about {
	f := c.flagSet("migrate check")
	c.config.register(f)
	c.log.register(f)
	parallelFlag(f, &c.parallel, "are planned")
	f.StringVar(&c.api, "http-addr", "", "The `URL` of Consul-Terraform-Sync's API, if it runs. Default: the configured port on this machine.")
	f.BoolVar(&c.plans, "plan", false, "Also print the plans of tasks that would change something.")
	f.BoolVar(&c.exitCode, "detailed-exitcode", false, "Exit code 0 means that nothing changes, 2 that something does, 11 that a task cannot be taken over.")
	return about{flags: f, synopsis: "Show what a move from Consul-Terraform-Sync would change",
		examples: []string{"-config-file cts.hcl", "-config-file cts.hcl -plan -detailed-exitcode"}, codes: codesOfPlan,
		help: `Usage: terrapulse migrate check -config-file=PATH [flags]

  Reads the configuration of Consul-Terraform-Sync, finds the state of each
  task, and plans it as Terrapulse would run it. Reports for each task whether
  nothing changes, what changes, or why it cannot be taken over. If
  Consul-Terraform-Sync runs on this machine, its tasks are compared with those
  of the files: changes through its API are not in the files.

  Nothing is changed: the command creates no workspace, takes no lock, writes
  nothing and installs nothing. Run it in the folder where Consul-Terraform-Sync
  runs, with its environment: relative paths and tokens come from there.

  The exit code is 0 if every task can be taken over and 11 if one cannot; with
  -detailed-exitcode it is 2 if something would change.
`}
}

func (c *migrateCheckCommand) run(arguments []string) int {
	cfg, code := c.config.load(c.app)
	if code >= 0 {
		return code
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.stderr, "Warning: %s\n", w)
	}
	log, err := c.log.logger(c.app, "WARN")
	if err != nil {
		return c.fail(exitFlags, err)
	}
	client, code := c.connect(cfg)
	if code >= 0 {
		return code
	}
	binary, err := terraform.FindLocal(c.ctx, cfg.Terraform, log)
	if err != nil {
		return c.fail(exitTerraform, err)
	}

	driver := instance.Driver(c.ctx, binary, c.parallel, log)
	driver.Unlocked = true
	m := migrate.Check(c.ctx, &preview.Planner{Config: cfg, Consul: client, Driver: driver, Parallel: driver.Parallel, Log: log}, c.api)
	if c.ctx.Err() != nil {
		return c.fail(exitError, context.Cause(c.ctx))
	}
	if c.json {
		if code := c.printJSON(m); code != exitOK {
			return code
		}
	} else {
		c.print(m, c.plans)
	}
	switch {
	case m.Count(migrate.WillNot) > 0:
		return exitError
	case c.exitCode && (m.Count(migrate.WillChange) > 0 || m.Lost):
		return exitChanges
	default:
		return exitOK
	}
}

func (c *migrateCheckCommand) print(m *migrate.Report, plans bool) {
	var t table
	t.row(plain, "TASK", "WILL CHANGE", "WHY")
	for _, task := range m.Tasks {
		n, word := plain, task.Will
		switch task.Will {
		case migrate.WillNothing:
			n = good
		case migrate.WillChange:
			word = "this"
		case migrate.WillNot:
			n, word = bad, "cannot be taken over"
		case migrate.WillStay:
			word = "nothing"
		}
		t.row(n, task.Task, word, task.Why)
	}
	t.print(c.stdout)
	for _, note := range m.Notes {
		fmt.Fprintf(c.stdout, "\nNote: %s.\n", note)
	}
	for _, task := range m.Tasks {
		if plans && task.Will == migrate.WillChange {
			fmt.Fprintf(c.stdout, "\n### Task %s\n%s\n", task.Task, strings.TrimSpace(task.Plan))
		}
	}
}
