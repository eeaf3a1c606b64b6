package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/mitchellh/go-wordwrap"
)

// describe is the end of a command's help: its flags, examples and exit codes.
func describe(f *flag.FlagSet) string {
	var b strings.Builder
	first := true
	f.VisitAll(func(fl *flag.Flag) {
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
	about, ok := helpOf[f.Name()]
	if !ok {
		return strings.TrimRight(b.String(), "\n")
	}
	b.WriteString("\nExamples:\n")
	for _, example := range about.examples {
		fmt.Fprintf(&b, "  %s %s\n", ownName, strings.TrimSpace(f.Name()+" "+example))
	}
	b.WriteString("\nExit codes:\n")
	for _, code := range about.codes {
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
	exitError:       "something failed; of a run: the task was not applied",
	exitInterrupted: "stopped a second time, before Terraform had ended",
	exitMissing:     "a required flag or argument is missing",
	exitFlags:       "a flag is unknown or has a wrong value",
	exitConfig:      "the configuration is wrong, or Consul or AWS cannot be reached",
	exitTerraform:   "no usable Terraform was found",
}

// about is what the help of a command says beside its flags.
type about struct {
	examples []string // without the names of the program and the command
	codes    []int
}

const onFile = "-config-file tasks.yaml"

var (
	codesOfTask  = []int{exitOK, exitError, exitMissing, exitFlags}
	codesOfFiles = []int{exitOK, exitMissing, exitFlags, exitConfig}
	codesOfStore = []int{exitOK, exitError, exitMissing, exitFlags, exitConfig}
	codesOfPlan  = []int{exitOK, exitChanges, exitError, exitMissing, exitFlags, exitConfig, exitTerraform}
)

// helpOf is keyed by the names of the commands.
var helpOf = map[string]about{
	"start": {[]string{onFile, "-once " + onFile, "-config-dir /etc/terrapulse -log-format json"},
		[]int{exitOK, exitError, exitInterrupted, exitMissing, exitFlags, exitConfig, exitTerraform}},
	"inspect":       {[]string{onFile, onFile + " -detailed-exitcode load-balancer"}, codesOfPlan},
	"validate":      {[]string{onFile, "-config-dir /etc/terrapulse -consul"}, codesOfFiles},
	"render":        {[]string{onFile + " load-balancer"}, codesOfStore},
	"status":        {[]string{onFile, "-store sqlite:/var/lib/terrapulse/terrapulse.db -json", "-http-addr https://sync-1.example.com:8558"}, codesOfStore},
	"runs":          {[]string{onFile + " load-balancer", "-http-addr http://localhost:8558 -json load-balancer"}, codesOfStore},
	"logs":          {[]string{onFile + " load-balancer", onFile + " -follow load-balancer", onFile + " 01a20044-4426-70ba"}, codesOfStore},
	"run":           {[]string{"load-balancer", "-wait=false load-balancer"}, codesOfTask},
	"retry":         {[]string{"load-balancer"}, codesOfTask},
	"cancel":        {[]string{"load-balancer"}, codesOfTask},
	"forget":        {[]string{"load-balancer"}, codesOfTask},
	"task create":   {[]string{"-task-file web.yaml", "-task-file web.yaml -auto-approve"}, codesOfTask},
	"task enable":   {[]string{"load-balancer", "-auto-approve load-balancer"}, codesOfTask},
	"task disable":  {[]string{"load-balancer"}, codesOfTask},
	"task delete":   {[]string{"-auto-approve load-balancer"}, codesOfTask},
	"invoke":        {[]string{"-stack=network", "-stack=network -once -task=firewall -wait"}, codesOfStore},
	"doctor":        {[]string{"-stack=network", "-stack=network -quick"}, codesOfStore},
	"convert":       {[]string{"-o=tasks.yaml cts.hcl"}, codesOfFiles},
	"schema":        {[]string{"> terrapulse.schema.json"}, []int{exitOK, exitFlags}},
	"migrate check": {[]string{"-config-file cts.hcl", "-config-file cts.hcl -plan -detailed-exitcode"}, codesOfPlan},
	"bundle push":   {[]string{"-config-dir tasks s3://network-files/terrapulse", "-config-dir tasks -stack=network"}, codesOfStore},
	"bundle diff":   {[]string{"-config-dir tasks -stack=network"}, append([]int{exitOK, exitChanges}, codesOfStore[1:]...)},
	"bundle pull":   {[]string{"-stack=network ./tasks"}, codesOfStore},
	"version":       {[]string{"", "-json"}, []int{exitOK, exitFlags}},
}
