package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// supposeFlags say what is supposed of Consul.
type supposeFlags struct{ what condition.WhatIf }

func (s *supposeFlags) register(f *flag.FlagSet) {
	f.Func("without", "What if this were gone? `KEY=NAME` with one of node, service, instance, datacenter and peer; with several keys, as in service=web,datacenter=dc2, what matches all of them. A * stands for any characters. Repeatable.", func(text string) error {
		gone, err := condition.ParseGone(text)
		s.what.Without = append(s.what.Without, gone)
		return err
	})
	f.Func("with", "What if the entries in this `file` (YAML or JSON, - for standard input) were there, too? They have the format in which Consul's API shows service instances (/v1/health/service), keys (/v1/kv) and config entries (/v1/config), and replace those of the same identity. Repeatable.", func(file string) error {
		entries, err := entriesIn(file)
		s.what.With = append(s.what.With, entries...)
		return err
	})
}

func (s *supposeFlags) asked() bool { return !s.what.None() }

// entriesIn reads entries from a file.
func entriesIn(file string) ([]json.RawMessage, error) {
	text, err := os.ReadFile(file)
	if file == "-" {
		text, err = io.ReadAll(os.Stdin)
	}
	if err != nil {
		return nil, fileOf("-with", fmt.Errorf("read the entries: %w", err))
	}
	var all any
	if filepath.Ext(file) == ".json" {
		err = json.Unmarshal(text, &all)
	} else {
		err = yaml.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	list, ok := all.([]any)
	if !ok {
		list = []any{all} // as /v1/config shows one entry
	}
	entries := make([]json.RawMessage, len(list))
	for i, entry := range list {
		if entries[i], err = json.Marshal(entry); err != nil {
			return nil, fmt.Errorf("%s: element %d: %w", file, i+1, err)
		}
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: it has no entries", file)
	}
	if err := (condition.WhatIf{With: entries}).Check(); err != nil {
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "with: "))
	}
	return entries, nil
}

// whatIfOptions are the flags of inspect about a what-if.
type whatIfOptions struct {
	supposeFlags
	api   apiFlags
	store string
}

func (w *whatIfOptions) register(f *flag.FlagSet) {
	w.supposeFlags.register(f)
	w.api.register(f)
	address := f.Lookup("http-addr")
	address.DefValue, address.Usage = "", "The `address` of the HTTP API of an instance that plans changed task files. With -without or -with: of the instance, or of the deployment in AWS, that answers; then also "+addressVariable+", if no task files are named."
	storeURLFlag(f, &w.store)
}

// elsewhere reports whether an instance or a deployment answers.
func (w *whatIfOptions) elsewhere() bool { return w.api.named(w.api.given()) }

// named reports whether a flag names an instance.
func (w *whatIfOptions) named() bool {
	given := w.api.given()
	return given["http-addr"] || given["port"]
}

// check refuses flags that do not go together. The exit code is -1 if all is well.
func (w *whatIfOptions) check(a *app) int {
	given := w.api.given()
	switch {
	case !w.asked() && (given["stack"] || given["store"]):
		return a.fail(exitFlags, errors.New("-stack and -store go with -without or -with; to plan task files for a deployment in AWS, use terrapulse bundle diff -plan"))
	case w.asked() && (given["http-addr"] || given["port"] || given["stack"]) && (given["config-file"] || given["config-dir"] || given["store"]):
		return a.fail(exitFlags, errors.New("name either task files, or who answers: -http-addr, -port or -stack"))
	}
	return -1
}

// printWhatIf answers a what-if without an instance.
func (a *app) printWhatIf(cfg *config.Config, log *slog.Logger, o *startOptions, w *whatIfOptions, shown *progress) int {
	began := time.Now()
	planner, tasks, stop, code := a.planner(cfg, log, o, shown)
	defer stop()
	if code >= 0 {
		return code
	}
	store, code := a.storeIfThere(cfg, w.store)
	if code >= 0 {
		return code
	}
	asking := instance.WhatIf{Planner: planner, Planning: func(n int) { shown.set(log, "being planned", n) }}
	if store == nil {
		fmt.Fprintln(a.stderr, "There is no store: what would be gone is compared with what Consul shows now.")
	} else {
		defer store.Close()
		asking.Store = store
	}
	answer, err := asking.Ask(a.ctx, tasks, w.what)
	shown.clear()
	if err != nil {
		return a.fail(exitError, err)
	}
	return a.showWhatIf(answer, o.inspect.exitCode, time.Since(began))
}

// storeIfThere opens the store for reading; it is nil if there is none.
func (a *app) storeIfThere(cfg *config.Config, url string) (*stores.Store, int) {
	place, err := stores.Of(a.ctx, cfg)
	if url != "" {
		place, err = stores.At(a.ctx, url)
	}
	if err != nil {
		return nil, a.fail(exitFlags, err)
	}
	if url == "" && place.File != "" {
		if _, err := os.Stat(place.File); errors.Is(err, os.ErrNotExist) {
			return nil, -1
		}
	}
	store, err := place.Read(a.ctx)
	return store, a.fail(exitError, err)
}

// askWhatIf has an instance or a deployment answer a what-if.
func (a *app) askWhatIf(w *whatIfOptions, o *startOptions) int {
	began := time.Now()
	client, code := a.apiClient(&w.api)
	if code >= 0 {
		return code
	}
	answer, err := client.AskWhatIf(a.ctx, requestOf(w.what, o.inspect.tasks))
	if err == nil && !answer.Ended {
		fmt.Fprintf(a.stderr, "Planning %s.\n", tasksOf(len(answer.Results)))
		answer, err = client.AwaitWhatIf(a.ctx, apispec.Deref(answer.ID), func(apispec.WhatIf) {})
	}
	if err != nil {
		return a.problem("unable to answer the what-if", err)
	}
	for i := range answer.Results {
		if r := &answer.Results[i]; r.Run != nil && r.State == apispec.WhatIfResultStatePlanned {
			text, err := client.PlanText(a.ctx, r.Task, *r.Run)
			if err != nil {
				return a.problem("unable to read the plan of '"+r.Task+"'", err)
			}
			r.Plan = &text
		}
	}
	return a.showWhatIf(answer, o.inspect.exitCode, time.Since(began))
}

// requestOf is a what-if as the API takes it.
func requestOf(what condition.WhatIf, tasks []string) apispec.WhatIfRequest {
	var request apispec.WhatIfRequest
	text, err := json.Marshal(what)
	if err == nil {
		err = json.Unmarshal(text, &request)
	}
	if err != nil {
		panic(err) // it is a value that was parsed
	}
	if len(tasks) > 0 {
		request.Tasks = &tasks
	}
	return request
}

// showWhatIf prints what would happen, and returns the exit code.
func (a *app) showWhatIf(w apispec.WhatIf, detailed bool, took time.Duration) int {
	code := exitOK
	for _, r := range w.Results {
		switch {
		case r.Verdict == nil, r.Verdict.Outcome == apispec.WouldBeFailed:
			code = exitError
		case detailed && code == exitOK && r.Verdict.Outcome != apispec.WouldBeUnchanged:
			code = exitChanges
		}
	}
	unmatched := apispec.Deref(w.Unmatched)
	for _, text := range unmatched {
		fmt.Fprintf(a.stderr, "Warning: %s\n", text)
	}
	nothing := len(unmatched) > 0 && len(w.Results) == 0
	if nothing {
		code = exitError
	}
	if a.json {
		return cmp.Or(a.printJSON(map[string]any{"what_if": w}), code)
	}
	for _, r := range w.Results {
		if plan := strings.TrimSpace(apispec.Deref(r.Plan)); plan != "" {
			fmt.Fprintf(a.stdout, "### Task %s\n%s\n\n", r.Task, plan)
		}
	}
	a.tableOf(w)
	fmt.Fprintf(a.stdout, "What if, %s: %s (%s)\n", w.Supposed, apiview.WhatIfSummary(w), rounded(took))
	if nothing {
		return a.fail(exitError, errors.New("nothing of it concerns a task: check the names"))
	}
	return code
}

// tableOf prints a line for each task that is concerned, with what it would lose.
func (a *app) tableOf(w apispec.WhatIf) {
	var t table
	for _, r := range w.Results {
		n, text := good, ""
		switch {
		case r.Verdict != nil:
			text = r.Verdict.Text
		default:
			text = "cannot be planned: " + apispec.Deref(r.Error)
		}
		if r.Verdict == nil || r.Verdict.Outcome == apispec.WouldBeFailed || r.Verdict.Outcome == apispec.WouldBeHeld {
			n = bad
		}
		t.row(n, r.Task, text)
		for _, lost := range apiview.Lost(r) {
			t.row(n, "", lost)
		}
	}
	if len(w.Results) > 0 {
		t.print(a.stdout)
		fmt.Fprintln(a.stdout)
	}
}
