// Package overview is the read model: it reads the store and says in which phase
// each task is, and why. The command line, the HTTP API, the health check and the
// metrics show what this package finds, and work out nothing themselves.
package overview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// readsAtOnce is how many runs are read from the store at a time.
const readsAtOnce = 16

// Reader reads what is known of tasks, as the API shows it.
type Reader struct {
	Store state.Store
	// Began is when the process of the caller began to tick, or to stand by for
	// that; zero if other processes do so.
	Began time.Time
	Now   func() time.Time

	// For people, if they are set:
	Where   apispec.Store // where Store is
	Version string        // of this program
	// Instance is the one that answers; nil if none does.
	Instance *apispec.Instance

	// Links returns the pages of the AWS console about a run, and Console are those about
	// the deployment; nil if there are none.
	Links   func(state.Run) *apispec.RunLinks
	Console *apispec.ConsoleLinks

	// Gates returns what this process has seen of the gates, which may be newer than the
	// record; may be nil.
	Gates func() map[string]state.Gate

	// Known is what this process keeps of the store between reads; nil if it reads only once.
	Known *Known
	Log   *slog.Logger // may be nil
}

// Read reads everything. If the configuration is not known, the tasks are those that the
// store knows. A record that cannot be decoded concerns its task alone.
func (r Reader) Read(ctx context.Context, effective *overlay.Effective) (apispec.Overview, error) {
	l, err := r.ListAll(ctx, effective)
	if err != nil {
		return apispec.Overview{}, err
	}
	o := l.common
	o.Digest, o.Tasks = nil, slices.Clone(l.tasks)
	return o, l.complete(ctx, false, o.Tasks)
}

// Recorded is Read for a process that does not know the configuration.
func (r Reader) Recorded(ctx context.Context) (apispec.Overview, error) {
	effective, err := overlay.Unconfigured(ctx, r.Store, errUnknown)
	if err != nil {
		return apispec.Overview{}, err
	}
	return r.Read(ctx, effective)
}

var errUnknown = errors.New("the configuration is not known here")

// unconfigured is for what does not depend on the configuration.
var unconfigured = &overlay.Effective{Unknown: errUnknown, Config: &config.Config{}}

// common reads what concerns all tasks.
func (r Reader) common(ctx context.Context, effective *overlay.Effective) (apispec.Overview, state.Reconcile, error) {
	now := r.Now()
	rec, err := state.Read[state.Reconcile](ctx, r.Store, state.ReconcileKey)
	if err != nil {
		return apispec.Overview{}, rec.Data, fmt.Errorf("read the reconcile record: %w", err)
	}
	leader, err := r.leader(ctx)
	if err != nil {
		return apispec.Overview{}, rec.Data, err
	}
	unhealthy := Unhealthy(r.Store, rec.Data, r.Began, now)
	if r.Console != nil && rec.Data.Bundle == "" && rec.Data.Refused == nil {
		unhealthy = "no bundle was pushed yet: push one with `terrapulse bundle push`"
	}
	o := apispec.Overview{
		Healthy: unhealthy == "", Unhealthy: apiview.Optional(unhealthy), LastGoodTick: apiview.Moment(rec.Data.LastSuccess),
		Problem: apiview.Optional(cmp.Or(rec.Data.ConsulError, rec.Data.Stalled, rec.Data.Unplaced)), Since: apiview.Moment(rec.Data.Since),
		Bundle: apiview.Optional(rec.Data.Bundle), Store: apiview.Optional(r.Where), Version: apiview.Optional(r.Version), Instance: r.Instance, Overrides: []apispec.Override{},
		Paused: apiview.Paused(rec.Data.Paused), Links: r.Console,
	}
	if err := state.Unwritable(r.Store); err != nil && o.Store != nil {
		o.Store.Unwritable = new(err.Error())
	}
	if was := rec.Data.Replaced; was != nil && was.Tasks > 0 {
		o.Replaced = &apispec.ReplacedConsul{Since: was.Since, Why: was.Why, Tasks: was.Tasks, Entries: was.Entries, Shown: was.Shown}
		if was.Approved != nil && was.Approved.Shown == was.Shown {
			o.Replaced.ApprovedBy = &was.Approved.By
		}
	}
	if gates := r.gates(rec.Data.Gates); len(gates) > 0 {
		o.Gates = &gates
	}
	if cfg := effective.Config; cfg.API.URL != "" {
		o.URL = new(cfg.API.URL + outbox.PagesPath)
	}
	owner := ""
	if leader != nil {
		owner = leader.Owner
		o.Leader = &apispec.Leader{Owner: leader.Owner, Fence: int64(leader.Fence), Until: leader.Expires}
	}
	if o.Instances, err = r.instances(ctx, owner); err != nil {
		return apispec.Overview{}, state.Reconcile{}, err
	}
	if refused := rec.Data.Refused; refused != nil {
		o.Refused = &apispec.Refused{Bundle: apiview.Optional(refused.Bundle), Error: refused.Error, Since: refused.Since}
	}
	for _, name := range slices.Sorted(maps.Keys(effective.Overrides)) {
		o.Overrides = append(o.Overrides, *overrideOf(effective, name))
	}
	return o, rec.Data, nil
}

// leader returns who leads; nil if nobody does.
func (r Reader) leader(ctx context.Context) (*lease.Holder, error) {
	held, err := lease.Read(ctx, r.Store, state.LeaderLease)
	if err != nil {
		return nil, fmt.Errorf("read who leads: %w", err)
	}
	if held.Owner == "" || !r.Now().Before(held.Expires) {
		return nil, nil
	}
	return &held, nil
}

// ReadTask reads what is known of one task. Definition is that of the effective
// configuration, or that of a task that is being deleted.
func (r Reader) ReadTask(ctx context.Context, effective *overlay.Effective, definition *config.Task) (apispec.TaskOverview, error) {
	e := newEntry(definition.Name)
	e.definition = definition
	_, e.configured = effective.Config.Task(e.name)
	if err := r.readRecord(ctx, &e); err != nil {
		return apispec.TaskOverview{}, err
	}
	var rec state.Reconcile
	if e.known.Reason.Code == state.ReasonPaused || e.known.LiveRemote() != nil {
		stored, err := state.ReadReconcile(ctx, r.Store)
		if err != nil {
			return apispec.TaskOverview{}, err
		}
		rec = stored.Data
	}
	f, err := r.facts(ctx, effective, &e, rec)
	t := r.show(effective, &e, f, false)
	noteOrder(&t, effective.Config.Order(), nil)
	return t, err
}

// Leaving returns the definition of a task that was deleted while a run of it was
// under way: the task is shown until that run has ended, as in
// Consul-Terraform-Sync. It returns nil for every other task.
func Leaving(e *overlay.Effective, name string, known state.Task) *config.Task {
	if known.Run == nil || e.Unknown != nil {
		return nil
	}
	if _, ok := e.Config.Task(name); ok {
		return nil
	}
	if t, ok := e.Base.Task(name); ok {
		return t
	}
	if len(known.Gone.Leaving) == 0 {
		return nil
	}
	with, _ := e.Config.With([]config.Change{{Task: name, Definition: known.Gone.Leaving}})
	t, _ := with.Task(name) // nil if a file has gained something that it clashes with
	return t
}

// facts reads the live run of a task, whose record was read.
func (r Reader) facts(ctx context.Context, effective *overlay.Effective, e *entry, rec state.Reconcile) (facts, error) {
	f := facts{lifecycle.Facts{Name: e.name, Task: *e.known, Resumed: rec.Paused == nil, Unpolled: rec.Unpolled, Setting: settingOf(effective, e),
		Corrupt: cmp.Or(effective.Corrupt[e.name], e.corrupt)}}
	if e.run != nil {
		f.Run = *e.run
	} else {
		if err := r.readRun(ctx, e.name, &f); err != nil {
			return f, err
		}
	}
	if run := f.Run; run.State == state.RunRunning && !run.Expires.IsZero() && r.Now().After(run.Expires) {
		leader, err := r.leader(ctx)
		if err != nil {
			return f, err
		}
		f.Unwatched = leader == nil
	}
	return f, nil
}

// show returns what people see of a task. In brief, that is what lists show.
func (r Reader) show(effective *overlay.Effective, e *entry, f facts, brief bool) apispec.TaskOverview {
	v := f.Assess()
	t := apispec.TaskOverview{
		Name: e.name, Phase: apispec.Phase(v.Phase), NeedsPerson: v.Person, Reason: apiview.Reason(v.Reason), Due: apiview.Moment(v.Due), Applied: apiview.Moment(f.Task.Applied.At),
		Failures: apiview.Optional(f.Task.Failing.Count), Error: apiview.Optional(v.Error), Override: overrideOf(effective, e.name),
		Enabled: v.Reason.Code != state.ReasonDisabled && v.Phase != lifecycle.Removed,
	}
	if h := f.Task.OnHold; h != nil {
		t.OnHold = &apispec.OnHold{By: h.By, At: h.At, Comment: apiview.Optional(h.Comment)}
	}
	if d := e.definition; d != nil {
		t.Enabled, t.Labels = d.Enabled, labelsOf(d)
		t.Origin = apispec.Origin{API: d.FromAPI, File: apiview.Optional(d.Source.File), Line: apiview.Optional(d.Source.Line)}
	} else {
		t.Origin.API = len(effective.Overrides[e.name].Definition) > 0
	}
	since, entries := f.unapplied()
	t.Changed, t.ChangedSince = apiview.Optional(entries.String()), apiview.Moment(since)
	if f.Run.ID != "" {
		t.Run = r.run(f.Run)
	}
	if last := f.Task.Ended.Last; last != nil {
		t.LastRun = r.run(state.Run{ID: last.Run, Task: cmp.Or(last.Task, e.name), Kind: last.Kind, State: last.State, Reason: last.Reason, Claimed: state.Claimed{Runner: last.Runner},
			Created: last.Created, Times: state.Times{Started: last.Started, Ended: last.Ended}, Work: state.Work{Error: last.Error, Changes: last.Changes}, Waits: state.Waits{Waited: last.Waited}})
	}
	t.Unverified = apiview.Unverified(f.Task.Applied.Unverified)
	if brief {
		return t
	}
	t.Entries, t.Recent, t.Drift = apiview.Entries(entries), recentOf(f.Task), driftOf(f.Task, e.definition, r.Now())
	if d := e.definition; d != nil {
		t.Watches, t.Settings = apiview.Optional(d.Watches()), new(d.Settings())
		t.Windows, t.Guards, t.Approval = windowsOf(d.Windows, r.Now()), guardsOf(d, f, r.Now()), new(d.Approval.String())
	}
	return t
}

// labelsOf returns the labels of a task, which nobody changes; nil if it has none.
func labelsOf(d *config.Task) *map[string]string {
	if len(d.Labels) == 0 {
		return nil
	}
	return &d.Labels
}

// run returns a run as the API shows it.
func (r Reader) run(run state.Run) *apispec.Run {
	shown := apiview.Run(run)
	shown.Links = r.links(run)
	return &shown
}

func (r Reader) links(run state.Run) *apispec.RunLinks {
	if r.Links == nil {
		return nil
	}
	return r.Links(run)
}

// readRun reads the task's run that has not ended. If it ended after the record
// of the task was read, that record is read again.
func (r Reader) readRun(ctx context.Context, name string, f *facts) error {
	for again := true; f.Task.Run != nil; again = false {
		run, err := state.Read[state.Run](ctx, r.Store, state.RunKey(name, f.Task.Run.ID))
		if err == nil && run.Exists() && !run.Data.State.Ended() {
			f.Run = run.Data
			return nil
		}
		var task state.Stored[state.Task]
		if err == nil && again {
			if task, err = state.Read[state.Task](ctx, r.Store, state.TaskKey(name)); err == nil {
				f.Task = task.Data
				continue
			}
		}
		if wrong := (*state.CorruptError)(nil); errors.As(err, &wrong) {
			f.Corrupt = cmp.Or(f.Corrupt, error(wrong))
			return nil
		}
		if err != nil {
			err = fmt.Errorf("read task %s with its run %s: %w", name, f.Task.Run.ID, err)
		}
		return err
	}
	return nil
}

// settingOf returns what the configuration says of a task.
func settingOf(effective *overlay.Effective, e *entry) lifecycle.Setting {
	var on *bool
	switch {
	case e.configured:
		on = &e.definition.Enabled
	case effective.Unknown == nil:
		return lifecycle.Gone
	case e.known.Reason.Code != state.ReasonRemoved:
		on = effective.Overrides[e.name].Enabled
	}
	switch {
	case on == nil:
		return lifecycle.Unknown
	case *on:
		return lifecycle.Enabled
	}
	return lifecycle.Disabled
}

// overrideOf returns what people changed about a task through the API, nil if
// they changed nothing.
func overrideOf(effective *overlay.Effective, name string) *apispec.Override {
	o, ok := effective.Overrides[name]
	if !ok {
		return nil
	}
	shown := &apispec.Override{Task: o.Task, Change: o.String(), Enabled: o.Enabled, Provisional: apiview.Optional(o.Provisional != nil),
		By: apiview.Optional(o.By), At: o.At}
	if problem := effective.Problems[name]; problem != nil {
		shown.Problem = new(problem.Error())
	}
	return shown
}
