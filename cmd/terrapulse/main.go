// Command terrapulse keeps network infrastructure in step with Consul: when
// services, keys or other data in Consul change, it runs Terraform.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/hashicorp/cli"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/yamlplace"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// version is set by the build.
var version = "dev"

// Exit codes. Scripts written for Consul-Terraform-Sync look for these numbers.
const (
	exitOK          = 0
	exitChanges     = 2  // -detailed-exitcode: the plan holds changes
	exitError       = 11 // something failed while running
	exitInterrupted = 12 // told to stop a second time, before Terraform had ended
	exitMissing     = 13 // a required flag or argument is missing
	exitFlags       = 14 // flags cannot be parsed
	exitConfig      = 15 // configuration or set-up is wrong, Consul cannot be reached
	exitTerraform   = 16 // no usable Terraform
	exitUnknown     = 127
)

func init() { config.FindYAMLError = yamlplace.Find }

func main() {
	// A small resident set matters more to a daemon that waits than the time
	// that the collector takes; Terraform takes all of the time anyway.
	debug.SetGCPercent(50)
	_ = terraform.KeepPrivate() // where that cannot be, there is no other way

	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP) // the terminal is gone
	}
	go func() {
		<-signals
		stop(stopped{})
		for <-signals == syscall.SIGHUP { // it comes more than once, and from nobody who is in a hurry
		}
		fmt.Fprintln(os.Stderr, "stopped a second time: not waiting for Terraform; it is ended with this process")
		os.Exit(exitInterrupted)
	}()
	a := &app{ctx: ctx, program: programName(os.Args[0]), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(a.run(os.Args[1:]))
}

// stopped is why runs are interrupted, among other things.
type stopped struct{}

func (stopped) Error() string        { return "Terrapulse was told to stop" }
func (stopped) Is(target error) bool { return target == context.Canceled }

// run is the program without the process around it.
func (a *app) run(args []string) int {
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	switch first {
	case "-version", "--version", "-v":
		args = append([]string{"version"}, args[1:]...)
	case "help":
		args = append(args[1:], "-help")
	case "-h", "-help", "--help", "-autocomplete-install", "--autocomplete-install", "-autocomplete-uninstall", "--autocomplete-uninstall":
	default:
		if first == "" || strings.HasPrefix(first, "-") {
			args = append([]string{"start", "-deprecated-start-up"}, args...) // CTS's old way to start, without a command
		}
	}
	c := &cli.CLI{
		Name: a.program, Version: version, Args: args,
		HelpWriter: a.stdout, ErrorWriter: a.stderr,
		Autocomplete: true,
		Commands:     a.dressed(a.commands()),
		HelpFunc:     a.helpFunc(),
	}
	code, err := c.Run()
	if err != nil {
		return a.fail(exitError, err)
	}
	return code
}

// commands are all commands by their names.
func (a *app) commands() map[string]cli.CommandFactory {
	return map[string]cli.CommandFactory{
		"start":    func() (cli.Command, error) { return &startCommand{app: a}, nil },
		"inspect":  func() (cli.Command, error) { return &inspectCommand{app: a}, nil },
		"validate": func() (cli.Command, error) { return &validateCommand{app: a}, nil },
		"render":   func() (cli.Command, error) { return &renderCommand{app: a}, nil },
		"status":   func() (cli.Command, error) { return &statusCommand{app: a}, nil },
		"runs":     func() (cli.Command, error) { return &runsCommand{app: a}, nil },
		"logs":     func() (cli.Command, error) { return &logsCommand{app: a}, nil },

		"run":    func() (cli.Command, error) { return &runCommand{app: a}, nil },
		"retry":  func() (cli.Command, error) { return &retryCommand{app: a}, nil },
		"forget": func() (cli.Command, error) { return &forgetCommand{app: a}, nil },
		"cancel": func() (cli.Command, error) { return &cancelCommand{app: a}, nil },

		"task":         func() (cli.Command, error) { return &taskCommand{app: a}, nil },
		"task create":  func() (cli.Command, error) { return &taskCreateCommand{app: a}, nil },
		"task enable":  func() (cli.Command, error) { return &taskEnableCommand{app: a}, nil },
		"task disable": func() (cli.Command, error) { return &taskDisableCommand{app: a}, nil },
		"task delete":  func() (cli.Command, error) { return &taskDeleteCommand{app: a}, nil },

		"invoke": func() (cli.Command, error) { return &invokeCommand{app: a}, nil },
		"doctor": func() (cli.Command, error) { return &doctorCommand{app: a}, nil },

		"convert": func() (cli.Command, error) { return &convertCommand{app: a}, nil },
		"schema":  func() (cli.Command, error) { return &schemaCommand{app: a}, nil },

		"migrate":       func() (cli.Command, error) { return &migrateCommand{app: a}, nil },
		"migrate check": func() (cli.Command, error) { return &migrateCheckCommand{app: a}, nil },

		"bundle":      func() (cli.Command, error) { return &bundleCommand{app: a}, nil },
		"bundle push": func() (cli.Command, error) { return &bundlePushCommand{app: a}, nil },
		"bundle diff": func() (cli.Command, error) { return &bundleDiffCommand{app: a}, nil },
		"bundle pull": func() (cli.Command, error) { return &bundlePullCommand{app: a}, nil },

		"version": func() (cli.Command, error) { return &versionCommand{app: a}, nil },
	}
}

// app is what every command has.
type app struct {
	ctx            context.Context
	program        string // the name that it was called by: ownName or ctsName
	stdin          io.Reader
	stdout, stderr io.Writer
}

// fail prints what is wrong and returns the exit code.
func (a *app) fail(code int, err error) int {
	fmt.Fprintf(a.stderr, "Error: %s\n", strings.TrimRight(err.Error(), "\n"))
	return code
}
