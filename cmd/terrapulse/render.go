package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/rootmodule"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// renderCommand prints a task's root module.
type renderCommand struct{ *app }

func (c *renderCommand) Synopsis() string {
	return "Print the Terraform files that a task would generate"
}

func (c *renderCommand) Help() string {
	return `Usage: terrapulse render [flags] TASK

  Reads from Consul what the task renders and prints the files of its root
  module. Nothing is written and Terraform is not run.
`
}

func (c *renderCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{onFile + " load-balancer"},
		codes: codesOfStore, args: configuredTasks}
}

func (c *renderCommand) flags() (*flag.FlagSet, *configFlags, *bool) {
	f, cf := newFlags("render"), &configFlags{}
	cf.register(f)
	return f, cf, f.Bool("json", false, "Print JSON, for scripts.")
}

func (c *renderCommand) Run(args []string) int {
	f, cf, asJSON := c.flags()
	if code := c.parse(f, args); code >= 0 {
		return code
	}
	if f.NArg() != 1 {
		return c.fail(exitMissing, errors.New("name one task: terrapulse render [flags] TASK"))
	}
	cfg, code := cf.load(c.app)
	if code >= 0 {
		return code
	}
	task, ok := cfg.Task(f.Arg(0))
	if !ok {
		return c.fail(exitConfig, unknownTask(cfg, f.Arg(0)))
	}
	client, code := c.connect(cfg)
	if code >= 0 {
		return code
	}
	snap, err := client.Preview(c.ctx, task)
	if err != nil {
		return c.fail(exitError, fmt.Errorf("task %s: %w", task.Name, err))
	}
	files, err := rootmodule.Module{Config: cfg, Task: task, Blocks: snap.Blocks, Types: terraform.VariableTypes(task)}.Files()
	if err != nil {
		return c.fail(exitError, fmt.Errorf("render task %s: %w", task.Name, err))
	}
	type rendered struct {
		Name    string `json:"name"`
		Content string `json:"content"`
	}
	var all []rendered
	for _, file := range files {
		var text strings.Builder
		if err := file.Render(&text); err != nil {
			return c.fail(exitError, fmt.Errorf("render %s of task %s: %w", file.Name, task.Name, err))
		}
		all = append(all, rendered{file.Name, text.String()})
	}
	if *asJSON {
		return c.printJSON(map[string]any{"task": task.Name, "files": all})
	}
	for _, file := range all {
		fmt.Fprintf(c.stdout, "### %s\n%s\n", file.Name, file.Content)
	}
	return exitOK
}
