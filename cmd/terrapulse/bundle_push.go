package main

import (
	"flag"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/terrapulse/terrapulse/internal/config/bundle"
	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/runner"
)

// bundlePushCommand puts a bundle into force.
type bundlePushCommand struct{ *app }

func (c *bundlePushCommand) Synopsis() string {
	return "Check task files and put them into force in AWS"
}

func (c *bundlePushCommand) Help() string {
	f, _ := c.flags()
	return `Usage: terrapulse bundle push [flags] [s3://BUCKET/PREFIX]

  Checks the task files as validate does, packs them with their local modules
  and variable files into one zip, and puts that into force: new tasks run,
  changed ones run again, and what tasks that are gone have made is kept. The
  same content gives the same bundle, and pushing it again changes nothing. If
  somebody else has pushed meanwhile, nothing is changed either.

  Where bundles are is said by the stack's output BundleUrl, or found by -stack.
` + describe(f)
}

type bundlePushOptions struct {
	config  configFlags
	stack   string
	secrets bool
}

func (c *bundlePushCommand) flags() (*flag.FlagSet, *bundlePushOptions) {
	f, o := newFlags("bundle push"), &bundlePushOptions{}
	o.config.register(f)
	stackFlag(f, &o.stack)
	f.BoolVar(&o.secrets, "allow-literal-secrets", false, "Pack files although something in them looks like a secret in plain text.")
	return f, o
}

func (c *bundlePushCommand) Run(args []string) int {
	f, o := c.flags()
	rest, code := c.parseAround(f, args, c.Help())
	if code >= 0 {
		return code
	}
	if len(rest) > 1 {
		return c.fail(exitFlags, fmt.Errorf("bundle push takes one place, got %q", rest))
	}
	cfg, code := o.config.load(c.app)
	if code >= 0 {
		return code
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.stdout, "Warning: %s\n", w)
	}
	module := &runner.Module{}
	var wrong []error
	for i := range cfg.Tasks {
		wrong = append(wrong, module.Check(cfg, &cfg.Tasks[i]))
	}
	if code := c.failAll(wrong...); code >= 0 {
		return code
	}
	places, secrets := bundle.CheckPlaces(cfg), error(nil)
	if !o.secrets {
		secrets = bundle.CheckSecrets(cfg)
	}
	if code := c.failAll(places, secrets); code >= 0 {
		return code
	}
	packed, remove, err := c.rehearse(cfg)
	defer remove()
	if code := c.failAll(err); code >= 0 {
		return code
	}
	at, code := c.place(f, o.stack, rest)
	if code >= 0 {
		return code
	}
	pointer, moved, err := at.Push(c.ctx, packed.Bundle, pusher(), time.Now())
	if err != nil {
		return c.fail(exitError, err)
	}
	if moved {
		fmt.Fprintf(c.stdout, "Bundle %.12s (%s, %d KB) is pushed to %s: it is in force from the next tick on.\n",
			pointer.Digest, tasksOf(len(cfg.Tasks)), (len(packed.Zip)+1023)/1024, at.Location)
	} else {
		fmt.Fprintf(c.stdout, "Bundle %.12s (%s) is in force already: %s has pushed it, %s.\n",
			pointer.Digest, tasksOf(len(cfg.Tasks)), pointer.By, pointer.Pushed.Local().Format(clock))
	}
	if at.stack == nil {
		return exitOK
	}
	if at.stack.stopped { // to have it read would have it applied
		fmt.Fprintf(c.stdout, "ScheduleState is DISABLED: nothing is applied until it is ENABLED. See what would be, with `terrapulse invoke -stack=%s -inspect -wait`.\n", at.stack.name)
		return exitOK
	}
	return c.refresh(at.stack, pointer.Digest)
}

// refresh has the function take the new bundle at once.
func (c *bundlePushCommand) refresh(st *stack, digest string) int {
	answer, err := st.ask(c.ctx, invoke.Request{Mode: invoke.Reconcile, Refresh: true})
	if err != nil {
		return c.fail(exitError, fmt.Errorf("the bundle is pushed, and the next tick will read it; to have it read at once: %w", err))
	}
	c.explain(answer)
	if answer.Bundle != digest && answer.Skipped == "" {
		return c.fail(exitError, fmt.Errorf("bundle %.12s is pushed, and %.12s is still in force: see `terrapulse status`, and whether the stack's output BundleUrl is the place that was pushed to", digest, answer.Bundle))
	}
	return exitOK
}

// pusher is who pushes, for people.
func pusher() string {
	name := "somebody"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
