package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// taskCreateCommand makes a task of a running instance.
type taskCreateCommand struct {
	*app
	approvalOptions
	file string
}

func (c *taskCreateCommand) about() about {
	f := c.flagSet("task create")
	f.StringVar(&c.file, "task-file", "", "The `path` of a task file with one task: YAML, HCL or JSON by its ending.")
	c.register(f)
	return about{flags: f, synopsis: "Create and run a task",
		examples: []string{"-task-file web.yaml", "-task-file web.yaml -auto-approve"}, codes: codesOfTask,
		help: `Usage: terrapulse task create [flags] -task-file=FILE

  Shows what a new task would change, asks, and then makes the task and runs it.
  A task whose first run fails is not kept. A module that is a relative path is
  looked for where the instance was started.
`}
}

func (c *taskCreateCommand) run(arguments []string) int {
	if c.file == "" {
		c.problem("no task file provided", errors.New(c.help("task create")))
		return exitMissing
	}
	if code := c.approvable(&c.approvalOptions); code >= 0 {
		return code
	}
	task, warnings, err := readTaskFile(c.file)
	if err != nil {
		return c.problem("unable to read the task file", err)
	}
	for _, w := range warnings {
		fmt.Fprintf(c.stderr, "Warning: %s\n", w)
	}
	client, code := c.apiClient(&c.api)
	if code >= 0 {
		return code
	}

	c.say("Inspecting changes to resource if creating task '%s'...", task.Name)
	c.generating()
	unable := fmt.Sprintf("unable to create '%s'", task.Name)
	inspected, err := client.InspectTask(c.ctx, task)
	if err != nil {
		return c.problem(fmt.Sprintf("unable to generate plan for '%s'", task.Name), err)
	}
	payload, err := indentedJSON(apispec.TaskRequest{Task: task})
	if err != nil {
		return c.problem(unable, err)
	}
	c.detail(fmt.Sprintf("Request ID: %s\nRequest Payload:\n%s", inspected.RequestID, payload))
	c.showPlan(inspected.Inspection)

	if code, err := c.planApproved(&c.approvalOptions, "Creating", task.Name); err != nil {
		return c.problem(unable, err)
	} else if code >= 0 {
		return code
	}

	c.say("Creating and running task '%s'...", task.Name)
	if err := client.CreateTask(c.ctx, task); err != nil {
		return c.problem(unable, err)
	}
	c.say("Task '%s' created", task.Name)
	return c.changed(taskChange{Task: task.Name, Inspection: &inspected.Inspection})
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
