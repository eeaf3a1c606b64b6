// Command terrapulse keeps network infrastructure in step with Consul: when
// services, keys or other data in Consul change, it runs Terraform.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/hashicorp/cli"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/yamlplace"
)

// Exit codes. Scripts written for Consul-Terraform-Sync look for these numbers.
const (
	exitOK          = 0
	exitChanges     = 2  // -detailed-exitcode: the plan holds changes
	exitWaits       = 3  // nothing failed, and a task is stopped or waits for an approval or its window
	exitError       = 11 // something failed while running
	exitInterrupted = 12 // stopped a second time, before Terraform had ended
	exitMissing     = 13 // a required flag or argument is missing
	exitFlags       = 14 // flags cannot be parsed
	exitConfig      = 15 // configuration or set-up is wrong, Consul cannot be reached
	exitTerraform   = 16 // no usable Terraform
	exitUnknown     = 127
)

func init() { config.FindYAMLError = yamlplace.Find }

func main() {
	// The program mostly waits: memory matters more than the collector's time. Measured with one task on 10,000
	// services: 78.6 MB at most, and 84.6 MB with 50.
	debug.SetGCPercent(30)
	_ = terraformcli.KeepPrivate() // not possible on every system

	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP) // the terminal is gone
	}
	go func() {
		<-signals
		stop(stopped{})
		for <-signals == syscall.SIGHUP { // it may come twice, and not from a person
		}
		fmt.Fprintln(os.Stderr, "stopped a second time: not waiting for Terraform, which is killed when Terrapulse exits")
		os.Exit(exitInterrupted)
	}()
	a := &app{ctx: ctx, program: programName(os.Args[0]), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(a.run(os.Args[1:]))
}

// stopped is the cause with which the program's context ends.
type stopped struct{}

func (stopped) Error() string        { return "Terrapulse was stopped" }
func (stopped) Is(target error) bool { return target == context.Canceled }

// run runs the command line and returns the exit code.
func (a *app) run(args []string) int {
	a.stdout, a.stderr = placed{a.stdout, a}, placed{a.stderr, a}
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	switch first {
	case "-version", "--version", "-v":
		args = append([]string{"version"}, args[1:]...)
	case "help":
		args = append(args[1:], "-help")
	case "-h", "-help", "--help":
	case "-autocomplete-install", "--autocomplete-install", "-autocomplete-uninstall", "--autocomplete-uninstall":
		if len(args) == 1 { // several are an error
			return a.autocomplete(!strings.HasSuffix(first, "uninstall"))
		}
	default:
		if first == "" || strings.HasPrefix(first, "-") {
			args = append([]string{"start", "-deprecated-start-up"}, args...) // CTS's old way to start, without a command
		}
	}
	c := &cli.CLI{
		Name: a.program, Version: buildinfo.Version, Args: args,
		HelpWriter: a.stdout, ErrorWriter: a.stderr,
		Autocomplete: true,
		Commands:     a.factories(),
		HelpFunc:     a.helpFunc(),
	}
	code, err := c.Run()
	switch {
	case err != nil:
		return a.fail(exitError, err)
	case code == exitUnknown && a.flagsOf[c.Subcommand()] == nil: // else the group has said it
		return a.unknown([]string{c.Subcommand()}, "")
	}
	return code
}

// app is what every command has.
type app struct {
	ctx            context.Context
	program        string // the name that it was called by: ownName or ctsName
	stdin          io.Reader
	stdout, stderr io.Writer
	json           bool // -json

	flagsOf map[string]*flag.FlagSet // of all commands
	given   []givenFlag              // where this command acts, as far as flags say
}

// fail prints what is wrong and returns the exit code: -1 if nothing is wrong.
func (a *app) fail(code int, err error) int {
	if err == nil {
		return -1
	}
	fmt.Fprintf(a.stderr, "Error: %s\n", strings.TrimRight(err.Error(), "\n"))
	return code
}
