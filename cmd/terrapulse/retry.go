package main

import (
	"flag"

	"github.com/terrapulse/terrapulse/internal/apiclient"
)

// retryCommand runs a failed task of a running instance again.
type retryCommand struct{ *app }

func (c *retryCommand) Synopsis() string { return "Run a failed task again, without its backoff" }

func (c *retryCommand) Help() string {
	return `Usage: terrapulse retry [flags] TASK

  Runs a task of a running instance again at once whose latest run failed, was
  lost or was cancelled, and waits for that run: exit code 0 when it succeeded,
  11 when it did not, or when there is nothing to retry.
`
}

func (c *retryCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{"load-balancer"},
		codes: codesOfTask, args: servedTasks}
}

func (c *retryCommand) flags() (*flag.FlagSet, *apiFlags, *bool) { return requestFlags("retry") }

func (c *retryCommand) Run(args []string) int {
	f, api, wait := c.flags()
	return c.request(f, api, wait, args, (*apiclient.Client).RetryTask)
}
