package main

import "github.com/terrapulse/terrapulse/internal/people/apiclient"

var runTask = taskCommand{
	name: "run", synopsis: "Run a task now", waits: true, codes: codesOfRun,
	examples: []string{"load-balancer", "-stack=network -wait=false load-balancer"},
	usage: `Usage: terrapulse run [flags] TASK

  Runs a task of a running instance now, whatever its condition says and without
  its backoff, and waits for that run: exit code 0 when it succeeded, 3 when it
  is held or waits for an approval or its window, 11 when it failed or was not
  verified.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		return c.request(client, task, client.RunTask)
	},
}
