package main

import "errors"

// migrateCommand holds the commands for whoever comes from Consul-Terraform-Sync.
type migrateCommand struct{ *app }

func (c *migrateCommand) Synopsis() string { return "Move over from Consul-Terraform-Sync" }

func (c *migrateCommand) Help() string {
	return `Usage: terrapulse migrate check [flags]

  Says what would change if Terrapulse took over from Consul-Terraform-Sync.`
}

func (c *migrateCommand) Run([]string) int {
	return c.fail(exitMissing, errors.New("say what is to be done: terrapulse migrate check"))
}
