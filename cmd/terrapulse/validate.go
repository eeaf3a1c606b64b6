package main

import (
	"flag"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/runner"
)

// validateCommand checks the configuration.
type validateCommand struct{ *app }

func (c *validateCommand) Synopsis() string {
	return "Check task files, and with -consul the access to Consul"
}

func (c *validateCommand) Help() string {
	f, _, _ := c.flags()
	return `Usage: terrapulse validate [flags]

  Reads the task files and reports everything that is wrong with them, and with
  local modules that lack what they are given, without reaching for anything else. With -consul it also reads what every task
  watches, which checks the address, the token's rights and the queries.
` + describe(f)
}

func (c *validateCommand) flags() (*flag.FlagSet, *configFlags, *bool) {
	f, cf := newFlags("validate"), &configFlags{}
	cf.register(f)
	return f, cf, f.Bool("consul", false, "Also read from Consul what every task watches.")
}

func (c *validateCommand) Run(args []string) int {
	f, cf, ask := c.flags()
	if code := c.parseAll(f, args, c.Help()); code >= 0 {
		return code
	}
	cfg, code := cf.load(c.app)
	if code >= 0 {
		return code
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.stdout, "Warning: %s\n", w)
	}
	failed := false
	module := &runner.Module{}
	for i := range cfg.Tasks {
		if err := module.Check(cfg, &cfg.Tasks[i]); err != nil {
			failed = true
			c.fail(exitConfig, err)
		}
	}
	if *ask {
		client, code := c.connect(cfg)
		if code >= 0 {
			return code
		}
		if code := c.reach(c.ctx, client); code >= 0 {
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
				if consul.IsUnavailable(err) {
					break // the others would fail alike
				}
			} else if hidden := snap.Visibility.Hidden(); hidden != "" {
				fmt.Fprintf(c.stdout, "Warning: task %s: %s\n", cfg.Tasks[i].Name, hidden)
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
