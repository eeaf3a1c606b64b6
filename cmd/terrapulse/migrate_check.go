package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/driver/preview"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/process/migrate"
)

// migrateCheckCommand says what would change if Terrapulse took over.
func (a *app) migrateCheckCommand() command {
	var files configFlags
	var logs logFlags
	var api string
	var parallel int
	var exitCode, plans bool
	f := a.flagSet("migrate check")
	files.register(f)
	logs.register(f)
	parallelFlag(f, &parallel, "are planned")
	f.StringVar(&api, "http-addr", "", "The `URL` of Consul-Terraform-Sync's API, if it runs. Default: the configured port on this machine.")
	f.BoolVar(&plans, "plan", false, "Also print the plans of tasks that would change something.")
	f.BoolVar(&exitCode, "detailed-exitcode", false, "Exit code 0 means that nothing changes, 2 that something does, 11 that a task cannot be taken over.")
	return command{flags: f, synopsis: "Show what a move from Consul-Terraform-Sync would change",
		examples: []string{"-config-file cts.hcl", "-config-file cts.hcl -plan -detailed-exitcode"}, codes: codesOfPlan,
		help: `Usage: terrapulse migrate check -config-file=PATH [flags]

  Reads the configuration of Consul-Terraform-Sync, finds the state of each
  task, and plans it as Terrapulse would run it. Reports for each task whether
  nothing changes, what changes, or why it cannot be taken over. If
  Consul-Terraform-Sync runs on this machine, its tasks are compared with those
  of the files: changes through its API are not in the files.

  Nothing is changed: the command creates no workspace, takes no lock, writes
  nothing and installs nothing. With driver "terraform-cloud", it makes a
  speculative run for each task, and changes no setting, tag or variable of a
  workspace: one that is created for a plan is deleted again. Run it in the
  folder where Consul-Terraform-Sync runs, with its environment: relative paths
  and tokens come from there.

  The exit code is 0 if every task can be taken over and 11 if one cannot; with
  -detailed-exitcode it is 2 if something would change.
`,
		run: func([]string) int {
			cfg, code := files.load(a)
			if code >= 0 {
				return code
			}
			for _, w := range cfg.Warnings {
				fmt.Fprintf(a.stderr, "Warning: %s\n", w)
			}
			log, err := logs.logger(a, "WARN")
			if err != nil {
				return a.fail(exitFlags, err)
			}
			client, code := a.connect(cfg)
			if code >= 0 {
				return code
			}
			driver, workers, err := instance.Bystander(a.ctx, cfg, parallel, log)
			if err != nil {
				return a.fail(exitTerraform, err)
			}
			m := migrate.Check(a.ctx, &preview.Planner{Config: cfg, Consul: client, Driver: driver, Parallel: workers, Log: log}, api)
			if a.ctx.Err() != nil {
				return a.fail(exitError, context.Cause(a.ctx))
			}
			if a.json {
				if code := a.printJSON(m); code != exitOK {
					return code
				}
			} else {
				a.printMigration(m, plans)
			}
			switch {
			case m.Count(migrate.WillNot) > 0:
				return exitError
			case exitCode && (m.Count(migrate.WillChange) > 0 || m.Lost):
				return exitChanges
			default:
				return exitOK
			}
		},
	}
}

func (a *app) printMigration(m *migrate.Report, plans bool) {
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
	t.print(a.stdout)
	for _, note := range m.Notes {
		fmt.Fprintf(a.stdout, "\nNote: %s.\n", note)
	}
	for _, task := range m.Tasks {
		if plans && task.Will == migrate.WillChange {
			fmt.Fprintf(a.stdout, "\n### Task %s\n%s\n", task.Task, strings.TrimSpace(task.Plan))
		}
	}
}
