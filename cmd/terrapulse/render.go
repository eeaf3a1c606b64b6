package main

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/rootmodule"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// renderCommand prints a task's root module.
type renderCommand struct {
	*app
	config configFlags
}

func (c *renderCommand) about() about {
	f := c.flagSet("render")
	c.config.register(f)
	return about{flags: f, synopsis: "Print the Terraform files that a task would generate",
		examples: []string{onFile + " load-balancer"}, codes: codesOfStore, args: c.tasks(f, c.config.taskNames),
		help: `Usage: terrapulse render [flags] TASK

  Reads from Consul what the task renders and prints the files of its root
  module. Nothing is written and Terraform is not run.
`}
}

func (c *renderCommand) run(arguments []string) int {
	if code := c.oneTask("render", arguments); code >= 0 {
		return code
	}
	cfg, code := c.config.load(c.app)
	if code >= 0 {
		return code
	}
	task, ok := cfg.Task(arguments[0])
	if !ok {
		return c.fail(exitConfig, unknownTask(cfg, arguments[0]))
	}
	client, code := c.connect(cfg)
	if code >= 0 {
		return code
	}
	snap, err := client.Preview(c.ctx, task)
	if err != nil {
		return c.fail(exitError, fmt.Errorf("task %s: %w", task.Name, err))
	}
	files, err := rootmodule.Module{Config: cfg, Task: task, Blocks: snap.Blocks, Types: terraform.VariableTypes(task, task.WorkingDir)}.Files()
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
	if c.json {
		return c.printJSON(map[string]any{"task": task.Name, "files": all})
	}
	for _, file := range all {
		fmt.Fprintf(c.stdout, "### %s\n%s\n", file.Name, file.Content)
	}
	return exitOK
}
