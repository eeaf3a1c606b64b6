package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/process/examine"
)

// doctorCommand examines an instance on one machine or in a cluster, or a deployment in AWS.
func (a *app) doctorCommand() command {
	var files configFlags
	var store, stackName, task string
	var quick bool
	f := a.flagSet("doctor")
	files.register(f)
	storeURLFlag(f, &store)
	stackFlag(f, &stackName)
	f.StringVar(&task, "task", "", "With -stack: the `name` of the task to plan. Default: the first one that is enabled.")
	f.BoolVar(&quick, "quick", false, "With -stack: start no container.")
	return command{flags: f, synopsis: "Check an instance or a deployment, with advice",
		examples: []string{onFile, "-config-dir /etc/terrapulse/tasks", "-stack=network", "-stack=network -quick"}, codes: codesOfStore,
		help: `Usage: terrapulse doctor [flags]

  With the task files of an instance, on one machine or in a cluster, it checks
  whether that instance works or can be started: the files, Consul and its
  clock, the token's rights, Terraform, the providers, the store, the other
  instances, the phases of the tasks, the disk and the port. Run it on the
  machine of the instance, as its user and with its environment.

  With -stack it examines a deployment in AWS from outside and, through its
  function, from inside: the stack, its API, alarms, metrics and queue, the
  table, the bundle, Consul, the token's rights and the phases of the tasks.
  Finally, it plans one task in a container, which shows whether image, subnets,
  secrets and Terraform are right, and waits until AWS has reported the end of
  the container.

  Nothing is applied and nothing is changed. The exit code is 0 if all is well
  and 11 if something is not. A pause is shown and is not an error. What cannot
  be checked, or what your AWS user may not read, is skipped.
`,
		run: func([]string) int {
			switch {
			case stackName != "" && len(files.paths) > 0:
				return a.fail(exitFlags, errors.New("-stack examines a deployment in AWS and -config-file an instance: give one of them"))
			case len(files.paths) > 0 && (task != "" || quick):
				return a.fail(exitFlags, errors.New("-task and -quick are for a deployment in AWS: they need -stack"))
			case len(files.paths) > 0:
				return a.printChecks(examine.Run(a.ctx, examine.Options{Files: files.options(), Store: store, Now: time.Now}))
			case stackName == "":
				return a.fail(exitMissing, errors.New("name the task files of an instance with -config-file or -config-dir, or a deployment in AWS with -stack"))
			}
			st, code := a.findStack(stackName)
			if code >= 0 {
				return code
			}
			return a.printChecks(st.Examine(a.ctx, task, !quick))
		},
	}
}

// printChecks prints what checks have found, and how to fix what is wrong.
func (a *app) printChecks(checks []invoke.Check) int {
	var t table
	t.row(plain, "CHECK", "STATE", "FOUND")
	code, fixes := exitOK, ""
	for _, check := range checks {
		switch {
		case check.Skipped:
			t.row(plain, check.Name, "skipped", check.Found)
		case check.OK:
			t.row(good, check.Name, "ok", check.Found)
		default:
			t.row(bad, check.Name, "wrong", check.Found)
			code = exitError
			fixes += fmt.Sprintf("\n%s: %s\n  To fix it: %s\n", check.Name, strings.TrimRight(check.Found, "\n"), check.Fix)
		}
	}
	if a.json {
		return cmp.Or(a.printJSON(checks), code)
	}
	t.print(a.stdout)
	fmt.Fprint(a.stderr, fixes)
	return code
}
