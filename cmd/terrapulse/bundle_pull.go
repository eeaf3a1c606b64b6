package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
)

// pullReport is what bundle pull -json prints.
type pullReport struct {
	Location string    `json:"location"`
	Digest   string    `json:"digest"`
	By       string    `json:"by"`
	Pushed   time.Time `json:"pushed"`
	Folder   string    `json:"folder"` // to push it again from
	Files    []string  `json:"files"`  // task files, relative to the folder
}

// bundlePullCommand gets the bundle in force.
func (a *app) bundlePullCommand() command {
	var stackName string
	f := a.flagSet("bundle pull")
	stackFlag(f, &stackName)
	return command{flags: f, synopsis: "Download the files of the latest push",
		examples: []string{"-stack=network ./tasks"}, codes: codesOfStore, args: complete.PredictDirs("*"),
		help: `Usage: terrapulse bundle pull [flags] [s3://BUCKET/PREFIX] DIR

  Unpacks the bundle that was pushed last into a folder, which must be empty or
  not there yet.
`,
		run: func(arguments []string) int {
			if n := len(arguments); n > 2 || n < 1 || n == 1 && stackName == "" {
				return a.fail(exitMissing, errors.New("no bundle location or no folder: terrapulse bundle pull s3://BUCKET/PREFIX DIR, or -stack=NAME DIR"))
			}
			dir := arguments[len(arguments)-1]
			at, code := a.place("bundle pull", stackName, arguments[:len(arguments)-1])
			if code >= 0 {
				return code
			}
			pointer, err := at.Current(a.ctx)
			if err == nil && pointer.Digest == "" {
				err = fmt.Errorf("nothing was pushed to %s yet", at.Location)
			}
			if err != nil {
				return a.fail(exitError, err)
			}
			b, err := at.Pull(a.ctx, pointer.Digest)
			if err != nil {
				return a.fail(exitError, err)
			}
			from, files, err := bundle.Unpack(b.Zip, dir)
			if err != nil {
				return a.fail(exitError, err)
			}
			if a.json {
				return a.printJSON(pullReport{at.Location.String(), pointer.Digest, pointer.By, pointer.Pushed, from, files})
			}
			fmt.Fprintf(a.stdout, "Bundle %.12s, which %s has pushed, %s, is unpacked. To push it again:\n  cd %s\n  terrapulse bundle push -config-file=%s %s\n",
				pointer.Digest, pointer.By, clock.Local(pointer.Pushed), from, strings.Join(files, " -config-file="), at.Location)
			return exitOK
		},
	}
}
