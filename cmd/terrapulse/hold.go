package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// holdCommand keeps a task from running.
type holdCommand struct {
	*app
	at      decisionFlags
	comment string
}

func (c *holdCommand) about() about {
	f := c.flagSet("hold")
	c.at.register(f)
	f.StringVar(&c.comment, "comment", "", "Why, as a `text` that is recorded.")
	return about{flags: f, synopsis: "Keep a task from running until it is released",
		examples: []string{"-comment=\"change freeze\" load-balancer"}, codes: codesOfStore, args: c.at.predict(c.app, f),
		help: `Usage: terrapulse hold [flags] TASK

  Keeps a task from running until ` + "`terrapulse release TASK`" + `, whatever changes or
  is requested. A run that has begun goes on. With -config-file it writes to the
  store of these files, else it uses the API of a running instance.
`}
}

func (c *holdCommand) run(arguments []string) int {
	task, at, code := c.at.open(c.app, "hold", arguments, true)
	if code >= 0 {
		return code
	}
	defer at.Close()
	by := userAtHost()
	hold := apispec.HoldRequest{By: &by}
	if c.comment != "" {
		hold.Comment = &c.comment
	}
	if err := at.HoldTask(c.ctx, task, hold); err != nil {
		return c.problem(fmt.Sprintf("unable to hold '%s'", task), err)
	}
	if c.json {
		return c.printJSON(decision{Task: task, By: by, Comment: c.comment})
	}
	fmt.Fprintf(c.stdout, "Task %s is on hold until `terrapulse release %s`.\n", task, task)
	return exitOK
}
