package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
)

// bundlePlanCommand plans in AWS what a push would run.
func (a *app) bundlePlanCommand() command {
	var b bundleFlags
	f := a.flagSet("bundle plan")
	b.register(f)
	f.Lookup("json").Usage = "Print JSON, for scripts: the outcomes of the plans."
	return command{flags: f, synopsis: "Plan in AWS what a push of task files would run",
		examples: []string{"-config-dir tasks -stack=network"}, codes: codesOfStore,
		help: `Usage: terrapulse bundle plan -stack=NAME [flags]

  Checks and packs the task files as bundle push does, compares them with the
  bundle in force as bundle diff does, and plans in a container each task that a
  push would run. The files are uploaded and not put into force: nothing is
  applied, and the tasks keep their state. The exit code is 0 if every plan
  succeeded, with or without changes, and 11 if one failed.
`,
		run: func([]string) int {
			if b.stack == "" {
				return a.fail(exitMissing, errors.New("no deployment: terrapulse bundle plan -stack=NAME"))
			}
			cfg, code := b.config.load(a)
			if code >= 0 {
				return code
			}
			packed, next, remove, code := a.packed(cfg, false)
			defer remove()
			if code >= 0 {
				return code
			}
			at, code := a.place("bundle plan", b.stack, nil)
			if code >= 0 {
				return code
			}
			d, pointer, err := a.bundleDifference(at, packed, next)
			if err != nil {
				return a.fail(exitError, err)
			}
			var tasks []string
			for _, change := range d.Changes {
				if change.Runs {
					tasks = append(tasks, change.Task)
				}
			}
			if !a.json {
				a.printBundleDiff(d, pointer)
				fmt.Fprintln(a.stdout)
			}
			if len(tasks) == 0 {
				if a.json {
					return a.printReport(nil, nil, 0)
				}
				fmt.Fprintln(a.stdout, "A push would run no task: there is nothing to plan.")
				return exitOK
			}
			if err := at.Store(a.ctx, packed); err != nil {
				return a.fail(exitError, err)
			}
			asked := time.Now()
			answer, err := at.stack.Invoke(a.ctx, invoke.Request{Mode: invoke.Inspect, Bundle: packed.Digest, Tasks: tasks, By: userAtHost()})
			if err != nil {
				return a.fail(exitError, err)
			}
			a.explain(answer)
			return a.followRuns(at.stack, asked, answer, tasks)
		},
	}
}
