package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/preview"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// inspectedTask is what is known of a task of the files that was planned.
type inspectedTask struct {
	Task    string           `json:"task"`
	New     bool             `json:"new,omitempty"` // the instance has no such task
	Changes *apispec.Changes `json:"changes,omitempty"`
	Verdict *apispec.Verdict `json:"verdict,omitempty"`
	Plan    string           `json:"plan,omitempty"`
	Error   string           `json:"error,omitempty"`
	Some    bool             `json:"changes_present"`
}

// reported is a plan that was made here.
func reported(r preview.Result) inspectedTask {
	t := inspectedTask{Task: r.Task.Name}
	switch {
	case r.Err != nil:
		t.Error = r.Err.Error()
	case !r.Task.Enabled:
		t.Verdict = &apispec.Verdict{Text: "disabled: it was not planned"}
	default:
		t.Plan, t.Changes, t.Some = strings.TrimSpace(r.Plan.Text), apiview.Changes(r.Plan.Changes), r.Plan.Changes.Any()
	}
	return t
}

// inspectChanged has an instance plan the tasks of files whose definitions differ from its own.
func (a *app) inspectChanged(o *startOptions, w *whatIfOptions, markdown bool) int {
	began := time.Now()
	if code := o.config.required(a); code >= 0 {
		return code
	}
	cfg, err := config.Load(config.Options{Paths: o.config.paths, Getenv: func(string) string { return "" }, Hostname: "localhost", ForServer: true, Several: true})
	if code := a.invalid(err); code >= 0 {
		return code
	}
	for _, name := range o.inspect.tasks {
		if _, ok := cfg.Task(name); !ok {
			return a.fail(exitConfig, unknownTask(cfg, name))
		}
	}
	client, err := w.api.client()
	if err != nil {
		return a.problem("cannot speak to the API", err)
	}
	there, err := client.Tasks(a.ctx)
	if err != nil {
		return a.problem("unable to read the tasks of the instance", err)
	}
	changed, gone := compared(cfg, there, o.inspect.tasks)
	var planned []inspectedTask
	code := exitOK
	for _, t := range changed {
		p := a.planAt(a.ctx, client, t)
		p.New = !slices.ContainsFunc(there, func(is apispec.Task) bool { return is.Name == t.Name })
		planned = append(planned, p)
		switch {
		case p.Error != "":
			code = exitError
		case o.inspect.exitCode && code == exitOK && p.Some:
			code = exitChanges
		}
	}
	switch {
	case a.json:
		return cmp.Or(a.printJSON(map[string]any{"tasks": slices.Concat([]inspectedTask{}, planned), "not_in_files": slices.Concat([]string{}, gone)}), code)
	case markdown:
		fmt.Fprint(a.stdout, asMarkdown(planned, len(cfg.Tasks), gone))
	default:
		a.printInspected(planned, len(cfg.Tasks), gone, time.Since(began))
	}
	return code
}

// compared returns the tasks of the files that the instance does not have so, and the names of those
// that only the instance has.
func compared(cfg *config.Config, there []apispec.Task, named []string) (changed []apispec.Task, gone []string) {
	known := map[string]apispec.Task{}
	for _, t := range there {
		known[t.Name] = t
	}
	for i := range cfg.Tasks {
		t := &cfg.Tasks[i]
		is, ok := known[t.Name]
		delete(known, t.Name)
		if len(named) > 0 && !slices.Contains(named, t.Name) {
			continue
		}
		if shown := apiview.Task(t); !ok || !reflect.DeepEqual(shown, is) {
			changed = append(changed, asRequest(t))
		}
	}
	for _, t := range there {
		if _, left := known[t.Name]; left {
			gone = append(gone, t.Name)
		}
	}
	return changed, gone
}

// planAt has the instance plan a task.
func (a *app) planAt(ctx context.Context, client *apiclient.Client, t apispec.Task) inspectedTask {
	got, err := client.InspectReplacing(ctx, t)
	if err != nil {
		return inspectedTask{Task: t.Name, Error: err.Error()}
	}
	return inspectedTask{Task: t.Name, Changes: got.Changes, Verdict: got.Verdict, Plan: strings.TrimSpace(got.Plan), Some: got.ChangesPresent}
}

func (a *app) printInspected(planned []inspectedTask, of int, gone []string, took time.Duration) {
	for _, p := range planned {
		fmt.Fprintf(a.stdout, "### Task %s\n", p.Task)
		if p.Error != "" {
			a.fail(exitError, errors.New(p.Error))
			continue
		}
		fmt.Fprintf(a.stdout, "%s\n", p.Plan)
		if p.Verdict != nil {
			fmt.Fprintf(a.stdout, "\n%s: %s\n", p.Task, p.Verdict.Text)
		}
		fmt.Fprintln(a.stdout)
	}
	if len(gone) > 0 {
		fmt.Fprintf(a.stdout, "Not in these files: %s\n", state.Some(gone, "and"))
	}
	fmt.Fprintf(a.stdout, "%d of %s differ from the instance (%s)\n", len(planned), tasksOf(of), rounded(took))
}
