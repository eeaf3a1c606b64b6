package main

import (
	"fmt"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/stack"
	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/driver/builds"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// pushReport is what bundle push -json prints.
type pushReport struct {
	Location string         `json:"location"`
	Digest   string         `json:"digest"`
	By       string         `json:"by"` // who has put this bundle into force, and when
	Pushed   time.Time      `json:"pushed"`
	Changed  bool           `json:"changed"` // false: it was in force already
	Tasks    int            `json:"tasks"`
	Warnings []string       `json:"warnings"`
	Note     string         `json:"note,omitempty"`
	Answer   *invoke.Answer `json:"answer,omitempty"` // with -stack
}

// bundlePushCommand puts a bundle into force.
func (a *app) bundlePushCommand() command {
	var b bundleFlags
	var literal bool
	f := a.flagSet("bundle push")
	b.register(f)
	f.BoolVar(&literal, "allow-literal-secrets", false, "Pack files although something in them looks like a secret in plain text.")
	return command{flags: f, synopsis: "Check task files and apply them to a deployment in AWS",
		examples: []string{"-config-dir tasks s3://network-files/terrapulse", "-config-dir tasks -stack=network"},
		codes:    codesOfStore, args: complete.PredictAnything,
		help: `Usage: terrapulse bundle push [flags] [s3://BUCKET/PREFIX]

  Checks the task files as validate does, packs them with their local modules,
  variable files and files of checks into one zip, and puts that into force: new
  tasks run, and changed ones run again. What tasks that are gone have made is
  kept, or destroyed if their on_removal says so. The same content gives the
  same bundle, and pushing it again changes nothing. If somebody else has pushed
  meanwhile, nothing is changed either.

  The bundle location is the stack's output BundleUrl; -stack finds it, and
  warns of providers that have no build for the stack's containers.
`,
		run: func(arguments []string) int {
			cfg, code := b.config.load(a)
			if code >= 0 {
				return code
			}
			report := pushReport{Tasks: len(cfg.Tasks), Warnings: []string{}}
			for _, w := range cfg.Warnings {
				report.Warnings = append(report.Warnings, w.String())
			}
			packed, _, remove, code := a.packed(cfg, literal)
			defer remove()
			if code >= 0 {
				return code
			}
			at, code := a.place("bundle push", b.stack, arguments)
			if code >= 0 {
				return code
			}
			if at.stack != nil {
				for _, w := range builds.Missing(a.ctx, cfg, at.stack.Platform(), nil) {
					fmt.Fprintf(a.text(), "Warning: %s\n", w)
					report.Warnings = append(report.Warnings, w)
				}
			}
			pointer, moved, err := at.Push(a.ctx, packed, userAtHost(), time.Now())
			if err != nil {
				return a.fail(exitError, err)
			}
			report.Location, report.Changed = at.Location.String(), moved
			report.Digest, report.By, report.Pushed = pointer.Digest, pointer.By, pointer.Pushed
			if moved {
				fmt.Fprintf(a.text(), "Bundle %.12s (%s, %d KB) is pushed to %s: it is in force from the next tick on.\n",
					pointer.Digest, tasksOf(len(cfg.Tasks)), (len(packed.Zip)+1023)/1024, at.Location)
			} else {
				fmt.Fprintf(a.text(), "Bundle %.12s (%s) is in force already: %s has pushed it, %s.\n",
					pointer.Digest, tasksOf(len(cfg.Tasks)), pointer.By, clock.Local(pointer.Pushed))
			}
			var notRead error
			if at.stack != nil {
				report.Answer, notRead = a.refreshBundle(at.stack, pointer.Digest)
			}
			if report.Answer != nil && report.Answer.Paused != nil {
				report.Note = fmt.Sprintf("Nothing is applied until `terrapulse resume -stack=%[1]s`. See what would be, with `terrapulse invoke -stack=%[1]s -inspect -wait`.", at.stack.Name)
				fmt.Fprintln(a.text(), report.Note)
			}
			code = exitOK
			if a.json { // also when the bundle is pushed and not read yet
				code = a.printJSON(report)
			}
			return max(code, a.fail(exitError, notRead))
		},
	}
}

// packed checks a configuration for a bundle, prints its warnings and packs it; literal secrets may
// be allowed. It returns the configuration as AWS will read it. The returned function removes the
// unpacked files.
func (a *app) packed(cfg *config.Config, literal bool) (packed bundle.Bundle, there *config.Config, remove func(), code int) {
	for _, w := range cfg.Warnings {
		fmt.Fprintf(a.text(), "Warning: %s\n", w)
	}
	if code := a.invalid(checkTasks(cfg).Err()); code >= 0 {
		return packed, nil, func() {}, code
	}
	places, secrets := bundle.CheckPlaces(cfg), error(nil)
	if !literal {
		secrets = bundle.CheckSecrets(cfg)
	}
	if code := a.invalid(places, secrets); code >= 0 {
		return packed, nil, func() {}, code
	}
	packed, there, remove, err := a.rehearse(cfg)
	return packed, there, remove, a.invalid(err)
}

// refreshBundle makes the function read the new bundle now.
func (a *app) refreshBundle(st *stack.Stack, digest string) (*invoke.Answer, error) {
	answer, err := st.Invoke(a.ctx, invoke.Request{Mode: invoke.Reconcile, Refresh: true})
	if err != nil {
		return nil, fmt.Errorf("the bundle is pushed, and the next tick will read it; to have it read at once: %w", err)
	}
	if !a.json {
		a.explain(answer)
	}
	if answer.Bundle != digest && answer.Skipped == "" {
		err = fmt.Errorf("bundle %.12s is pushed, and %.12s is still in force: see `terrapulse status`, and whether the stack's output BundleUrl is the place that was pushed to", digest, answer.Bundle)
	}
	return &answer, err
}
