package main

import (
	"fmt"
	"runtime"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
)

// versionReport is what version -json prints.
type versionReport struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	GoVersion string `json:"go_version"`
}

// versionCommand prints the version of the program.
func (a *app) versionCommand() command {
	f := a.flagSet("version")
	return command{flags: f, synopsis: "Print the version of the program",
		examples: []string{"", "-json"}, codes: []int{exitOK, exitFlags},
		help: `Usage: terrapulse version [flags]

  Prints the version of the program. So does terrapulse -version.
`,
		run: func([]string) int {
			switch {
			case a.json:
				return a.printJSON(versionReport{buildinfo.Version, buildinfo.Commit(), runtime.Version()})
			case a.isCTS():
				fmt.Fprintf(a.stdout, "%s %s (%s %s)\nCompatible with Terraform >= 0.13.0, <= 1.14.3\n", ctsName, ctsVersion, ownName, buildinfo.Version)
			default:
				fmt.Fprintf(a.stdout, "%s %s\n", ownName, buildinfo.Version)
			}
			return exitOK
		},
	}
}
