package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/config/bundle"
)

// bundlePullCommand gets the bundle in force.
type bundlePullCommand struct{ *app }

func (c *bundlePullCommand) Synopsis() string { return "Download the files of the latest push" }

func (c *bundlePullCommand) Help() string {
	return `Usage: terrapulse bundle pull [flags] [s3://BUCKET/PREFIX] DIR

  Unpacks the bundle that was pushed last into a folder, which must be empty or
  not there yet.
`
}

func (c *bundlePullCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{"-stack=network ./tasks"},
		codes: codesOfStore, args: folders}
}

func (c *bundlePullCommand) flags() (f *flag.FlagSet, stack *string, asJSON *bool) {
	f, stack = newFlags("bundle pull"), new(string)
	stackFlag(f, stack)
	return f, stack, jsonFlag(f)
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

func (c *bundlePullCommand) Run(args []string) int {
	f, stack, asJSON := c.flags()
	rest, code := c.parseAround(f, args)
	if code >= 0 {
		return code
	}
	if n := len(rest); n > 2 || n < 1 || n == 1 && *stack == "" {
		return c.fail(exitMissing, errors.New("no bundle location or no folder: terrapulse bundle pull s3://BUCKET/PREFIX DIR, or -stack=NAME DIR"))
	}
	dir := rest[len(rest)-1]
	at, code := c.place(f, *stack, rest[:len(rest)-1])
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
	if *asJSON {
		return c.printJSON(pullReport{at.Location.String(), pointer.Digest, pointer.By, pointer.Pushed, from, files})
	}
	fmt.Fprintf(c.stdout, "Bundle %.12s, which %s has pushed, %s, is unpacked. To push it again:\n  cd %s\n  terrapulse bundle push -config-file=%s %s\n",
		pointer.Digest, pointer.By, pointer.Pushed.Local().Format(clock), from, strings.Join(files, " -config-file="), at.Location)
	return exitOK
}
