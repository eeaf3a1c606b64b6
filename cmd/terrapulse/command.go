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
		&startCommand{app: a},
		&inspectCommand{app: a},
		&validateCommand{app: a},
		&renderCommand{app: a},
		&statusCommand{app: a},
		&runsCommand{app: a},
		&logsCommand{app: a},

		a.ofTask(runTask),
		a.ofTask(retryTask),
		a.ofTask(forgetTask),
		a.ofTask(cancelTask),

		&group{a, "task", "Create, enable, disable or delete a task", `
  Changes the tasks of a running instance through its HTTP API. Changes persist
  across restarts and apply to every instance on the same store.`},
		&taskCreateCommand{app: a},
		a.ofTask(enableTask),
		a.ofTask(disableTask),
		a.ofTask(deleteTask),

		&invokeCommand{app: a},
		&doctorCommand{app: a},

		&convertCommand{app: a},
		&schemaCommand{app: a},

		&group{a, "migrate", "Move from Consul-Terraform-Sync to Terrapulse", `
  Reports what would change if Terrapulse took over from Consul-Terraform-Sync.`},
		&migrateCheckCommand{app: a},

		&group{a, "bundle", "Manage the task files of a deployment in AWS", `
  A deployment in AWS reads its task files, local modules and variable files
  from one bundle in S3: the one that was pushed last.`},
		&bundlePushCommand{app: a},
		&bundleDiffCommand{app: a},
		&bundlePullCommand{app: a},

		&versionCommand{app: a},
	}
}

// command is one command of the program. Its fields are its flags.
type command interface {
	// about describes the command. It registers the flags.
	about() about
	// run runs the command once the flags are parsed, and returns the exit code.
	run(arguments []string) int
}

// about describes a command.
type about struct {
	flags    *flag.FlagSet                 // their name is that of the command
	synopsis string                        // one line
	help     string                        // usage and what the command does; flags, examples and exit codes follow
	examples []string                      // without the names of the program and the command; nil for a group
	codes    []int                         // exit codes
	args     complete.Predictor            // completes arguments; nil if the command takes none
	values   map[string]complete.Predictor // completes values of flags
}

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

func (g *group) about() about {
	return about{flags: newFlags(g.name), synopsis: g.synopsis,
		help: fmt.Sprintf("Usage: terrapulse %s %s [flags]\n%s", g.name, strings.Join(g.subcommands(), "|"), g.help)}
}

func (g *group) run([]string) int {
	return g.fail(exitMissing, fmt.Errorf("missing subcommand: terrapulse %s %s", g.name, strings.Join(g.subcommands(), "|")))
}

func (g *group) subcommands() []string {
	var names []string
	for _, c := range g.commands() {
		if _, ok := c.(*group); ok {
			continue
		}
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
		about := c.about()
		factories[about.flags.Name()] = func() (cli.Command, error) { return &called{c, about, a}, nil }
	}
	return factories
}

// called is a command as hashicorp/cli calls it.
type called struct {
	command command
	about
	app *app
}

// Synopsis implements cli.Command.
func (c *called) Synopsis() string { return c.synopsis }

// Help implements cli.Command. It names the program as it was called.
func (c *called) Help() string {
	help := strings.ReplaceAll(c.help+describe(c.about), "Usage: "+ownName+" ", "Usage: "+c.app.program+" ")
	if c.app.isCTS() {
		help = ctsHelp(c.flags.Name(), help)
	}
	return help
}

// Run implements cli.Command. Flags may also follow arguments.
func (c *called) Run(args []string) int {
	if g, ok := c.command.(*group); ok && g.isCTS() {
		return cli.RunResultHelp // whatever the arguments are
	}
	var rest []string
	for {
		if err := c.flags.Parse(args); err != nil {
			return c.app.fail(exitFlags, fmt.Errorf("%w (see `%s %s -help`)", err, c.app.program, c.flags.Name()))
		}
		if c.flags.NArg() == 0 {
			break
		}
		if c.args == nil {
			if code := c.app.refuseArguments(c.flags); code >= 0 {
				return code
			}
			break
		}
		rest, args = append(rest, c.flags.Arg(0)), c.flags.Args()[1:]
	}
	return c.command.run(rest)
}

// refuseArguments is for a command that takes no arguments, such as a second file
// after -config-file. The exit code is -1 if they are ignored.
func (a *app) refuseArguments(f *flag.FlagSet) int {
	if a.isCTS() && f.Name() == "task create" { // Consul-Terraform-Sync ignores them
		fmt.Fprintf(a.stderr, "Warning: arguments after the flags are ignored: %q\n", f.Args())
		return -1
	}
	return a.fail(exitFlags, fmt.Errorf("%s takes no arguments, got %q", f.Name(), f.Args()))
}

// oneTask fails unless the one argument of a command is given. The exit code is -1
// if it is.
func (a *app) oneTask(command string, arguments []string) int {
	if len(arguments) == 1 {
		return -1
	}
	return a.fail(exitMissing, fmt.Errorf("name one task: terrapulse %s [flags] TASK", command))
}
