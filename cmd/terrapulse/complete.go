package main

import (
	"context"
	"flag"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

// completionPatience is how long the shell waits for the names of tasks.
const completionPatience = time.Second

// AutocompleteFlags are the flags of the command, and what may follow them.
func (c *called) AutocompleteFlags() complete.Flags {
	flags := complete.Flags{}
	c.about().flags.VisitAll(func(f *flag.Flag) {
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
	if args := c.about().args; args != nil {
		return args(c)
	}
	return complete.PredictNothing
}

func files(*called) complete.Predictor             { return complete.PredictFiles("*") }
func folders(*called) complete.Predictor           { return complete.PredictDirs("*") }
func servedTasks(c *called) complete.Predictor     { return complete.PredictFunc(c.servedTasks) }
func configuredTasks(c *called) complete.Predictor { return complete.PredictFunc(c.configuredTasks) }
func knownTasks(c *called) complete.Predictor      { return complete.PredictFunc(c.knownTasks) }

// servedTasks are the tasks of the instance that the API belongs to.
func (c *called) servedTasks(args complete.Args) []string {
	var api apiFlags
	f := newFlags("")
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
	f := newFlags("")
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
	records, err := store.List(ctx, state.TaskPrefix)
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range records {
		names = append(names, state.TaskName(t.Key))
	}
	return names
}
