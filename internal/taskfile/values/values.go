// Package values finds the templates in the providers and variables of a task, and
// puts their values in their place. Package dynamic evaluates every template; Simple
// evaluates the templates that the functions in AWS can, which are small programs.
package values

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// atOnce is the number of templates that are evaluated in parallel.
const atOnce = 8

// Values are the providers of a task with evaluated templates.
type Values struct {
	// Config is the configuration with evaluated templates in the task's providers.
	Config *config.Config
	// Variables are the values of the task's variables with templates.
	Variables map[string]string
	// Secrets are all evaluated values and their parts: output may contain a part without the
	// whole value.
	Secrets []string
}

// Place is the place of a template.
type Place struct {
	Provider string // id; "" for a variable of the task
	Argument string // such as token, auth.password or hosts[2]; task_env.NAME; or the variable's name
}

// Wrap adds the place to an error of its template.
func (p Place) Wrap(err error) error {
	if p.Provider == "" {
		return fmt.Errorf("variable %q: %w", p.Argument, err)
	}
	return fmt.Errorf("provider %q, %s: %w", p.Provider, p.Argument, err)
}

// Site is a place with a template to evaluate.
type Site struct {
	Place
	Text string
}

// Result is the result of a template.
type Result struct {
	Text   string
	Pieces []string // the output of its actions
	Err    error
}

// Evaluate evaluates the templates of the task's providers and variables by calling evaluate,
// for several of them at the same time. An error names the place.
func Evaluate(ctx context.Context, cfg *config.Config, t *config.Task, evaluate func(Site) Result) (Values, error) {
	all := Templates(cfg, t)
	if len(all) == 0 {
		return Values{Config: cfg}, nil
	}
	results := make([]Result, len(all))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, v := range all {
		group.Go(func() error {
			results[i] = evaluate(v)
			return nil
		})
	}
	_ = group.Wait() // the results hold the errors
	if ctx.Err() != nil {
		return Values{}, fmt.Errorf("look up the values of task %s's providers: %w", t.Name, context.Cause(ctx))
	}
	var errs []error
	values := Values{Variables: map[string]string{}}
	texts := map[Place]string{}
	for i, r := range results {
		if r.Err != nil {
			errs = append(errs, all[i].Wrap(r.Err))
		}
		if at := all[i].Place; at.Provider == "" {
			values.Variables[at.Argument] = r.Text
		} else {
			texts[at] = r.Text
		}
		values.Secrets = append(append(values.Secrets, r.Text), r.Pieces...)
	}
	if len(errs) > 0 {
		return Values{}, errors.Join(errs...)
	}
	next := *cfg
	next.Providers = each(cfg, t, func(p Place, text string) string {
		if other, ok := texts[p]; ok {
			return other
		}
		return text
	})
	values.Config = &next
	return values, nil
}

// Templates returns the templates of the task's providers and variables, in a fixed order.
func Templates(cfg *config.Config, t *config.Task) []Site {
	var all []Site
	each(cfg, t, func(p Place, text string) string {
		if config.IsTemplate(text) {
			all = append(all, Site{p, text})
		}
		return text
	})
	for _, name := range slices.Sorted(maps.Keys(t.VariableTemplates)) {
		all = append(all, Site{Place{Argument: name}, t.VariableTemplates[name]})
	}
	return all
}

// each calls f for every text of the task's providers, in a fixed order, and returns all providers,
// with the results in place of the texts.
func each(cfg *config.Config, t *config.Task, f func(Place, string) string) []config.Provider {
	providers := slices.Clone(cfg.Providers)
	for i := range providers {
		p := &providers[i]
		if !p.Dynamic() || !slices.Contains(t.Providers, p.ID()) {
			continue
		}
		of := func(argument, text string) string { return f(Place{p.ID(), argument}, text) }
		p.Body = p.Body.Map(of)
		p.Env = maps.Clone(p.Env)
		for _, name := range slices.Sorted(maps.Keys(p.Env)) {
			p.Env[name] = of("task_env."+name, p.Env[name])
		}
	}
	return providers
}
