package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"
)

// commands are all commands. A new command is a file and a line in this list.
func (a *app) commands() []command {
	return []command{
		&startCommand{a},
		&inspectCommand{a},
		&validateCommand{a},
		&renderCommand{a},
		&statusCommand{a},
		&runsCommand{a},
		&logsCommand{a},

		&runCommand{a},
		&retryCommand{a},
		&forgetCommand{a},
		&cancelCommand{a},

		&group{a, "task", "Create, enable, disable or delete a task", `
  Changes the tasks of a running instance through its HTTP API. Changes persist
  across restarts and apply to every instance on the same store.`},
		&taskCreateCommand{a},
		&taskEnableCommand{a},
		&taskDisableCommand{a},
		&taskDeleteCommand{a},

		&invokeCommand{a},
		&doctorCommand{a},

		&convertCommand{a},
		&schemaCommand{a},

		&group{a, "migrate", "Move from Consul-Terraform-Sync to Terrapulse", `
  Reports what would change if Terrapulse took over from Consul-Terraform-Sync.`},
		&migrateCheckCommand{a},

		&group{a, "bundle", "Manage the task files of a deployment in AWS", `
  A deployment in AWS reads its task files, local modules and variable files
  from one bundle in S3: the one that was pushed last.`},
		&bundlePushCommand{a},
		&bundleDiffCommand{a},
		&bundlePullCommand{a},

		&versionCommand{a},
	}
}

// command is one command of the program.
type command interface {
	Synopsis() string
	// Help returns the usage and what the command does. The flags, examples and
	// exit codes of about follow it.
	Help() string
	// Run runs the command and returns the exit code.
	Run(args []string) int
	about() about
}

// about is what help and shell completion need to know about a command.
type about struct {
	flags    *flag.FlagSet // their name is that of the command
	examples []string      // without the names of the program and the command
	codes    []int         // exit codes
	args     predictor     // completes arguments; nil if there are none
}

// predictor completes what is typed after a command.
type predictor func(*called) complete.Predictor

const onFile = "-config-file tasks.yaml"

var (
	codesOfTask  = []int{exitOK, exitError, exitMissing, exitFlags}
	codesOfFiles = []int{exitOK, exitMissing, exitFlags, exitConfig}
	codesOfStore = []int{exitOK, exitError, exitMissing, exitFlags, exitConfig}
	codesOfPlan  = []int{exitOK, exitChanges, exitError, exitMissing, exitFlags, exitConfig, exitTerraform}
)

// group is a command that only has subcommands.
type group struct {
	*app
	name, synopsis, help string
}

func (g *group) Synopsis() string { return g.synopsis }

func (g *group) Help() string {
	return fmt.Sprintf("Usage: terrapulse %s %s [flags]\n%s", g.name, strings.Join(g.subcommands(), "|"), g.help)
}

func (g *group) about() about { return about{flags: newFlags(g.name)} }

func (g *group) Run([]string) int {
	if g.isCTS() {
		return cli.RunResultHelp
	}
	return g.fail(exitMissing, fmt.Errorf("missing subcommand: terrapulse %s %s", g.name, strings.Join(g.subcommands(), "|")))
}

func (g *group) subcommands() []string {
	var names []string
	for _, c := range g.commands() {
		if name, ok := strings.CutPrefix(c.about().flags.Name(), g.name+" "); ok {
			names = append(names, name)
		}
	}
	return names
}

// factories are the commands as hashicorp/cli takes them.
func (a *app) factories() map[string]cli.CommandFactory {
	factories := map[string]cli.CommandFactory{}
	for _, c := range a.commands() {
		factories[c.about().flags.Name()] = func() (cli.Command, error) { return &called{c, a}, nil }
	}
	return factories
}

// called is a command with its complete help, which names the program as it was
// called, and with shell completion.
type called struct {
	command
	app *app
}

// Help implements cli.Command.
func (c *called) Help() string {
	about := c.about()
	help := strings.ReplaceAll(c.command.Help()+describe(about), "Usage: "+ownName+" ", "Usage: "+c.app.program+" ")
	if c.app.isCTS() {
		help = ctsHelp(about.flags.Name(), help)
	}
	return help
}
