package main

import "fmt"

// releaseCommand releases a task that is on hold.
type releaseCommand struct {
	*app
	at decisionFlags
}

func (c *releaseCommand) about() about {
	f := c.flagSet("release")
	c.at.register(f)
	return about{flags: f, synopsis: "Release a task that is on hold",
		examples: []string{"load-balancer"}, codes: codesOfStore, args: c.at.predict(c.app, f),
		help: `Usage: terrapulse release [flags] TASK

  Ends ` + "`terrapulse hold TASK`" + `: the task runs again as its condition says. It
  approves nothing. With -config-file or -store it writes to a store, else it
  uses the API of a running instance.
`}
}

func (c *releaseCommand) run(arguments []string) int {
	task, at, code := c.at.open(c.app, "release", arguments, true)
	if code >= 0 {
		return code
	}
	defer at.Close()
	by := userAtHost()
	if err := at.ReleaseTask(c.ctx, task, by); err != nil {
		return c.problem(fmt.Sprintf("unable to release '%s'", task), err)
	}
	if c.json {
		return c.printJSON(decision{Task: task, By: by})
	}
	fmt.Fprintf(c.stdout, "Task %s is released.\n", task)
	return exitOK
}
