package main

import (
	"flag"
	"fmt"
	"runtime"

	"github.com/terrapulse/terrapulse/internal/buildinfo"
)

// versionCommand prints the version of the program.
type versionCommand struct{ *app }

func (c *versionCommand) Synopsis() string { return "Print the version of the program" }

func (c *versionCommand) Help() string {
	return `Usage: terrapulse version [flags]

  Prints the version of the program. So does terrapulse -version.
`
}

func (c *versionCommand) about() about {
	f, _ := c.flags()
	return about{flags: f, examples: []string{"", "-json"},
		codes: []int{exitOK, exitFlags}}
}

func (c *versionCommand) flags() (*flag.FlagSet, *bool) {
	f := newFlags("version")
	return f, jsonFlag(f)
}

// versionReport is what version -json prints.
type versionReport struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	GoVersion string `json:"go_version"`
}

func (c *versionCommand) Run(args []string) int {
	f, asJSON := c.flags()
	if code := c.parseAll(f, args); code >= 0 {
		return code
	}
	switch {
	case *asJSON:
		return c.printJSON(versionReport{version, buildinfo.Commit(), runtime.Version()})
	case c.isCTS():
		fmt.Fprintf(c.stdout, "%s %s (%s %s)\nCompatible with Terraform >= 0.13.0, <= 1.14.3\n", ctsName, ctsVersion, ownName, version)
	default:
		fmt.Fprintf(c.stdout, "%s %s\n", ownName, version)
	}
	return exitOK
}
