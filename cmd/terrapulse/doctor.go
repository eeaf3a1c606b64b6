package main

import (
	"cmp"
	"fmt"
)

// doctorCommand examines a deployment in AWS.
func (a *app) doctorCommand() command {
	var stackName, task string
	var quick bool
	f := a.flagSet("doctor")
	stackFlag(f, &stackName)
	f.StringVar(&task, "task", "", "The `name` of the task to plan. Default: the first one that is enabled.")
	f.BoolVar(&quick, "quick", false, "Start no container.")
	return command{flags: f, synopsis: "Examine a deployment in AWS, and say how to fix it",
		examples: []string{"-stack=network", "-stack=network -quick"}, codes: codesOfStore,
		help: `Usage: terrapulse doctor -stack=NAME [flags]

  Examines a deployment in AWS from outside and, by asking its function, from
  inside: the stack, its API, alarms, metrics and queue, the table, the bundle,
  Consul, the token's rights and the phases of the tasks.
  Finally, it plans one task in a container, which shows whether image, subnets,
  secrets and Terraform are right, and waits until AWS has reported the end of
  the container; nothing is applied.

  The exit code is 0 if all is well and 11 if something is not. A pause is shown
  and is not an error. What your AWS user may not read is skipped.
`,
		run: func([]string) int {
			st, code := a.findStack(stackName)
			if code >= 0 {
				return code
			}
			checks := st.Examine(a.ctx, task, !quick)
			var t table
			t.row(plain, "CHECK", "STATE", "FOUND")
			code, fixes := exitOK, ""
			for _, check := range checks {
				if check.Skipped {
					t.row(plain, check.Name, "skipped", check.Found)
					continue
				}
				if check.OK {
					t.row(good, check.Name, "ok", check.Found)
					continue
				}
				t.row(bad, check.Name, "wrong", check.Found)
				code = exitError
				fixes += fmt.Sprintf("\n%s: %s\n  To fix it: %s\n", check.Name, check.Found, check.Fix)
			}
			if a.json {
				return cmp.Or(a.printJSON(checks), code)
			}
			t.print(a.stdout)
			fmt.Fprint(a.stderr, fixes)
			return code
		},
	}
}
