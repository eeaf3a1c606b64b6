package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// taskCreateCommand makes a task of a running instance.
func (a *app) taskCreateCommand() command {
	var options approvalOptions
	var file string
	f := a.flagSet("task create")
	f.StringVar(&file, "task-file", "", "The `path` of a task file with one task: YAML, HCL or JSON by its ending.")
	options.register(f)
	return command{flags: f, synopsis: "Create and run a task",
		examples: []string{"-task-file web.yaml", "-task-file web.yaml -auto-approve"}, codes: codesOfRun,
		help: `Usage: terrapulse task create [flags] -task-file=FILE

  Shows what a new task would change, asks, and then makes the task and runs it.
  A task whose first run fails is not kept. If the run waits for an approval or
  its window, the command ends with exit code 3, and the run goes on. A module
  that is a relative path is looked for where the instance was started.
`,
		run: func([]string) int {
			if file == "" {
				a.problem("no task file provided", errors.New(a.help("task create")))
				return exitMissing
			}
			if code := a.approvable(&options); code >= 0 {
				return code
			}
			task, warnings, err := readTaskFile(file)
			if err != nil {
				return a.problem("unable to read the task file", err)
			}
			for _, w := range warnings {
				fmt.Fprintf(a.stderr, "Warning: %s\n", w)
			}
			client, code := a.apiClient(&options.api)
			if code >= 0 {
				return code
			}

			a.say("Inspecting changes to resource if creating task '%s'...", task.Name)
			a.generating()
			unable := fmt.Sprintf("unable to create '%s'", task.Name)
			inspected, err := client.InspectTask(a.ctx, task)
			if err != nil {
				return a.problem(fmt.Sprintf("unable to generate plan for '%s'", task.Name), err)
			}
			payload := new(strings.Builder)
			enc := json.NewEncoder(payload)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(apispec.TaskRequest{Task: task}); err != nil {
				return a.problem(unable, err)
			}
			a.detail(fmt.Sprintf("Request ID: %s\nRequest Payload:\n%s", inspected.RequestID, payload))
			a.showPlan(inspected.Inspection)

			if code, err := a.planApproved(&options, "Creating", task.Name); err != nil {
				return a.problem(unable, err)
			} else if code >= 0 {
				return code
			}

			a.say("Creating and running task '%s'...", task.Name)
			code, err = a.whenRun(client.CreateTask(a.ctx, task), taskChange{Task: task.Name, Inspection: &inspected.Inspection}, "Task '%s' created")
			if err != nil {
				return a.problem(unable, err)
			}
			return code
		},
	}
}
