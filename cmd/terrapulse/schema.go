package main

import "github.com/terrapulse/terrapulse/internal/taskfile/config"

// schemaCommand prints the JSON Schema of task files.
func (a *app) schemaCommand() command {
	return command{flags: newFlags("schema"), synopsis: "Print the JSON Schema of task files, for editors", examples: []string{"> terrapulse.schema.json"}, codes: []int{exitOK, exitFlags},
		help: `Usage: terrapulse schema

  Prints the JSON Schema, draft 2020-12, of task files in YAML and JSON. An
  editor that knows it completes keys, shows what they mean, and marks mistakes:

    terrapulse schema > terrapulse.schema.json

  and as the first line of a task file in YAML

    # yaml-language-server: $schema=terrapulse.schema.json

  or as the first key of one in JSON

    "$schema": "terrapulse.schema.json"
`,
		run: func([]string) int {
			if _, err := a.stdout.Write(config.JSONSchema()); err != nil {
				return a.fail(exitError, err)
			}
			return exitOK
		},
	}
}
