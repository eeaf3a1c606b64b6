package main

import "github.com/terrapulse/terrapulse/internal/apiclient"

<<<<<<< HEAD
var retryTask = taskCommand{
	name: "retry", synopsis: "Run a failed task again, without its backoff", waits: true,
	examples: []string{"load-balancer"},
	usage: `Usage: terrapulse retry [flags] TASK

  Runs a task of a running instance again at once whose latest run failed, was
  lost or was cancelled, and waits for that run: exit code 0 when it succeeded,
  11 when it did not, or when there is nothing to retry.
`,
	do: func(c *taskCommand, client *apiclient.Client, task string) (int, error) {
		return c.request(client, task, client.RetryTask)
	},
=======
// retryCommand runs a failed task of a running instance again.
type retryCommand struct {
	*app
	requestFlags
}

func (c *retryCommand) about() about {
	f := c.flagSet("retry")
	c.register(f)
	return about{flags: f, synopsis: "Run a failed task again, without its backoff",
		examples: []string{"load-balancer"}, codes: codesOfRun, args: c.tasks(f, c.api.taskNames),
		help: `Usage: terrapulse retry [flags] TASK

  Runs a task of a running instance again at once whose latest run failed, was
  lost or was cancelled, and waits for that run: exit code 0 when it succeeded,
  3 when it is held or waits for an approval or its window, 11 when it failed, or
  when there is nothing to retry.
`}
}

func (c *retryCommand) run(arguments []string) int {
	return c.request("retry", &c.requestFlags, arguments, (*apiclient.Client).RetryTask)
>>>>>>> 19f3ea9 (cli: plan show, approve, reject, hold and release; exit code 3)
}
