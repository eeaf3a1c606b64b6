package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// notifyTestCommand sends a test event.
func (a *app) notifyTestCommand() command {
	f := a.flagSet("notify test")
	var files configFlags
	files.register(f)
	return command{flags: f, synopsis: "Send a test event through the notify blocks",
		examples: []string{onFile, onFile + " on-call"}, codes: []int{exitOK, exitError, exitMissing, exitFlags, exitConfig}, args: complete.PredictAnything,
		help: `Usage: terrapulse notify test [flags] [NAME...]

  Sends an event of the kind "test" through every notify block of the task
  files, or through those with the given names, and prints the result of each.
  It evaluates templates as an instance on this machine does; the keys events
  and tasks do not filter the event. The exit code is 11 if it was not taken.
`,
		run: func(names []string) int { return a.notifyTest(&files, names) },
	}
}

// notified is what came of one test event, in the form that -json prints.
type notified struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Event    string `json:"event"`
	Error    string `json:"error,omitempty"`
	Duration string `json:"duration"`
}

func (a *app) notifyTest(files *configFlags, names []string) int {
	cfg, code := files.load(a)
	if code >= 0 {
		return code
	}
	specs, err := chosen(cfg, names)
	if err != nil {
		return a.fail(exitConfig, err)
	}
	log, err := (&logFlags{format: "text"}).logger(a, cfg.LogLevel)
	if err != nil {
		return a.fail(exitFlags, err)
	}
	values := instance.Values(a.ctx, log)
	sinks := instance.Sinks(values, func() *config.Config { return cfg })
	event := outbox.Pages{URL: cfg.API.URL}.Of(outbox.Event{ID: "test." + uuid.NewString(), Kind: "test", At: time.Now().UTC(), Detail: "sent by terrapulse notify test"})
	all := []notified{}
	var t table
	t.row(plain, "NAME", "TYPE", "RESULT")
	for i, sink := range sinks.Sinks(specs) {
		began := time.Now()
		err := sink.Deliver(context.WithoutCancel(a.ctx), event)
		n := notified{Name: sink.Name(), Kind: specs[i].Kind, Event: event.ID, Duration: time.Since(began).Round(time.Millisecond).String()}
		if err != nil {
			n.Error, code = err.Error(), exitError
			t.row(bad, n.Name, n.Kind, "not taken: "+n.Error)
		} else {
			t.row(good, n.Name, n.Kind, "taken in "+n.Duration)
		}
		all = append(all, n)
	}
	code = max(code, exitOK)
	if a.json {
		return cmp.Or(a.printJSON(all), code)
	}
	t.print(a.stdout)
	return code
}

// chosen returns the notify blocks with these names, or all.
func chosen(cfg *config.Config, names []string) ([]notify.Spec, error) {
	if len(cfg.Notify) == 0 {
		return nil, fmt.Errorf("the task files have no notify block")
	}
	if len(names) == 0 {
		return cfg.Notify, nil
	}
	var specs []notify.Spec
	for _, name := range names {
		n := len(specs)
		for _, s := range cfg.Notify {
			if s.Name == name {
				specs = append(specs, s)
			}
		}
		if len(specs) == n {
			return nil, fmt.Errorf("the task files have no notify block with the name %q", name)
		}
	}
	return specs, nil
}
