package main

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/driver/module"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
)

// renderCommand prints a task's root module.
func (a *app) renderCommand() command {
	files := configFlags{tokenLater: true}
	f := a.flagSet("render")
	files.register(f)
	return command{flags: f, synopsis: "Print the Terraform files that a task would generate",
		examples: []string{onFile + " load-balancer"}, codes: codesOfStore, args: a.tasks(f, files.taskNames),
		help: `Usage: terrapulse render [flags] TASK

  Reads from Consul what the task renders and prints the files of its root
  module. Nothing is written and Terraform is not run.
`,
		run: func(arguments []string) int {
			if code := a.oneTask("render", arguments); code >= 0 {
				return code
			}
			cfg, code := files.load(a)
			if code >= 0 {
				return code
			}
			task, ok := cfg.Task(arguments[0])
			if !ok {
				return a.fail(exitConfig, unknownTask(cfg, arguments[0]))
			}
			client, code := a.connect(cfg)
			if code >= 0 {
				return code
			}
			snap, err := client.Preview(a.ctx, task)
			if err != nil {
				return a.fail(exitError, fmt.Errorf("task %s: %w", task.Name, err))
			}
			files, err := rootmodule.Module{Config: cfg, Task: task, Blocks: snap.Blocks, Types: module.VariableTypes(task, task.WorkingDir)}.Files()
			if err != nil {
				return a.fail(exitError, fmt.Errorf("render task %s: %w", task.Name, err))
			}
			type rendered struct {
				Name    string `json:"name"`
				Content string `json:"content"`
			}
			var all []rendered
			for _, file := range files {
				var text strings.Builder
				if err := file.Render(&text); err != nil {
					return a.fail(exitError, fmt.Errorf("render %s of task %s: %w", file.Name, task.Name, err))
				}
				all = append(all, rendered{file.Name, text.String()})
			}
			if a.json {
				return a.printJSON(map[string]any{"task": task.Name, "files": all})
			}
			for _, file := range all {
				fmt.Fprintf(a.stdout, "### %s\n%s\n", file.Name, file.Content)
			}
			return exitOK
		},
	}
}
