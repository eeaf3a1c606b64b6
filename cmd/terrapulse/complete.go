package main

import (
	"context"
	"flag"
	"strings"
	"time"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

// completionPatience is how long the shell waits for the names of tasks.
const completionPatience = time.Second

// flagSets are the flags of every command.
func flagSets(a *app) map[string]*flag.FlagSet {
	sets := map[string]*flag.FlagSet{}
	sets["start"], _ = (&startCommand{app: a}).flags()
	sets["inspect"], _ = (&inspectCommand{app: a}).flags()
	sets["validate"], _, _, _ = (&validateCommand{app: a}).flags()
	sets["render"], _, _ = (&renderCommand{app: a}).flags()
	sets["status"], _, _ = (&statusCommand{app: a}).flags()
	sets["runs"], _, _ = (&runsCommand{app: a}).flags()
	sets["logs"], _ = (&logsCommand{app: a}).flags()
	sets["run"], _, _ = (&runCommand{app: a}).flags()
	sets["retry"], _, _ = (&retryCommand{app: a}).flags()
	sets["forget"], _, _ = (&forgetCommand{app: a}).flags()
	sets["cancel"], _, _ = (&cancelCommand{app: a}).flags()
	sets["task create"], _ = (&taskCreateCommand{app: a}).flags()
	sets["task enable"], _ = (&taskEnableCommand{app: a}).flags()
	sets["task disable"], _, _ = (&taskDisableCommand{app: a}).flags()
	sets["task delete"], _ = (&taskDeleteCommand{app: a}).flags()
	sets["invoke"], _ = (&invokeCommand{app: a}).flags()
	sets["doctor"], _ = (&doctorCommand{app: a}).flags()
	sets["convert"], _, _ = (&convertCommand{app: a}).flags()
	sets["schema"] = (&schemaCommand{app: a}).flags()
	sets["migrate check"], _ = (&migrateCheckCommand{app: a}).flags()
	sets["bundle push"], _ = (&bundlePushCommand{app: a}).flags()
	sets["bundle diff"], _ = (&bundleDiffCommand{app: a}).flags()
	sets["bundle pull"], _, _ = (&bundlePullCommand{app: a}).flags()
	sets["version"], _ = (&versionCommand{app: a}).flags()
	return sets
}

// called is a command by the name that the program was called by, whose flags
// and arguments a shell completes.
type called struct {
	cli.Command
	app  *app
	name string // of the command
}

// dressed returns the commands as called.
func (a *app) dressed(commands map[string]cli.CommandFactory) map[string]cli.CommandFactory {
	dressed := map[string]cli.CommandFactory{}
	for name, factory := range commands {
		dressed[name] = func() (cli.Command, error) {
			command, err := factory()
			return &called{Command: command, app: a, name: name}, err
		}
	}
	return dressed
}

func (c *called) Help() string {
	help := strings.ReplaceAll(c.Command.Help(), "Usage: "+ownName+" ", "Usage: "+c.app.program+" ")
	if c.app.isCTS() {
		help = ctsHelp(c.name, help)
	}
	return help
}

// AutocompleteFlags are the flags of the command, and what may follow them.
func (c *called) AutocompleteFlags() complete.Flags {
	flags := complete.Flags{}
	set, ok := flagSets(c.app)[c.name]
	if !ok {
		return flags
	}
	set.VisitAll(func(f *flag.Flag) {
		if !hidden(f) {
			flags["-"+f.Name] = c.predictor(f)
		}
	})
	return flags
}

func (c *called) predictor(f *flag.Flag) complete.Predictor {
	if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
		return complete.PredictNothing
	}
	switch f.Name {
	case "config-dir":
		return complete.PredictDirs("*")
	case "log-level":
		return complete.PredictSet("TRACE", "DEBUG", "INFO", "WARN", "ERR")
	case "log-format":
		return complete.PredictSet("text", "json")
	case "inspect-task":
		return complete.PredictFunc(c.configuredTasks)
	}
	switch placeholder, _ := flag.UnquoteUsage(f); placeholder {
	case "path", "file":
		return complete.PredictFiles("*")
	case "folder":
		return complete.PredictDirs("*")
	}
	return complete.PredictAnything
}

// AutocompleteArgs are the arguments of the command.
func (c *called) AutocompleteArgs() complete.Predictor {
	switch c.name {
	case "run", "retry", "cancel", "task enable", "task disable", "task delete":
		return complete.PredictFunc(c.servedTasks)
	case "inspect", "render":
		return complete.PredictFunc(c.configuredTasks)
	case "runs", "logs":
		return complete.PredictFunc(c.knownTasks)
	case "convert":
		return complete.PredictFiles("*")
	case "bundle pull":
		return complete.PredictDirs("*")
	}
	return complete.PredictNothing
}

// servedTasks are the tasks of the instance that the API belongs to.
func (c *called) servedTasks(args complete.Args) []string {
	var api apiFlags
	f := newFlags(c.name)
	api.register(f)
	f.Bool("auto-approve", false, "")
	f.Bool("wait", false, "")
	f.Bool("json", false, "")
	if f.Parse(args.Completed) != nil {
		return nil
	}
	client, err := api.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.app.ctx, completionPatience)
	defer cancel()
	names, _ := client.TaskNames(ctx)
	return names
}

// configuredTasks are the tasks of the files that the command line names so far.
func (c *called) configuredTasks(args complete.Args) []string {
	var files configFlags
	for i, arg := range args.Completed {
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == arg || name != "config-file" && name != "config-dir" {
			continue
		}
		if !joined && i+1 < len(args.Completed) {
			value = args.Completed[i+1]
		}
		files.paths = append(files.paths, config.Path{Name: value, Dir: name == "config-dir"})
	}
	if len(files.paths) == 0 {
		return nil
	}
	cfg, err := files.read()
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range cfg.Tasks {
		names = append(names, t.Name)
	}
	return names
}

// knownTasks are the tasks that a store on this machine knows.
func (c *called) knownTasks(args complete.Args) []string {
	f := newFlags(c.name)
	from := registerRecords(f).store
	f.Bool("json", false, "")
	f.Bool("follow", false, "")
	if f.Parse(args.Completed) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.app.ctx, completionPatience)
	defer cancel()
	place, err := from.place(ctx)
	if err != nil || place.File == "" {
		return nil // reading a store over the network would take too long
	}
	store, err := place.Read(ctx)
	if err != nil {
		return nil
	}
	defer store.Close()
	tasks, err := state.ReadAll[state.Task](ctx, store, state.TaskPrefix)
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range tasks {
		names = append(names, state.TaskName(t.Key))
	}
	return names
}
