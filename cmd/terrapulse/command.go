package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/suggest"
)

// commands are all commands. A new command is a file and a line in this list.
func (a *app) commands() []command {
	return slices.Concat(
		[]command{
			a.initCommand(),
			a.startCommand(),
			a.inspectCommand(),
			a.validateCommand(),
			a.statusCommand(),
			a.runsCommand(),
			a.logsCommand(),
			a.eventsCommand(),

			a.ofTask(runTask),
			a.ofTask(forgetTask),
			a.ofTask(destroyTask),
			a.ofTask(cancelTask),

			a.decides(approvePlan),
			a.decides(rejectPlan),
			a.decides(holdTask),
			a.decides(releaseTask),
			a.decides(pauseAll),
			a.decides(resumeAll),

			a.invokeCommand(),
			a.doctorCommand(),
			a.restoreCommand(),
			a.supportBundleCommand(),
			a.uiCommand(),
			a.loginCommand(),
			a.logoutCommand(),
			a.runnerCommand(),

			a.versionCommand(),
		},
		a.group("plan", "Show the plan that waits for an approval", `
  Shows the plan of a task that waits for an approval.`,
			a.decides(showPlan)),
		a.group("task", "Create, change or delete tasks; print their order", `
  Changes the tasks of a running instance through its HTTP API. Changes persist
  across restarts and apply to every instance on the same store. task graph
  and task map change nothing.`,
			a.taskCreateCommand(),
			a.ofTask(enableTask),
			a.ofTask(disableTask),
			a.ofTask(deleteTask),
			a.taskGraphCommand(),
			a.taskMapCommand()),
		a.tokenCommands(),
		[]command{a.auditCommand()},
		a.group("migrate", "Move from Consul-Terraform-Sync to Terrapulse", `
  Reports what would change if Terrapulse took over from Consul-Terraform-Sync.`,
			a.migrateCheckCommand()),
		a.group("bundle", "Manage the task files of a deployment in AWS", `
  A deployment in AWS reads its task files, local modules and variable files
  from one bundle in S3: the one that was pushed last.`,
			a.bundlePushCommand(),
			a.bundleDiffCommand(),
			a.bundlePullCommand()),
		a.group("notify", "Test where events are sent", `
  Sends a test event through the notify blocks of task files.`,
			a.notifyTestCommand()),
	)
}

// command is one command of the program.
type command struct {
	flags    *flag.FlagSet                 // their name is that of the command
	synopsis string                        // one line
	help     string                        // usage and what the command does; flags, examples and exit codes follow
	examples []string                      // without the names of the program and the command; nil for a group
	codes    []int                         // exit codes
	args     complete.Predictor            // completes arguments; nil if the command takes none
	values   map[string]complete.Predictor // completes values of flags
	run      func(arguments []string) int  // is called when the flags are parsed, and returns the exit code
}

const onFile = "-config-file tasks.yaml"

var (
	codesOfTask  = []int{exitOK, exitError, exitMissing, exitFlags, exitConfig}
	codesOfRun   = []int{exitOK, exitWaits, exitError, exitMissing, exitFlags, exitConfig}
	codesOfFiles = []int{exitOK, exitMissing, exitFlags, exitConfig}
	codesOfStore = []int{exitOK, exitError, exitMissing, exitFlags, exitConfig}
	codesOfPlan  = []int{exitOK, exitChanges, exitError, exitMissing, exitFlags, exitConfig, exitTerraform}
)

// group returns subcommands, and a command that only names them.
func (a *app) group(name, synopsis, help string, subcommands ...command) []command {
	names := list.Map(subcommands, func(c command) string { return strings.TrimPrefix(c.flags.Name(), name+" ") })
	usage := fmt.Sprintf("terrapulse %s %s", name, strings.Join(names, "|"))
	return append(subcommands, command{
		flags: newFlags(name), synopsis: synopsis, help: fmt.Sprintf("Usage: %s [flags]\n%s", usage, help),
		run: func(arguments []string) int {
			if len(arguments) > 0 {
				return a.unknown(arguments, name)
			}
			return a.fail(exitMissing, fmt.Errorf("missing subcommand: %s", usage))
		},
	})
}

// unknown says that there is no such command in a group ("" for the program's own
// commands), and which one is probably meant.
func (a *app) unknown(arguments []string, group string) int {
	full, name := strings.TrimSpace(group+" "+arguments[0]), arguments[0]
	var others []string
	commands := map[string]string{} // by their last word
	for _, c := range a.commands() {
		of, last := "", c.flags.Name()
		if at := strings.LastIndex(last, " "); at >= 0 {
			of, last = last[:at], last[at+1:]
		}
		if of == group || group == "" && commands[last] == "" {
			others, commands[last] = append(others, last), c.flags.Name()
		}
	}
	hint := fmt.Sprintf("`%s -help` lists the commands", strings.TrimSpace(a.program+" "+group))
	if near, ok := suggest.Nearest(name, others); ok {
		hint = fmt.Sprintf("did you mean `%s %s`?", a.program, strings.Join(append([]string{commands[near]}, arguments[1:]...), " "))
	} else if group != "" && len(others) == 1 {
		hint = fmt.Sprintf("did you mean `%s %s`?", a.program, strings.Join(append([]string{group, others[0]}, arguments...), " "))
	}
	return a.fail(exitUnknown, fmt.Errorf("unknown command %q: %s", full, hint))
}

// factories are the commands as hashicorp/cli takes them.
func (a *app) factories() map[string]cli.CommandFactory {
	factories := map[string]cli.CommandFactory{}
	a.flagsOf = map[string]*flag.FlagSet{}
	for _, c := range a.commands() {
		a.flagsOf[c.flags.Name()] = c.flags
		factories[c.flags.Name()] = func() (cli.Command, error) { return &called{c, a}, nil }
	}
	return factories
}

// called is a command as hashicorp/cli calls it.
type called struct {
	command
	app *app
}

// Synopsis implements cli.Command.
func (c *called) Synopsis() string { return c.synopsis }

// Help implements cli.Command. It names the program as it was called.
func (c *called) Help() string {
	help := strings.ReplaceAll(c.help+describe(c.command), "Usage: "+ownName+" ", "Usage: "+c.app.program+" ")
	if c.app.isCTS() {
		help = ctsHelp(c.flags.Name(), help)
	}
	return help
}

// Run implements cli.Command. Flags may also follow arguments.
func (c *called) Run(args []string) int {
	if c.examples == nil && c.app.isCTS() {
		return cli.RunResultHelp // of a group, whatever the arguments are
	}
	if c.examples == nil && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return c.run(args) // not a command of the group: its flags are unknown, too
	}
	c.app.notePlace(c.flags)
	var rest []string
	for {
		if err := c.flags.Parse(args); err != nil {
			return c.app.fail(exitFlags, fmt.Errorf("%w%s (see `%s %s -help`)", err, c.meant(err), c.app.program, c.flags.Name()))
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
	return c.run(rest)
}

// meant is which flag was probably meant instead of an unknown one; "" if none was.
func (c *called) meant(err error) string {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return ""
	}
	var flags []string
	c.flags.VisitAll(func(f *flag.Flag) {
		if !hidden(f) {
			flags = append(flags, "-"+f.Name)
		}
	})
	return suggest.Meant("-"+name, flags)
}

// refuseArguments is for a command that takes no arguments, such as a second file
// after -config-file. The exit code is -1 if they are ignored.
func (a *app) refuseArguments(f *flag.FlagSet) int {
	if a.isCTS() && f.Name() == "task create" { // Consul-Terraform-Sync ignores them
		fmt.Fprintf(a.stderr, "Warning: arguments after the flags are ignored: %q\n", f.Args())
		return -1
	}
	err := fmt.Errorf("%s takes no arguments, got %q", f.Name(), f.Args())
	if f.Name() == "status" {
		err = fmt.Errorf("%w: `terrapulse status -name=%[2]s` shows only this task, `terrapulse runs %[2]s` its runs", err, f.Arg(0))
	}
	return a.fail(exitFlags, err)
}

// oneTask fails unless the one argument of a command is given. The exit code is -1
// if it is.
func (a *app) oneTask(command string, arguments []string) int {
	if len(arguments) == 1 {
		return -1
	}
	return a.fail(exitMissing, fmt.Errorf("name one task: terrapulse %s [flags] TASK", command))
}
