package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// taskCreateCommand makes a task of a running instance.
type taskCreateCommand struct{ *app }

func (c *taskCreateCommand) Synopsis() string { return "Create and run a task" }

func (c *taskCreateCommand) Help() string {
	return `Usage: terrapulse task create [flags] -task-file=FILE

  Shows what a new task would change, asks, and then makes the task and runs it.
  A task whose first run fails is not kept. A module that is a relative path is
  looked for where the instance was started.
`
}

func (c *taskCreateCommand) about() about {
	f, _ := c.flags()
	return about{flags: f, examples: []string{"-task-file web.yaml", "-task-file web.yaml -auto-approve"},
		codes: codesOfTask}
}

type taskCreateOptions struct {
	approvalOptions
	file string
}

func (c *taskCreateCommand) flags() (*flag.FlagSet, *taskCreateOptions) {
	f, o := newFlags("task create"), &taskCreateOptions{}
	f.StringVar(&o.file, "task-file", "", "The `path` of a task file with one task: YAML, HCL or JSON by its ending.")
	o.register(f)
	return f, o
}

func (c *taskCreateCommand) Run(args []string) int {
	f, o := c.flags()
	parse := c.parseAll
	if c.isCTS() {
		parse = c.parse // Consul-Terraform-Sync ignores arguments
	}
	if code := parse(f, args); code >= 0 {
		return code
	}
	if f.NArg() > 0 {
		fmt.Fprintf(c.stderr, "Warning: arguments after the flags are ignored: %q\n", f.Args())
	}
	if o.file == "" {
		c.problem("no task file provided", errors.New(c.help(f.Name())))
		return exitMissing
	}
	if code := c.approvable(o.json, o.approve); code >= 0 {
		return code
	}
	task, warnings, err := readTaskFile(o.file)
	if err != nil {
		return c.problem("unable to read the task file", err)
	}
	for _, w := range warnings {
		fmt.Fprintf(c.stderr, "Warning: %s\n", w)
	}
	client, code := c.apiClient(&o.api)
	if code >= 0 {
		return code
	}

	steps := c.steps(o.json)
	steps.say("Inspecting changes to resource if creating task '%s'...", task.Name)
	steps.generating()
	unable := fmt.Sprintf("unable to create '%s'", task.Name)
	inspected, err := client.InspectTask(c.ctx, task)
	if err != nil {
		return c.problem(fmt.Sprintf("unable to generate plan for '%s'", task.Name), err)
	}
	payload, err := indentedJSON(apispec.TaskRequest{Task: task})
	if err != nil {
		return c.problem(unable, err)
	}
	steps.detail(fmt.Sprintf("Request ID: %s\nRequest Payload:\n%s", inspected.RequestID, payload))
	steps.showPlan(inspected.Inspection)

	if !o.approve {
		yes, err := c.approval(fmt.Sprintf("Creating the task will perform the actions described above.\nDo you want to perform these actions for '%s'?", task.Name),
			"This cannot be undone.",
			"Terraform may do something else if what the task watches in Consul changes meanwhile.")
		if err != nil {
			return c.problem(unable, err)
		}
		if !yes {
			steps.detail(fmt.Sprintf("Cancelled creating task '%s'", task.Name))
			return exitOK
		}
	}

	steps.say("Creating and running task '%s'...", task.Name)
	if err := client.CreateTask(c.ctx, task); err != nil {
		return c.problem(unable, err)
	}
	steps.say("Task '%s' created", task.Name)
	if o.json {
		return c.printJSON(taskChange{Task: task.Name, Inspection: &inspected.Inspection})
	}
	return exitOK
}

// indentedJSON is what is sent, for a person.
func indentedJSON(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.String(), err
}
