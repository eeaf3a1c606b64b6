package main

import "github.com/terrapulse/terrapulse/internal/apiclient"

var runTask = taskCommand{
	name: "run", synopsis: "Run a task now", waits: true,
	examples: []string{"load-balancer", "-wait=false load-balancer"},
	usage: `Usage: terrapulse run [flags] TASK

  Runs a task of a running instance now, whatever its condition says, and waits
  for that run: exit code 0 when it succeeded, 11 when it did not.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		return c.request(client, task, client.RunTask)
	},
}
