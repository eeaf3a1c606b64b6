package main

import (
	"errors"
	"flag"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/stack"
)

// doctorCommand examines a deployment in AWS.
type doctorCommand struct{ *app }

func (c *doctorCommand) Synopsis() string {
	return "Examine a deployment in AWS: what is missing, and how to fix it"
}

func (c *doctorCommand) Help() string {
	return `Usage: terrapulse doctor -stack=NAME [flags]

  Examines a deployment in AWS from outside and, by asking its function, from
  inside: the stack, the table, the bundle, Consul and the token's rights.
  Finally, it plans one task in a container, which shows whether image, subnets,
  secrets and Terraform are right; nothing is applied. A stack whose schedule is
  disabled is examined in the same way.

  The exit code is 0 if all is well and 11 if something is not. A schedule that
  is disabled is shown, and is not an error.
`
}

func (c *doctorCommand) about() about {
	f, _ := c.flags()
	return about{flags: f, examples: []string{"-stack=network", "-stack=network -quick"},
		codes: codesOfStore}
}

type doctorOptions struct {
	stack, task string
	quick, json bool
}

func (c *doctorCommand) flags() (*flag.FlagSet, *doctorOptions) {
	f, o := newFlags("doctor"), &doctorOptions{}
	stackFlag(f, &o.stack)
	f.StringVar(&o.task, "task", "", "The `name` of the task to plan. Default: the first one that is enabled.")
	f.BoolVar(&o.quick, "quick", false, "Start no container.")
	f.BoolVar(&o.json, "json", false, "Print JSON, for scripts.")
	return f, o
}

func (c *doctorCommand) Run(args []string) int {
	f, o := c.flags()
	if code := c.parseAll(f, args); code >= 0 {
		return code
	}
	if o.stack == "" {
		return c.fail(exitMissing, errors.New("name the stack with -stack"))
	}
	st, err := stack.Find(c.ctx, o.stack)
	if err != nil {
		return c.fail(exitConfig, err)
	}
	checks := st.Examine(c.ctx, o.task, !o.quick)
	code := exitOK
	for _, check := range checks {
		if !check.OK {
			code = exitError
		}
	}
	if o.json {
		if printed := c.printJSON(checks); printed != exitOK {
			return printed
		}
		return code
	}
	var t table
	t.row(plain, "CHECK", "STATE", "FOUND")
	for _, check := range checks {
		n, word := good, "ok"
		if !check.OK {
			n, word = bad, "wrong"
		}
		t.row(n, check.Name, word, check.Found)
	}
	t.print(c.stdout)
	for _, check := range checks {
		if !check.OK {
			fmt.Fprintf(c.stderr, "\n%s: %s\n  To fix it: %s\n", check.Name, check.Found, check.Fix)
		}
	}
	return code
}
