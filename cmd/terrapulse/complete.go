package main

import (
	"context"
	"flag"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/aws/stack"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// completionPatience is how long the shell waits for the names of tasks.
const completionPatience = time.Second

// AutocompleteFlags are the flags of the command, and what may follow them.
func (c *called) AutocompleteFlags() complete.Flags {
	flags := complete.Flags{}
	c.flags.VisitAll(func(f *flag.Flag) {
		if !hidden(f) {
			flags["-"+f.Name] = c.predictor(f)
		}
	})
	return flags
}

func (c *called) predictor(f *flag.Flag) complete.Predictor {
	if p, ok := c.values[f.Name]; ok {
		return p
	}
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
	if c.args == nil {
		return complete.PredictNothing
	}
	return c.args
}

// tasks completes the names that list returns, which begin with what is typed of one. The flags that are typed so far are
// parsed before it is called.
func (a *app) tasks(f *flag.FlagSet, list func(ctx context.Context, begin string) ([]string, error)) complete.Predictor {
	return complete.PredictFunc(func(args complete.Args) []string {
		_ = f.Parse(args.Completed) // the command itself reports what is wrong
		ctx, cancel := context.WithTimeout(a.ctx, completionPatience)
		defer cancel()
		names, _ := list(ctx, args.Last)
		return names
	})
}

// labels completes labels: those in the named files, else those of the first tasks of the API.
func (a *app) labels(f *flag.FlagSet, from *doorFlags) complete.Predictor {
	return a.tasks(f, func(ctx context.Context, begin string) ([]string, error) {
		if strings.Contains(begin, "=") {
			return nil, nil // shells take what follows = for a word
		}
		var all []string
		if paths := from.store.config.paths; len(paths) > 0 {
			cfg, err := (&configFlags{paths: paths, tokenLater: true}).read()
			if err != nil {
				return nil, err
			}
			for i := range cfg.Tasks {
				all = append(all, selection.LabelsOf(&apispec.TaskOverview{Labels: &cfg.Tasks[i].Labels})...)
			}
			return unique(all), nil
		}
		client, err := from.api.anyClient(ctx)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		first := selection.Selection{Brief: true}.First(selection.MaxLimit)
		o, err := client.Overview(ctx, first)
		for i := range o.Tasks {
			all = append(all, selection.LabelsOf(&o.Tasks[i])...)
		}
		return unique(all), err
	})
}

func unique(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// taskNames returns the tasks of the instance or the stack that the API belongs to.
func (o *apiFlags) taskNames(ctx context.Context, begin string) ([]string, error) {
	client, err := o.anyClient(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.TaskNamesFrom(ctx, begin)
}

// anyClient returns a client of the API of the stack or at the address.
func (o *apiFlags) anyClient(ctx context.Context) (*apiclient.Client, error) {
	if o.stack == "" {
		return o.client()
	}
	st, err := stack.Find(ctx, o.stack)
	if err != nil {
		return nil, err
	}
	return st.API(ctx, stackUser(io.Discard))
}

// taskNames returns the tasks of the named files.
func (c *configFlags) taskNames(context.Context, string) ([]string, error) {
	if len(c.paths) == 0 {
		return nil, nil
	}
	files := configFlags{paths: c.paths, tokenLater: true}
	cfg, err := files.read()
	if err != nil {
		return nil, err
	}
	return namesOf(cfg), nil
}

// taskNames returns the tasks of the API or of the named files, or those that a store on this machine has records
// of: reading a store over the network would take too long.
func (d *doorFlags) taskNames(ctx context.Context, begin string) ([]string, error) {
	switch named := d.api.named(d.api.given()); {
	case !named && len(d.store.config.paths) > 0:
		return d.store.config.taskNames(ctx, begin)
	case named, !d.stored && d.store.url == "":
		return d.api.taskNames(ctx, begin)
	}
	place, err := d.store.place(ctx)
	if err != nil || place.File == "" {
		return nil, err
	}
	store, err := place.Read(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return overview.Reader{Store: store}.Names(ctx)
}
