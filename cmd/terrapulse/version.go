package main

import (
	"fmt"
	"runtime"

	"github.com/terrapulse/terrapulse/internal/buildinfo"
)

// versionCommand prints the version of the program.
type versionCommand struct {
	*app
}

func (c *versionCommand) about() about {
	f := c.flagSet("version")
	return about{flags: f, synopsis: "Print the version of the program",
		examples: []string{"", "-json"}, codes: []int{exitOK, exitFlags},
		help: `Usage: terrapulse version [flags]

  Prints the version of the program. So does terrapulse -version.
`}
}

// versionReport is what version -json prints.
type versionReport struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	GoVersion string `json:"go_version"`
}

func (c *versionCommand) run(arguments []string) int {
	switch {
	case c.json:
		return c.printJSON(versionReport{version, buildinfo.Commit(), runtime.Version()})
	case c.isCTS():
		fmt.Fprintf(c.stdout, "%s %s (%s %s)\nCompatible with Terraform >= 0.13.0, <= 1.14.3\n", ctsName, ctsVersion, ownName, version)
	default:
		fmt.Fprintf(c.stdout, "%s %s\n", ownName, version)
	}
	return exitOK
}
