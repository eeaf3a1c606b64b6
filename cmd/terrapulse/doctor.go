package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/state"
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
	st, err := findStack(c.ctx, o.stack)
	if err != nil {
		return c.fail(exitConfig, err)
	}
	schedule := "enabled"
	if st.stopped {
		schedule = "disabled: nothing is applied by itself until the stack is deployed with ScheduleState=ENABLED"
	}
	checks := []invoke.Check{
		{Name: "stack", OK: true, Found: fmt.Sprintf("%s in %s", o.stack, st.aws.Region)},
		{Name: "schedule", OK: true, Found: schedule},
	}
	answer, err := st.ask(c.ctx, invoke.Request{Mode: invoke.Doctor})
	if err != nil {
		checks = append(checks, invoke.Check{Name: "function", Found: err.Error(),
			Fix: "look at its log; with subnets of its own it needs a way to DynamoDB, S3, ECS and Consul: see infra/network.yaml"})
	} else {
		checks = append(checks, invoke.Check{Name: "function", OK: true, Found: "answers"})
		checks = append(checks, answer.Checks...)
		if !o.quick {
			checks = append(checks, c.container(st, cmp.Or(o.task, answer.Enabled)))
		}
	}
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

// container has one task planned in a container.
func (c *doctorCommand) container(st *stack, task string) invoke.Check {
	check := invoke.Check{Name: "container", Fix: "what a container ended with tells what is wrong: the image, its subnets and security groups, its secrets, or the task itself; " +
		"`terrapulse logs` shows what Terraform said"}
	fail := func(err error) invoke.Check {
		check.Found = err.Error()
		return check
	}
	if task == "" {
		check.Fix = "push a bundle, enable a task, or name one with -task; -quick starts no container"
		return fail(errors.New("there is no task to plan: none that is enabled was found"))
	}
	store, code := c.openStackStore(st)
	if code >= 0 {
		return fail(errors.New("the stack's store cannot be opened"))
	}
	defer store.Close()
	req := invoke.Request{Mode: invoke.Inspect, Tasks: []string{task}}
	asked := time.Now()
	answer, err := st.ask(c.ctx, req)
	if err != nil {
		return fail(err)
	}
	outcomes, err := c.follow(store, answer, req.Tasks, asked)
	if err != nil {
		return fail(err)
	}
	for _, o := range outcomes {
		switch {
		case o.Run == nil:
			return fail(errors.New("no container was asked for"))
		case o.Run.State != state.RunSucceeded:
			return fail(fmt.Errorf("the plan of task %s %s: %s", o.Task, o.Run.State, o.Run.Error))
		}
		check.Found = fmt.Sprintf("planned task %s, %s after it was asked for", o.Task, o.Run.Ended.Sub(o.Run.Created).Round(time.Second))
	}
	check.OK, check.Fix = true, ""
	return check
}
