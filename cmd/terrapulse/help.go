package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/mitchellh/go-wordwrap"
)

// describe is the end of a command's help: its flags, examples and exit codes.
func describe(c command) string {
	if c.examples == nil {
		return ""
	}
	var b strings.Builder
	first := true
	c.flags.VisitAll(func(fl *flag.Flag) {
		if hidden(fl) {
			return
		}
		if first {
			b.WriteString("\nFlags:\n")
			first = false
		}
		name, usage := flag.UnquoteUsage(fl)
		if name != "" {
			name = "=" + name
		}
		if fl.DefValue != "" && fl.DefValue != "false" && fl.DefValue != "0" {
			usage += fmt.Sprintf(" Default: %s.", fl.DefValue)
		}
		fmt.Fprintf(&b, "\n  -%s%s\n%s\n", fl.Name, name, behind("      ", usage))
	})
	b.WriteString("\nExamples:\n")
	for _, example := range c.examples {
		fmt.Fprintf(&b, "  %s %s\n", ownName, strings.TrimSpace(c.flags.Name()+" "+example))
	}
	b.WriteString("\nExit codes:\n")
	for _, code := range c.codes {
		text := wordwrap.WrapString(exitMeanings[code], columns-6)
		fmt.Fprintf(&b, "  %-3d %s\n", code, strings.ReplaceAll(text, "\n", "\n      "))
	}
	return strings.TrimRight(b.String(), "\n")
}

// hidden reports whether a flag is only there for scripts that know it.
func hidden(f *flag.Flag) bool { return f.Usage == "" }

// exitMeanings are the exit codes in words.
var exitMeanings = map[int]string{
	exitOK:          "success",
	exitChanges:     "with -detailed-exitcode: there are changes",
	exitWaits:       "nothing failed, and a task is stopped or waits for an approval or its window",
	exitError:       "something failed; of a run: the task was not applied",
	exitInterrupted: "stopped a second time, before Terraform had ended",
	exitMissing:     "a required flag or argument is missing",
	exitFlags:       "a flag is unknown or has a wrong value",
	exitConfig:      "the configuration is wrong, or Consul or AWS cannot be reached",
	exitTerraform:   "no usable Terraform was found",
}
