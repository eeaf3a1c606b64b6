package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/process/examine"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/rules/policycheck"
	"github.com/terrapulse/terrapulse/internal/rules/verify"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// validation is what validate found, in the form that -json prints.
type validation struct {
	Valid    bool     `json:"valid"`
	Errors   []string `json:"errors"`
	Warnings []string `json:"warnings"`

	unsure bool // access control hides something of what the tasks watch, or may do so
}

// fail adds an error, or all that are wrong with a configuration.
func (v *validation) fail(err error) {
	var all config.Errors
	switch {
	case errors.As(err, &all):
		for _, d := range all {
			v.Errors = append(v.Errors, d.String())
		}
	case err != nil:
		v.Errors = append(v.Errors, err.Error())
	}
}

func (v *validation) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// validateCommand checks the configuration.
func (a *app) validateCommand() command {
	var files configFlags
	var consul bool
	f := a.flagSet("validate")
	files.register(f)
	f.BoolVar(&consul, "consul", false, "Also read from Consul what every task watches.")
	return command{flags: f, synopsis: "Check task files, and with -consul the access to Consul",
		examples: []string{onFile, "-config-dir /etc/terrapulse -consul"}, codes: codesOfFiles,
		help: `Usage: terrapulse validate [flags]

  Reads the task files and the local modules of the tasks, and reports all that
  is wrong in one pass, each with its file and line: also variables that a
  module requires and does not get, values of the wrong type, and references to
  what a module does not declare. It contacts nothing and needs no Terraform.
  It warns of checks whose programs are not on this machine.
  With -consul it also reads what every task watches, which checks the address,
  the token's rights and the queries.
`,
		run: func([]string) int {
			if code := files.required(a); code >= 0 {
				return code
			}
			v := &validation{Errors: []string{}, Warnings: []string{}}
			cfg := a.validate(v, files.options(), consul)
			if a.ctx.Err() != nil {
				return a.unready(exitConfig, a.ctx.Err())
			}
			code := exitOK
			if v.Valid = len(v.Errors) == 0; !v.Valid {
				code = exitConfig
			}
			if a.json {
				return cmp.Or(code, a.printJSON(v))
			}
			for _, w := range v.Warnings {
				fmt.Fprintf(a.stdout, "Warning: %s\n", w)
			}
			for _, e := range v.Errors {
				a.fail(exitConfig, errors.New(e))
			}
			switch {
			case !v.Valid || !consul:
			case v.unsure:
				fmt.Fprintf(a.stdout, "Consul at %s answers.\n", cfg.Consul.Address)
			default:
				fmt.Fprintf(a.stdout, "Consul at %s answers, and Terrapulse may read what the tasks watch.\n", cfg.Consul.Address)
			}
			if v.Valid {
				fmt.Fprintf(a.stdout, "The configuration is valid: %s.\n", tasksOf(len(cfg.Tasks)))
				if note := cfg.Guard.Differs(); note != "" && mayBeFromCTS(cfg) {
					fmt.Fprintf(a.stdout, "Note: %s.\n", note)
				}
			}
			return code
		},
	}
}

// mayBeFromCTS reports whether a configuration has files in a format that Consul-Terraform-Sync reads.
func mayBeFromCTS(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Files(), func(name string) bool {
		return slices.Contains([]string{".hcl", ".json"}, strings.ToLower(filepath.Ext(name)))
	})
}

// validate checks the configuration. It returns nil if it cannot be read at all.
func (a *app) validate(v *validation, files config.Options, consul bool) *config.Config {
	cfg, err := config.Examine(files)
	v.fail(err)
	if cfg == nil {
		return nil
	}
	for _, w := range cfg.Warnings {
		v.warn("%s", w)
	}
	v.fail(checkTasks(cfg).Err())
	v.checkPrograms(cfg)
	if err == nil && consul { // otherwise Consul's address may be wrong
		a.checkConsul(v, cfg)
	}
	return cfg
}

// warnOnce adds a warning that is not there yet; "" is none.
func (v *validation) warnOnce(why string) {
	if why != "" && !slices.Contains(v.Warnings, why) {
		v.Warnings = append(v.Warnings, why)
	}
}

// checkPrograms warns of checks and verifications whose programs are not on this machine. They may be
// where runs are carried out.
func (v *validation) checkPrograms(cfg *config.Config) {
	for i := range cfg.Tasks {
		for _, c := range policycheck.Active(cfg.Tasks[i].Checks) {
			v.warnOnce(c.Missing(cfg.Dir()))
		}
		for _, s := range verify.Active(cfg.Tasks[i].Verify) {
			v.warnOnce(s.Missing(cfg.Dir()))
		}
	}
}

// checkConsul reads what every task watches.
func (a *app) checkConsul(v *validation, cfg *config.Config) {
	client, err := instance.Connect(a.ctx, cfg, true)
	if err != nil {
		v.fail(err)
		return
	}
	rights := examine.RightsOf(a.ctx, client, cfg)
	for _, err := range rights.Errors {
		v.fail(err)
	}
	v.Warnings, v.unsure = append(v.Warnings, rights.Warnings...), rights.Unsure
}

// tasksOf is a number of tasks in words.
func tasksOf(n int) string {
	return plural(n, "task", "tasks")
}

// checkTasks returns what would make runs of the tasks fail, each problem once.
func checkTasks(cfg *config.Config) config.Errors {
	return driver.CheckAll(instance.Checker(cfg), cfg)
}
