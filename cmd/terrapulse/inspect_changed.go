package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
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
	base    *changedFiles  // nil if the files before the change are not known
}

// changedFiles is what differs between the files before a change and after it, beside what the instance plans.
type changedFiles struct {
	settings []string // rules, rights and settings, also of tasks
	code     []string // tasks of which the code of the local module differs
	unread   []string // tasks whose local module cannot be read
}

// changedSince compares files with those before a change.
func changedSince(was, is *config.Config) *changedFiles {
	c := &changedFiles{settings: config.SettingChanges(was, is)}
	for i := range is.Tasks {
		t := &is.Tasks[i]
		old, ok := was.Task(t.Name)
		if !ok {
			continue
		}
		if differ := config.Differences(was, old, is, t); len(differ) > 0 {
			c.settings = append(c.settings, fmt.Sprintf("task %s: %s", t.Name, strings.Join(differ, ", ")))
		}
		if !t.LocalModule() || !old.LocalModule() {
			continue
		}
		before, err := bundle.ModuleOf(was, old)
		after, failed := bundle.ModuleOf(is, t)
		switch {
		case errors.Join(err, failed) != nil:
			c.unread = append(c.unread, t.Name)
		case !reflect.DeepEqual(before.Files, after.Files):
			c.code = append(c.code, t.Name)
		}
	}
	return c
}

// remarks says what plans do not show of a change.
func (c comparison) remarks() (lines []string) {
	if c.base == nil {
		return []string{"Not compared: the code of local modules, and settings beside the tasks. -base names a folder with the files before the change."}
	}
	if len(c.base.code) > 0 {
		lines = append(lines, "The code of a local module differs, and the instance plans with its own copy, so no plan shows this change: "+strings.Join(c.base.code, ", "))
	}
	if len(c.base.unread) > 0 {
		lines = append(lines, "The code of a local module cannot be read, so it is not compared: "+strings.Join(c.base.unread, ", "))
	}
	for _, s := range c.base.settings {
		lines = append(lines, "Changed: "+s)
	}
	return lines
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

// below returns paths relative to the current folder, so that they name files in another one, too.
func below(paths []config.Path) ([]config.Path, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	paths = slices.Clone(paths)
	for i, p := range paths {
		name := p.Name
		if filepath.IsAbs(name) {
			if name, err = filepath.Rel(here, name); err != nil {
				return nil, err
			}
		}
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("-base needs task files below the current folder: %s is not", p.Name)
		}
		paths[i].Name = name
	}
	return paths, nil
}

// filesOnly reads task files without the environment of this machine. Relative paths in them are relative to dir;
// "" is the current folder.
func filesOnly(paths []config.Path, dir string) (*config.Config, error) {
	return config.Load(config.Options{Paths: paths, Dir: dir, Getenv: func(string) string { return "" }, Hostname: "localhost", ForServer: true, Several: true})
}

// inspectChanged has an instance plan the tasks of files whose definitions differ from its own.
func (a *app) inspectChanged(o *startOptions, base string, w *whatIfOptions, markdown bool) int {
	began := time.Now()
	if code := o.config.required(a); code >= 0 {
		return code
	}
	cfg, err := filesOnly(o.config.paths, "")
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
	if base != "" {
		paths, err := below(o.config.paths)
		if err != nil {
			return a.fail(exitFlags, err)
		}
		was, err := filesOnly(paths, base)
		if code := a.invalid(err); code >= 0 {
			return code
		}
		c.base = changedSince(was, cfg)
	}
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
		return cmp.Or(a.printJSON(map[string]any{"tasks": slices.Concat([]inspectedTask{}, planned), "not_in_files": slices.Concat([]string{}, c.gone), "left_out": c.hidden,
			"remarks": c.remarks()}), code)
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
	for _, line := range c.remarks() {
		fmt.Fprintln(a.stdout, line)
	}
	fmt.Fprintf(a.stdout, "%d of %s differ from the instance (%s)\n", len(planned), tasksOf(c.tasks), rounded(took))
}

// leftOut says how many tasks were not compared.
func (c comparison) leftOut() string {
	return fmt.Sprintf("Left out: %s of these files, because %s may not view them at the instance", tasksOf(c.hidden), cmp.Or(c.sender.Name, "this user"))
}
