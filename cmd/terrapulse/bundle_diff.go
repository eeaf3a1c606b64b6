package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// bundleDiff is what -json prints.
type bundleDiff struct {
	InForce string          `json:"in_force"` // digest; "" if nothing was pushed yet
	Files   string          `json:"files"`    // digest of the bundle that a push would make
	Changes []bundle.Change `json:"changes"`
}

// bundleDiffCommand compares task files with the bundle in force.
func (a *app) bundleDiffCommand() command {
	var b bundleFlags
	var exitCode, plan bool
	f := a.flagSet("bundle diff")
	b.register(f)
	f.BoolVar(&plan, "plan", false, "With -stack, also plan in AWS each task that a push would run.")
	f.BoolVar(&exitCode, "detailed-exitcode", false, "Exit code 0 means that the bundles are the same, 2 that they differ, 11 an error.")
	return command{flags: f, synopsis: "Show which tasks a push would change",
		examples: []string{"-config-dir tasks -stack=network", "-plan -config-dir tasks -stack=network"},
		codes:    append([]int{exitOK, exitChanges}, codesOfStore[1:]...), args: complete.PredictAnything,
		help: `Usage: terrapulse bundle diff [flags] [s3://BUCKET/PREFIX]

  Compares task files with the bundle in force: which tasks are new, changed
  (and in what) or gone, and which will run because of it. Changes nothing.

  With -plan, each task that a push would run is planned in a container, with
  the rights, the providers and the state of the deployment. The files are
  uploaded and not put into force. The exit code is 0 if every plan succeeded,
  with or without changes, and 11 if one failed.
`,
		run: func(arguments []string) int {
			if plan {
				return a.planBundle(&b)
			}
			cfg, code := b.config.load(a)
			if code >= 0 {
				return code
			}
			files, next, remove, err := a.rehearse(cfg)
			defer remove()
			if code := a.invalid(err); code >= 0 {
				return code
			}
			at, code := a.place("bundle diff", b.stack, arguments)
			if code >= 0 {
				return code
			}
			d, pointer, err := a.bundleDifference(at, files, next)
			if err != nil {
				return a.fail(exitError, err)
			}
			if a.json {
				code = a.printJSON(d)
			} else {
				code = a.printBundleDiff(d, pointer)
			}
			if code == exitOK && exitCode && d.InForce != d.Files {
				return exitChanges
			}
			return code
		},
	}
}

// bundleDifference compares a bundle, whose configuration is next, with the one that was pushed last.
func (a *app) bundleDifference(at *place, files bundle.Bundle, next *config.Config) (bundleDiff, bundle.Pointer, error) {
	pointer, err := at.Current(a.ctx)
	if err != nil {
		return bundleDiff{}, pointer, err
	}
	d := bundleDiff{InForce: pointer.Digest, Files: files.Digest, Changes: []bundle.Change{}}
	if d.InForce == d.Files {
		return d, pointer, nil
	}
	var was *config.Config
	if pointer.Digest != "" {
		inForce, err := at.Pull(a.ctx, pointer.Digest)
		if err != nil {
			return d, pointer, err
		}
		var remove func()
		was, remove, err = unpacked(inForce)
		defer remove()
		if err != nil {
			return d, pointer, fmt.Errorf("bundle %.12s, which was pushed last: %w", pointer.Digest, err)
		}
	}
	d.Changes = append(d.Changes, bundle.Diff(was, next)...)
	return d, pointer, nil
}

// printBundleDiff prints the changes as a table.
func (a *app) printBundleDiff(d bundleDiff, pointer bundle.Pointer) int {
	if d.InForce == "" {
		fmt.Fprintln(a.stdout, "Nothing was pushed yet.")
	} else {
		fmt.Fprintf(a.stdout, "Bundle %.12s is in force: %s pushed it, %s.\n", d.InForce, pointer.By, clock.Local(pointer.Pushed))
	}
	switch {
	case d.InForce == d.Files:
		fmt.Fprintln(a.stdout, "The files are the same.")
		return exitOK
	case len(d.Changes) == 0:
		fmt.Fprintln(a.stdout, "The files differ, but no task does.")
		return exitOK
	}
	fmt.Fprintln(a.stdout)
	var t table
	t.row(plain, "TASK", "CHANGE", "RUNS", "WHAT")
	runs, gone := 0, 0
	for _, ch := range d.Changes {
		will, what, n := "no", strings.Join(ch.What, "; "), plain
		if ch.Runs {
			will = "yes"
			runs++
		}
		if ch.Kind == bundle.Removed {
			gone++
			what, n = "its infrastructure and state are kept", bad
		}
		t.row(n, ch.Task, string(ch.Kind), will, cmp.Or(what, "-"))
	}
	t.print(a.stdout)
	fmt.Fprintf(a.stdout, "\nOf %s, %d will run and %d are removed.\n", tasksOf(len(d.Changes)), runs, gone)
	return exitOK
}

// planBundle plans in AWS what a push would run.
func (a *app) planBundle(b *bundleFlags) int {
	if b.stack == "" {
		return a.fail(exitMissing, errors.New("no deployment: terrapulse bundle diff -plan -stack=NAME"))
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
	at, code := a.place("bundle diff", b.stack, nil)
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
}
