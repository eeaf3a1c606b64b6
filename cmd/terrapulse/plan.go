package main

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// planShowCommand prints the plan that a task waits with.
type planShowCommand struct {
	*app
	at decisionFlags
}

func (c *planShowCommand) about() about {
	f := c.flagSet("plan show")
	c.at.register(f)
	return about{flags: f, synopsis: "Show the plan that waits for an approval",
		examples: []string{"load-balancer", onFile + " -json load-balancer"}, codes: codesOfStore, args: c.at.predict(c.app, f),
		help: `Usage: terrapulse plan show [flags] TASK

  Prints the plan of a task that waits for an approval: why it waits, what an
  approval applies to, and what Terraform would do. The exit code is 11 if no
  plan of the task waits. With -config-file or -store it reads a store, else the
  API of a running instance.
`}
}

func (c *planShowCommand) run(arguments []string) int {
	task, at, code := c.at.open(c.app, "plan show", arguments, false)
	if code >= 0 {
		return code
	}
	defer at.Close()
	plan, err := at.WaitingPlan(c.ctx, task)
	if err != nil {
		return c.problem(fmt.Sprintf("unable to show the plan of '%s'", task), err)
	}
	if c.json {
		return c.printJSON(plan)
	}
	c.printDecided(plan)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(c.stdout, "  %-11s %s\n", name, value)
		}
	}
	fmt.Fprintln(c.stdout, "\nAn approval applies to:")
	line("definition", plan.Content.Definition)
	line("input", plan.Content.Input)
	line("plan", apispec.Deref(plan.Content.Plan))
	line("state", apispec.Deref(plan.Content.State))
	if a := plan.Approved; a != nil {
		proven := ""
		if !a.Authenticated {
			proven = " (not authenticated)"
		}
		fmt.Fprintf(c.stdout, "\nApproved by %s%s: it is applied next.\n", a.By, proven)
	}
	if text := strings.TrimSpace(apispec.Deref(plan.Text)); text != "" {
		fmt.Fprintf(c.stdout, "\n%s\n", text)
	}
	fmt.Fprintf(c.stdout, "\nTo approve it: terrapulse approve -plan=%s %s\n", plan.ID, task)
	return exitOK
}
