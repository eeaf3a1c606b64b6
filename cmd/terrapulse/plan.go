package main

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

var showPlan = decisionCommand{
	name: "plan show", synopsis: "Show the plan that waits for an approval, or what is drifted", reads: true,
	examples: []string{"load-balancer", "-stack=network load-balancer", onFile + " -json load-balancer"},
	usage: `Usage: terrapulse plan show [flags] TASK

  Prints the plan of a task that waits for an approval: why it waits, what an
  approval applies to, and what Terraform would do. If the task is drifted, it
  prints what an apply would change back. The exit code is 11 if there is
  neither. With -config-file or -store it reads a store, with -stack the
  API of a deployment in AWS, otherwise the API of a running instance.
`,
	do: func(c *decisionCommand, at door, task string) (int, error) {
		plan, err := at.WaitingPlan(c.ctx, task)
		if err != nil {
			return 0, err
		}
		if c.json {
			return c.printJSON(plan), nil
		}
		c.printWaiting(plan)
		text := strings.TrimSpace(apispec.Deref(plan.Text))
		if apispec.Deref(plan.Drift) {
			if text != "" {
				fmt.Fprintf(c.stdout, "\n%s\n", text)
			}
			fmt.Fprintln(c.stdout, "\nNothing waits for an approval. A requested run applies what is configured.")
			return exitOK, nil
		}
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
		if text != "" {
			fmt.Fprintf(c.stdout, "\n%s\n", text)
		}
		if a := plan.Approved; a != nil {
			fmt.Fprintf(c.stdout, "\nApproved by %s: it is applied next.\n", a.By)
			return exitOK, nil
		}
		fmt.Fprintf(c.stdout, "\nTo approve it: `terrapulse approve -plan=%s %s`\n", plan.ID, task)
		return exitOK, nil
	},
}
