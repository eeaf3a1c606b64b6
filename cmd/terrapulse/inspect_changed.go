package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/driver/preview"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
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
	Refused bool             `json:"refused,omitempty"` // Error says which role is missing
	Some    bool             `json:"changes_present"`
}

// comparison is what the task files of the user have and an instance does not have so, as far as the user
// may know.
type comparison struct {
	tasks   int            // of the files
	changed []apispec.Task // also new ones
	gone    []string       // that only the instance has
	hidden  int            // tasks of the files that the user may not view there
	sender  access.Caller  // who the user is to the instance
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
	who, err := client.Version(a.ctx)
	if err != nil {
		return a.problem("unable to find out what you may view", err)
	}
	there, err := client.Tasks(a.ctx)
	if err != nil {
		return a.problem("unable to read the tasks of the instance", err)
	}
	c := compared(cfg, there, o.inspect.tasks, apiview.Rights(who))
	c.sender.Name, c.sender.Proof = apispec.Deref(who.Sender), identity.Proof(apispec.Deref(who.Proof))
	var planned []inspectedTask
	code := exitOK
	for _, t := range c.changed {
		p := a.planAt(a.ctx, client, t, c.sender)
		p.New = c.sender.Rights.May(roles.View, t.Name) && !slices.ContainsFunc(there, func(is apispec.Task) bool { return is.Name == t.Name })
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
		return cmp.Or(a.printJSON(map[string]any{"tasks": slices.Concat([]inspectedTask{}, planned), "not_in_files": slices.Concat([]string{}, c.gone), "left_out": c.hidden}), code)
	case markdown:
		fmt.Fprint(a.stdout, asMarkdown(planned, c))
	default:
		a.printInspected(planned, c, time.Since(began))
	}
	return code
}

// compared compares the tasks of the files with those that the instance shows to somebody with these rights.
// A task that they may not view is left out, unless it is named: it is not known whether it differs.
func compared(cfg *config.Config, there []apispec.Task, named []string, rights roles.Rights) comparison {
	c, known := comparison{tasks: len(cfg.Tasks), sender: access.Caller{Rights: rights}}, map[string]apispec.Task{}
	for _, t := range there {
		known[t.Name] = t
	}
	for i := range cfg.Tasks {
		t := &cfg.Tasks[i]
		is, ok := known[t.Name]
		delete(known, t.Name)
		switch {
		case len(named) > 0 && !slices.Contains(named, t.Name):
		case len(named) == 0 && !rights.May(roles.View, t.Name):
			c.hidden++
		case !ok || !reflect.DeepEqual(apiview.Task(t), is) && !reflect.DeepEqual(masked(t, is), is):
			c.changed = append(c.changed, asRequest(t))
		}
	}
	for _, t := range there {
		if _, left := known[t.Name]; left {
			c.gone = append(c.gone, t.Name)
		}
	}
	return c
}

// masked is a task of the files as the instance shows it to somebody who may not see secrets. The instance says
// which variables are secret.
func masked(t *config.Task, there apispec.Task) apispec.Task {
	public := apiview.PublicTask(t)
	for name, value := range apispec.Deref(apiview.Task(t).Variables) {
		if there.Variables == nil || (*there.Variables)[name] != (*public.Variables)[name] {
			(*public.Variables)[name] = value
		}
	}
	return public
}

// planAt has the instance plan a task, unless the user lacks the role for that.
func (a *app) planAt(ctx context.Context, client *apiclient.Client, t apispec.Task, sender access.Caller) inspectedTask {
	if err := sender.Need(roles.Administer, t.Name); err != nil && sender.Proven() { // the instance would not name the role
		return inspectedTask{Task: t.Name, Error: err.Error(), Refused: true}
	}
	got, err := client.InspectReplacing(ctx, t)
	if refused, ok := errors.AsType[*apiclient.Error](err); ok && refused.Status == http.StatusForbidden {
		return inspectedTask{Task: t.Name, Error: refused.Message, Refused: true}
	}
	if err != nil {
		return inspectedTask{Task: t.Name, Error: err.Error()}
	}
	return inspectedTask{Task: t.Name, Changes: got.Changes, Verdict: got.Verdict, Plan: strings.TrimSpace(got.Plan), Some: got.ChangesPresent}
}

func (a *app) printInspected(planned []inspectedTask, c comparison, took time.Duration) {
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
	if len(c.gone) > 0 {
		fmt.Fprintf(a.stdout, "Not in these files: %s\n", state.Some(c.gone, "and"))
	}
	if c.hidden > 0 {
		fmt.Fprintln(a.stdout, c.leftOut())
	}
	fmt.Fprintf(a.stdout, "%d of %s differ from the instance (%s)\n", len(planned), tasksOf(c.tasks), rounded(took))
}

// leftOut says how many tasks were not compared.
func (c comparison) leftOut() string {
	return fmt.Sprintf("Left out: %s of these files, because %s may not view them at the instance", tasksOf(c.hidden), cmp.Or(c.sender.Name, "this user"))
}
