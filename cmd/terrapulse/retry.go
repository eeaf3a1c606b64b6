package main

import "github.com/terrapulse/terrapulse/internal/people/apiclient"

var retryTask = taskCommand{
	name: "retry", synopsis: "Run a failed task again, without its backoff", waits: true, codes: codesOfRun,
	examples: []string{"load-balancer"},
	usage: `Usage: terrapulse retry [flags] TASK

  Runs a task of a running instance again at once whose latest run failed, was
  lost or cancelled, or was not verified, and waits for that run: exit code 0
  when it succeeded, 3 when it is held or waits for an approval or its window,
  11 when it failed, was not verified, or when there is nothing to retry.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		return c.request(client, task, client.RetryTask)
	},
}
