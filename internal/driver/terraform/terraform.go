// Package terraform is the driver that runs Terraform or OpenTofu on this machine.
package terraform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/consul/dynamic"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/module"
	"github.com/terrapulse/terrapulse/internal/driver/panos"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/driver/tfplan"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Options say how Terraform is run. A driver that only checks tasks needs none.
type Options struct {
	Terraform *terraformcli.Binary
	// Values evaluates the templates in provider blocks. Nil for a new evaluator
	// without AWS.
	Values *dynamic.Evaluator
	// Orphaned returns why the holder of a lock of the task's state is certainly
	// dead, so that the lock is released; "" if that is not certain. May be nil.
	Orphaned func(ctx context.Context, task string, lock *terraformcli.LockError) (why string)
	// Unlocked makes Plan take no lock of the task's state.
	Unlocked bool
	// Keep stores a state that the backend did not accept, and returns where. It
	// is for machines whose disk is lost when the run ends. May be nil.
	Keep func(ctx context.Context, task, name string, state []byte) (place string, err error)
	// Assume assumes the AWS role of a task for a run of this kind. It returns environment
	// variables with which Terraform works with the role, until end is called; one with an empty
	// value must not be set.
	Assume func(ctx context.Context, kind state.Kind, role, task string) (env map[string]string, end func(), err error)
	// ReadS3 reads states in S3 where Terraform has the credentials of this process. May be nil.
	ReadS3   func(ctx context.Context, object terraformcli.S3Object) ([]byte, error)
	Log      *slog.Logger // nil for none
	Parallel int          // the most runs at a time; 1 if zero
	// Shared has providers that tasks share. Nil to share none.
	Shared *terraformcli.Shared
}

// Driver runs Terraform in the directories of tasks.
type Driver struct{ Options }

// New returns a driver.
func New(o Options) *Driver { return &Driver{o} }

// Check implements driver.Driver. It returns everything that Terraform would refuse.
// A run (see prepare) only checks what Terraform would not explain.
func (d *Driver) Check(cfg *config.Config, t *config.Task) config.Errors {
	var all config.Errors
	add := func(err error) {
		if err != nil {
			all = append(all, config.Diagnostic{Position: t.Source, Problem: err.Error()})
		}
	}
	all = append(all, rootmodule.Check(cfg, t)...)
	all = append(all, module.Findings(t, rootmodule.InputTypes(t, module.VariableTypes(t, t.WorkingDir)))...)
	add(dynamic.Check(cfg, t))
	add(terraformcli.CheckEnv(t.Name, rootmodule.Env(t, cfg)))
	return all
}

// Apply implements driver.Driver.
func (d *Driver) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return d.change(ctx, job, false)
}

// Destroy implements driver.Driver. If the folder of the module is gone, everything in
// the state is destroyed without the module.
func (d *Driver) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	if t := *job.Task; t.LocalModule() {
		if _, err := os.Stat(t.Module); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(job.Output, "There is no folder %s: everything in the state of task %s is destroyed without the module. Its prevent_destroy and its destroy-time provisioners have no effect.\n", t.Module, t.Name)
			t.Module, t.Version = "", ""
			job.Task = &t
		}
	}
	return d.change(ctx, job, true)
}

// change writes the root module, initialises its directory if needed, applies or destroys in it, and
// commits to PAN-OS if a provider has auto_commit.
func (d *Driver) change(ctx context.Context, job driver.Job, destroy bool) (done driver.Outcome, err error) {
	t := job.Task
	values, opts, end, err := d.prepare(ctx, job)
	if err != nil {
		return done, err
	}
	defer end()
	commits, err := committers(values, t)
	if err != nil {
		return done, err
	}
	if err := d.write(t.WorkingDir, job); err != nil {
		return done, err
	}
	opts.Planned = job.Notes.Planned
	dir, err := d.Terraform.Open(t.WorkingDir, opts)
	if err != nil {
		return done, err
	}
	done.Changes, err = d.changeIn(ctx, dir, job, destroy, len(commits) > 0)
	done.Made, done.Unsaved = dir.Made(), terraformcli.Unsaved(err)
	if err != nil {
		return done, err
	}
	if !destroy {
		found, err := dir.Checks(ctx, job.ChecksRequired)
		done.Checks = &driver.Checks{Failing: found.Failing, Unknown: found.Unknown, Err: err}
	}
	for _, c := range commits {
		// Also if nothing changed: the previous run may have failed to commit.
		if err := c.Commit(ctx, job.Output); err != nil {
			return done, err
		}
	}
	return done, nil
}

// changeIn applies or destroys in the task's directory. The plan is judged if it must be, or if the state there
// may be an older one.
func (d *Driver) changeIn(ctx context.Context, dir *terraformcli.Dir, job driver.Job, destroy, commits bool) (*state.Changes, error) {
	ran, err := dir.Init(ctx)
	if err != nil {
		return nil, err
	}
	var formers []terraformcli.Former
	if m := job.Run.Moves; m != nil {
		if formers, err = formersOf(job, m); err != nil {
			return nil, err
		}
	}
	kept, err := keptElsewhere(ctx, job, dir, formers)
	if err != nil {
		return nil, err
	}
	if m := job.Run.Moves; m != nil {
		if err := dir.TakeAlong(ctx, m.Expected, formers...); err != nil {
			return nil, err
		}
	}
	if job.Run.Unsaved != nil && kept == "" {
		if err := dir.SaveUnsaved(ctx); err != nil {
			return nil, err
		}
		job.Notes.Saved()
	}
	former, err := formerWorkspace(ctx, job, dir)
	if err != nil {
		return nil, err
	}
	if ran { // init may have installed a module that declares other types
		if err := d.write(job.Task.WorkingDir, job); err != nil {
			return nil, err
		}
	}
	direct, judged := dir.Apply, dir.ApplyJudged
	if destroy {
		direct, judged = dir.Destroy, dir.DestroyJudged
	}
	if job.Judge == nil || job.OnlyIfOlder && kept+former == "" {
		changes, err := direct(ctx)
		if job.Judge == nil || !errors.Is(err, terraformcli.ErrNoState) {
			return changes, err
		}
	}
	return judged(ctx, func(ctx context.Context, found terraformcli.Plan, mark terraformcli.StateMark) error {
		plan, err := judgeable(job.Task.Name, found, mark)
		if err != nil {
			return err
		}
		plan.Commits = commits
		if plan.Changes.Add == 0 && !plan.Changes.Uncounted && !plan.Changes.Unknown {
			former = "" // whatever the former workspace has, the plan does not make it again
		}
		for _, why := range []string{former, lost(job, mark), kept} {
			if why != "" {
				plan.Causes = append(plan.Causes, state.Cause{Rule: state.RuleApproval, Text: why})
			}
		}
		return job.Judge(ctx, plan)
	})
}

// formerWorkspace returns why the state may be an older one: the task was applied in HCP Terraform
// before its driver changed; "" if it was not. A task without a state is refused: an apply would
// create everything again, and a destroy would destroy nothing.
func formerWorkspace(ctx context.Context, job driver.Job, dir *terraformcli.Dir) (string, error) {
	if !job.Run.FromRemote {
		return "", nil
	}
	before, err := job.Remote.Read(ctx)
	if err != nil || !before.Applied {
		return "", err
	}
	n, err := dir.Managed(ctx)
	if err != nil {
		return "", fmt.Errorf("read the state of task %s, which was applied in HCP Terraform: %w", job.Task.Name, err)
	}
	if n > 0 {
		return fmt.Sprintf("the task comes from the workspace %s in HCP Terraform: "+
			"if the state here is older than the one there, the plan creates again what already exists", before.Name), nil
	}
	return "", fmt.Errorf("task %s was applied in HCP Terraform, in the workspace %s, and the backend does not have its state: Terraform would create everything again. "+
		"Move the state here, as %s shows, or destroy the task's infrastructure with the driver terraform-cloud", job.Task.Name, before.Name, docs.Page("hcp.md"))
}

// keptElsewhere returns why the backend's state is an older one: the backend did not take the latest
// one, and this machine does not have it; "" if it has, or if the backend has it by now. If an instance
// of a cluster keeps it, only a run that a person has requested begins without it.
func keptElsewhere(ctx context.Context, job driver.Job, dir *terraformcli.Dir, formers []terraformcli.Former) (string, error) {
	u := job.Run.Unsaved
	if u == nil || dir.KeepsUnsaved(formers...) {
		return "", nil
	}
	if there, err := dir.Holds(ctx, u.State); err != nil || there {
		return "", err
	}
	if u.Instance && !job.Run.ForPerson() || job.Judge == nil {
		return "", fmt.Errorf("nothing was applied, because what that run made would be made again, or would stay: %s. %s", u, u.Help(job.Task.Name, job.Run.Kind == state.KindDestroy))
	}
	fmt.Fprintf(job.Output, "\nWarning: this run begins with an older state. %s.\n", u)
	return fmt.Sprintf("%s, so that the plan may make again what that run made", u), nil
}

// hasState reports whether a task should have a state.
func hasState(job driver.Job) bool { return job.Run.Had > 0 || job.BackendChanged }

// lost returns why what the task has may be made again, or stay: the backend does not have the state that
// the task should have. It was left in another backend, or is gone, such as with a Consul that was replaced.
// Where the task's directory is still there, a state is moved to another backend before; a container, or
// another instance, has no such directory.
func lost(job driver.Job, mark terraformcli.StateMark) string {
	switch {
	case !mark.None() || !hasState(job):
		return ""
	case job.BackendChanged:
		return "the backend has changed, and the new one has no state of the task: the plan makes again what already exists, and destroys nothing of it. " +
			"Copy the state there, as " + docs.Page("operate.md") + " shows, or configure the former backend again"
	}
	return fmt.Sprintf("the state of the task is lost: it had %d %s after the latest run, and the backend has no state of the task any more. "+
		"The plan makes again what already exists, and destroys nothing of it. Restore the state from a backup, and run the task again", job.Run.Had, state.Plural(job.Run.Had, "resource"))
}

// formersOf returns where the state of a task was under its former names.
func formersOf(job driver.Job, m *state.Move) ([]terraformcli.Former, error) {
	formers := make([]terraformcli.Former, len(m.From))
	for i, name := range m.From {
		before := *job.Task
		before.Name = name
		backend, err := rootmodule.Backend(job.Config, &before)
		if err != nil {
			return nil, err
		}
		formers[i] = terraformcli.Former{Task: name, Backend: backend, Dirs: []string{filepath.Join(job.Config.WorkingDir, name), job.Task.WorkingDir}}
	}
	return formers, nil
}

// Plan implements driver.Driver. It works in a directory of its own, which it
// removes.
func (d *Driver) Plan(ctx context.Context, job driver.Job) (driver.Plan, error) {
	t := job.Task
	_, opts, end, err := d.prepare(ctx, job)
	if err != nil {
		return driver.Plan{}, err
	}
	defer end()
	opts.Unlocked = d.Unlocked || job.Run.Kind == state.KindDrift || job.Run.WhatIf != nil // they delay no run
	found, err := d.Terraform.Inspect(ctx, t.WorkingDir, func(dir string) error { return d.write(dir, job) }, opts)
	if err != nil {
		return driver.Plan{}, err
	}
	return planned(t.Name, found)
}

// judgeable returns Terraform's plan of a task, which was made for this state, for a
// judge.
func judgeable(task string, found terraformcli.Plan, state terraformcli.StateMark) (driver.Plan, error) {
	plan, err := planned(task, found)
	if err != nil {
		return driver.Plan{}, err
	}
	if !state.None() {
		plan.State = fmt.Sprintf("%s/%d", state.Lineage, state.Serial)
	}
	plan.Print = found.Print
	if found.JSON == nil && found.Show != nil {
		plan.Detail = func(ctx context.Context) (driver.Plan, error) {
			if found.JSON, err = found.Show(ctx); err != nil {
				return driver.Plan{}, err
			}
			return judgeable(task, found, state)
		}
	}
	return plan, nil
}

// planned returns Terraform's plan of a task without secrets.
func planned(task string, found terraformcli.Plan) (driver.Plan, error) {
	plan := driver.Plan{Changes: &found.Summary}
	if found.JSON != nil {
		var err error
		if plan, err = tfplan.Of(found.JSON, found.Clean); err != nil {
			return driver.Plan{}, fmt.Errorf("plan of task %s: %w", task, err)
		}
		plan.JSON = func(context.Context) (json.RawMessage, error) { return tfplan.Document(found.JSON) }
	}
	plan.Clean = found.Clean
	plan.Changes.Uncounted = found.Changes && !plan.Changes.Any()
	plan.Changes.Unknown = plan.Changes.Unknown && found.Changes
	plan.New, plan.Text = found.New, found.Text
	return plan, nil
}

// write writes the root module.
func (d *Driver) write(dir string, job driver.Job) error {
	_, err := rootmodule.Module{Config: job.Config, Task: job.Task, Blocks: job.Snapshot.Blocks, Terraform: d.Terraform.Version,
		Types: module.VariableTypes(job.Task, dir), Changes: job.Changes}.Write(dir)
	return err
}

// committers returns a committer for each of the task's providers that has
// auto_commit.
func committers(values dynamic.Values, t *config.Task) ([]*panos.Committer, error) {
	var commits []*panos.Committer
	for _, id := range t.Providers {
		p, _ := values.Config.Provider(id)
		c, err := panos.New(p, t.WorkingDir, func(text string) string { return redact.Text(text, values.Secrets) })
		if err != nil {
			return nil, err
		}
		if c != nil {
			commits = append(commits, c)
		}
	}
	return commits, nil
}

// prepare checks the task, evaluates the templates of its providers, assumes its role, and
// returns the options of Terraform. They are valid until end is called.
func (d *Driver) prepare(ctx context.Context, job driver.Job) (values dynamic.Values, opts terraformcli.Options, end func(), err error) {
	end = func() {}
	cfg, t := job.Config, job.Task
	backend, err := rootmodule.Backend(cfg, t)
	if err != nil {
		return values, opts, end, err
	}
	if err := module.Check(t, rootmodule.Inputs(t)); err != nil {
		return values, opts, end, err
	}
	if err := terraformcli.CheckEnv(t.Name, rootmodule.Env(t, cfg)); err != nil {
		return values, opts, end, err
	}
	values, err = cmp.Or(d.Values, &dynamic.Evaluator{Context: ctx}).Evaluate(ctx, cfg, t)
	if err != nil {
		return values, opts, end, err
	}
	variables, err := rootmodule.SecretValues(t, values.Config, values.Variables)
	if err != nil {
		return values, opts, end, fmt.Errorf("values of task %s: %w", t.Name, err)
	}
	opts = terraformcli.Options{
		Task: t.Name, WithoutModule: t.Module == "", Backend: backend, Consul: cfg.Consul, Env: rootmodule.Env(t, values.Config), VarJSON: variables, Trace: job.Trace,
		Secrets: slices.Concat(values.Secrets, []string{cfg.Vault.Token}, module.SensitiveValues(t)),
		Log:     job.Output, PersistLog: cfg.Terraform.PersistLog, Logger: d.Log, Parallel: d.Parallel, Shared: d.Shared,
		HasState: hasState(job), ChecksRequired: job.ChecksRequired, Keep: d.Keep, Orphaned: d.Orphaned, ReadS3: d.ReadS3,
	}
	for _, id := range t.Providers {
		name, _, _ := strings.Cut(id, ".")
		opts.Providers = append(opts.Providers, name)
	}
	if t.AWSRole != "" {
		if opts.Credentials, end, err = d.Assume(ctx, job.Run.Kind, t.AWSRole, t.Name); err != nil {
			return values, opts, func() {}, err
		}
	}
	return values, opts, end, nil
}
