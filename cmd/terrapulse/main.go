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

func main() {
	// A small resident set matters more to a daemon that waits than the time
	// that the collector takes; Terraform takes all of the time anyway.
	debug.SetGCPercent(50)

	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		<-signals
		stop()
		<-signals
		fmt.Fprintln(os.Stderr, "stopped a second time: not waiting for Terraform; it is ended with this process")
		os.Exit(exitInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{ctx: ctx, stdout: stdout, stderr: stderr}
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	switch first {
	case "version", "-version", "--version", "-v":
		fmt.Fprintf(stdout, "terrapulse %s\n", version)
		return exitOK
	case "help":
		args = append(args[1:], "-help")
	case "-h", "-help", "--help":
	default:
		if first == "" || strings.HasPrefix(first, "-") {
			args = append([]string{"start"}, args...) // CTS's old way to start, without a command
		}
	}
	c := &cli.CLI{
		Name: "terrapulse", Version: version, Args: args,
		HelpWriter: stdout, ErrorWriter: stderr,
		Autocomplete: true,
		Commands: map[string]cli.CommandFactory{
			"start":    func() (cli.Command, error) { return &startCommand{app: a}, nil },
			"inspect":  func() (cli.Command, error) { return &inspectCommand{app: a}, nil },
			"validate": func() (cli.Command, error) { return &validateCommand{app: a}, nil },
			"render":   func() (cli.Command, error) { return &renderCommand{app: a}, nil },
			"status":   func() (cli.Command, error) { return &statusCommand{app: a}, nil },
			"runs":     func() (cli.Command, error) { return &runsCommand{app: a}, nil },
			"logs":     func() (cli.Command, error) { return &logsCommand{app: a}, nil },
			"invoke":   func() (cli.Command, error) { return &invokeCommand{app: a}, nil },
			"doctor":   func() (cli.Command, error) { return &doctorCommand{app: a}, nil },

			"migrate":       func() (cli.Command, error) { return &migrateCommand{app: a}, nil },
			"migrate check": func() (cli.Command, error) { return &migrateCheckCommand{app: a}, nil },

			"bundle":      func() (cli.Command, error) { return &bundleCommand{app: a}, nil },
			"bundle push": func() (cli.Command, error) { return &bundlePushCommand{app: a}, nil },
			"bundle diff": func() (cli.Command, error) { return &bundleDiffCommand{app: a}, nil },
			"bundle pull": func() (cli.Command, error) { return &bundlePullCommand{app: a}, nil },
		},
		HelpFunc: cli.BasicHelpFunc("terrapulse"),
	}
	code, err := c.Run()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitError
	}
	return code
}

// app is what every command has.
type app struct {
	ctx            context.Context
	stdout, stderr io.Writer
	region         string // of AWS, as the store's URL names it; "" is the usual one
}

// fail prints what is wrong and returns the exit code.
func (a *app) fail(code int, err error) int {
	fmt.Fprintf(a.stderr, "Error: %s\n", strings.TrimRight(err.Error(), "\n"))
	return code
}
