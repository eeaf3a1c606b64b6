package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/config/bundle"
)

// bundlePullCommand gets the bundle in force.
type bundlePullCommand struct {
	*app
	stack string
}

func (c *bundlePullCommand) about() about {
	f := c.flagSet("bundle pull")
	stackFlag(f, &c.stack)
	return about{flags: f, synopsis: "Download the files of the latest push",
		examples: []string{"-stack=network ./tasks"}, codes: codesOfStore, args: complete.PredictDirs("*"),
		help: `Usage: terrapulse bundle pull [flags] [s3://BUCKET/PREFIX] DIR

  Unpacks the bundle that was pushed last into a folder, which must be empty or
  not there yet.
`}
}

// pullReport is what bundle pull -json prints.
type pullReport struct {
	Location string    `json:"location"`
	Digest   string    `json:"digest"`
	By       string    `json:"by"`
	Pushed   time.Time `json:"pushed"`
	Folder   string    `json:"folder"` // to push it again from
	Files    []string  `json:"files"`  // task files, relative to the folder
}

func (c *bundlePullCommand) run(arguments []string) int {
	if n := len(arguments); n > 2 || n < 1 || n == 1 && c.stack == "" {
		return c.fail(exitMissing, errors.New("no bundle location or no folder: terrapulse bundle pull s3://BUCKET/PREFIX DIR, or -stack=NAME DIR"))
	}
	dir := arguments[len(arguments)-1]
	at, code := c.place("bundle pull", c.stack, arguments[:len(arguments)-1])
	if code >= 0 {
		return code
	}
	pointer, err := at.Current(c.ctx)
	if err == nil && pointer.Digest == "" {
		err = fmt.Errorf("nothing was pushed to %s yet", at.Location)
	}
	if err != nil {
		return c.fail(exitError, err)
	}
	b, err := at.Pull(c.ctx, pointer.Digest)
	if err != nil {
		return c.fail(exitError, err)
	}
	from, files, err := bundle.Unpack(b.Zip, dir)
	if err != nil {
		return c.fail(exitError, err)
	}
	if c.json {
		return c.printJSON(pullReport{at.Location.String(), pointer.Digest, pointer.By, pointer.Pushed, from, files})
	}
	fmt.Fprintf(c.stdout, "Bundle %.12s, which %s has pushed, %s, is unpacked. To push it again:\n  cd %s\n  terrapulse bundle push -config-file=%s %s\n",
		pointer.Digest, pointer.By, pointer.Pushed.Local().Format(clock), from, strings.Join(files, " -config-file="), at.Location)
	return exitOK
}
