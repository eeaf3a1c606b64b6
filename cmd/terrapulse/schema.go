package main

import "github.com/terrapulse/terrapulse/internal/config"

// schemaCommand prints the JSON Schema of task files.
type schemaCommand struct{ *app }

func (c *schemaCommand) Synopsis() string { return "Print the JSON Schema of task files, for editors" }

func (c *schemaCommand) Help() string {
	return `Usage: terrapulse schema

  Prints the JSON Schema, draft 2020-12, of task files in YAML and JSON. An
  editor that knows it completes keys, shows what they mean, and marks mistakes:

    terrapulse schema > terrapulse.schema.json

  and as the first line of a task file in YAML

    # yaml-language-server: $schema=terrapulse.schema.json

  or as the first key of one in JSON

    "$schema": "terrapulse.schema.json"
`
}

func (c *schemaCommand) about() about {
	return about{flags: newFlags("schema"), examples: []string{"> terrapulse.schema.json"}, codes: []int{exitOK, exitFlags}}
}

func (c *schemaCommand) Run(args []string) int {
	if code := c.parseAll(newFlags("schema"), args); code >= 0 {
		return code
	}
	if _, err := c.stdout.Write(config.JSONSchema()); err != nil {
		return c.fail(exitError, err)
	}
	return exitOK
}
