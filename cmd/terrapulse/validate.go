package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/fault"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/driver"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
)

// validateCommand checks the configuration.
type validateCommand struct {
	*app
	config       configFlags
	consul, json bool
}

func (c *validateCommand) about() about {
	f := newFlags("validate")
	c.config.register(f)
	f.BoolVar(&c.consul, "consul", false, "Also read from Consul what every task watches.")
	jsonFlag(f, &c.json)
	return about{flags: f, synopsis: "Check task files, and with -consul the access to Consul",
		examples: []string{onFile, "-config-dir /etc/terrapulse -consul"}, codes: codesOfFiles,
		help: `Usage: terrapulse validate [flags]

  Reads the task files and the local modules of the tasks, and reports all that
  is wrong in one pass, each with its file and line: also variables that a
  module requires and does not get, values of the wrong type, and references to
  what a module does not declare. It contacts nothing and needs no Terraform.
  With -consul it also reads what every task watches, which checks the address,
  the token's rights and the queries.
`}
}

func (c *validateCommand) run(arguments []string) int {
	if code := c.config.required(c.app); code >= 0 {
		return code
	}
	if !c.json {
		return c.check()
	}
	var stdout, stderr strings.Builder
	printing := *c.app
	collecting := *c
	collecting.app = &printing
	collecting.stdout, collecting.stderr = &stdout, &stderr
	code := collecting.check()
	printed := c.printJSON(map[string]any{"valid": code == exitOK,
		"errors": findings(stderr.String(), "Error: "), "warnings": findings(stdout.String(), "Warning: ")})
	return cmp.Or(code, printed)
}

// findings are the paragraphs of a text that begin so.
func findings(text, begin string) []string {
	found := []string{}
	open := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		text, ok := strings.CutPrefix(line, begin)
		switch {
		case ok:
			found = append(found, text)
		case open && strings.HasPrefix(line, " "):
			found[len(found)-1] += "\n" + line
			ok = true
		}
		open = ok
	}
	return found
}

// check prints what is wrong, and returns the exit code.
func (c *validateCommand) check() int {
	cfg, err := c.config.examine()
	failed := err != nil
	if failed {
		c.invalid(err)
	}
	if cfg == nil {
		return exitConfig
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.stdout, "Warning: %s\n", w)
	}
	for _, d := range checkTasks(cfg) {
		c.fail(exitConfig, errors.New(d.String()))
		failed = true
	}
	if err != nil {
		return exitConfig // how Consul is reached may be wrong
	}
	if c.consul {
		client, code := c.connect(cfg)
		if code >= 0 {
			return code
		}
		if access := client.Access(c.ctx); access != "" {
			fmt.Fprintf(c.stdout, "Warning: %s\n", access)
		}
		readable := true
		for i := range cfg.Tasks {
			snap, err := client.Preview(c.ctx, &cfg.Tasks[i])
			if err != nil {
				readable = false
				c.fail(exitConfig, fmt.Errorf("task %s: %w", cfg.Tasks[i].Name, err))
				if fault.IsTransient(err) {
					break // the others would fail alike
				}
				continue
			}
			for _, warning := range []string{snap.Visibility.Hidden(), snap.Warning()} {
				if warning != "" {
					fmt.Fprintf(c.stdout, "Warning: task %s: %s\n", cfg.Tasks[i].Name, warning)
				}
			}
		}
		if !readable {
			return exitConfig
		}
		fmt.Fprintf(c.stdout, "Consul at %s answers, and Terrapulse may read what the tasks watch.\n", cfg.Consul.Address)
	}
	if failed {
		return exitConfig
	}
	fmt.Fprintf(c.stdout, "The configuration is valid: %s.\n", tasksOf(len(cfg.Tasks)))
	return exitOK
}

// tasksOf is a number of tasks in words.
func tasksOf(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// checkTasks returns what would make runs of the tasks fail, each problem once.
func checkTasks(cfg *config.Config) config.Errors {
	return driver.CheckAll(tfdriver.New(tfdriver.Options{}), cfg)
}
