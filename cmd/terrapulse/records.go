package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/suggest"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/runlog"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// records is what status, events, runs and logs read: a store, or the API of a running
// instance.
type records interface {
	// Overviews returns the selected tasks in parts, each with what concerns all tasks.
	Overviews(context.Context, selection.Selection) iter.Seq2[apispec.Overview, error]
	// Health returns why Terrapulse does not do its work, nil if it does.
	Health(context.Context) error
	// Events returns events as the API does.
	Events(ctx context.Context, query url.Values) (apispec.EventsResponse, error)
	// Runs returns the runs of a task, the latest first.
	Runs(ctx context.Context, task string) ([]apispec.Run, error)
	// LatestRuns returns the latest runs of all tasks, at most so many.
	LatestRuns(ctx context.Context, most int) ([]apispec.Run, error)
	// Find returns the runs whose ids begin with a prefix.
	Find(ctx context.Context, prefix string) ([]apispec.Run, error)
	// Output returns what Terraform printed in a run from an offset on: all of
	// it, or a part that is not the last one.
	Output(ctx context.Context, task, run string, offset int) (apispec.RunOutputResponse, error)
	Close() error
}

// recordFlags say where the records are read.
type recordFlags struct {
	store storeFlags
	api   apiFlags
}

func (r *recordFlags) register(f *flag.FlagSet) {
	r.store.register(f)
	r.api.register(f)
	address, port := f.Lookup("http-addr"), f.Lookup("port")
	address.DefValue, address.Usage = "", "Read from the HTTP API at this `address` instead of a store: of an instance, or of a deployment in AWS, to which requests are signed. Also "+addressVariable+", if no flag names a store."
	port.Usage = "" // deprecated before these commands had it
}

// open returns the records that the flags name. The exit code is -1 if all is
// well.
func (r *recordFlags) open(a *app) (records, int) {
	given := r.api.given()
	if code := a.onePlace(given); code >= 0 {
		return nil, code
	}
	switch {
	case given["stack"]:
		return a.stackAPI(r.api.stack)
	case r.api.named(given):
		client, err := r.api.client()
		return client, a.fail(exitFlags, err)
	}
	store, code := a.openStore(&r.store)
	return storeRecords{store, a.stderr, r.store.effective(store)}, code
}

// storeRecords are read from a store.
type storeRecords struct {
	*stores.Store
	warnings io.Writer
	// effective reads the configuration, which has the labels.
	effective func(context.Context) (*overlay.Effective, error)
}

func (r storeRecords) Overviews(ctx context.Context, selected selection.Selection) iter.Seq2[apispec.Overview, error] {
	from := overview.Reader{Store: r.Store, Now: time.Now, Where: apispec.Store{Kind: r.Kind, Where: r.Where}}
	read := from.List
	if selected.Every() {
		read = from.ListAll
	}
	effective, err := r.defined(ctx, selected)
	if err != nil {
		return onePart(apispec.Overview{}, err)
	}
	tasks, err := read(ctx, effective)
	if err != nil {
		return onePart(apispec.Overview{}, err)
	}
	return onePart(tasks.Select(ctx, selected))
}

// defined returns the configuration if the selection compares what it has; otherwise nil.
func (r storeRecords) defined(ctx context.Context, selected selection.Selection) (*overlay.Effective, error) {
	if len(selected.Labels) == 0 && selected.Search == "" {
		return nil, nil
	}
	effective, err := r.effective(ctx)
	if errors.Is(err, errNoFiles) && len(selected.Labels) == 0 { // a search finds what the store has
		return nil, nil
	}
	return effective, err
}

func (r storeRecords) Health(ctx context.Context) error {
	rec, err := state.Read[state.Reconcile](ctx, r.Store, state.ReconcileKey)
	if err != nil {
		return fmt.Errorf("read the reconcile record: %w", err)
	}
	if why := overview.Unhealthy(r.Store, rec.Data, time.Time{}, time.Now()); why != "" {
		return errors.New(why)
	}
	return nil
}

func (r storeRecords) Events(ctx context.Context, query url.Values) (apispec.EventsResponse, error) {
	sees := func(string) bool { return true }
	if labels := query["label"]; len(labels) > 0 {
		effective, err := r.effective(ctx)
		if err != nil {
			return apispec.EventsResponse{}, err
		}
		sees = overview.WithLabels(effective, labels)
	}
	all, err := overview.Reader{Store: r.Store, Now: time.Now}.Events(ctx, apiview.EventFilterOf(query), func(e apispec.LatestEvent) bool { return sees(apispec.Deref(e.Task)) })
	return apispec.EventsResponse{Events: all.Found, Next: apiview.Optional(all.Next), Oldest: apiview.Moment(all.Oldest)}, err
}

func (r storeRecords) Runs(ctx context.Context, task string) ([]apispec.Run, error) {
	rec, err := state.Read[state.Task](ctx, r.Store, state.TaskKey(task))
	if err != nil {
		return nil, fmt.Errorf("read task %s: %w", task, err)
	}
	if !rec.Exists() {
		return nil, &apiclient.Error{Status: http.StatusNotFound}
	}
	return r.list(ctx, task, "")
}

// list returns the runs of a task whose ids begin with a prefix, the latest first.
func (r storeRecords) list(ctx context.Context, task, prefix string) ([]apispec.Run, error) {
	stored, corrupt, err := state.ReadEach[state.Run](ctx, r.Store, state.RunKey(task, prefix))
	if err != nil {
		return nil, fmt.Errorf("read the runs of task %s: %w", task, err)
	}
	for _, wrong := range corrupt {
		fmt.Fprintf(r.warnings, "Warning: a run is left out: %s\n", wrong)
	}
	runs := make([]apispec.Run, len(stored))
	for i, run := range stored {
		runs[len(runs)-1-i] = apiview.Run(run.Data)
	}
	return runs, nil
}

func (r storeRecords) LatestRuns(ctx context.Context, most int) ([]apispec.Run, error) {
	latest, err := overview.Reader{Store: r.Store, Now: time.Now}.LatestRuns(ctx, most, func(string) bool { return true }, func(_ string, wrong error) {
		fmt.Fprintf(r.warnings, "Warning: a run is left out: %s\n", wrong)
	})
	return list.Map(latest, apiview.Run), err
}

func (r storeRecords) Find(ctx context.Context, prefix string) ([]apispec.Run, error) {
	tasks, _, err := state.ReadEach[state.Task](ctx, r.Store, state.TaskPrefix)
	if err != nil {
		return nil, fmt.Errorf("read the tasks' records: %w", err)
	}
	// The histories name most runs without another read.
	fits := func(id string) bool { return strings.HasPrefix(id, prefix) }
	in := slices.DeleteFunc(slices.Clone(tasks), func(t state.Stored[state.Task]) bool {
		return !slices.ContainsFunc(t.Data.Ended.IDs, fits) && (t.Data.Run == nil || !fits(t.Data.Run.ID))
	})
	if len(in) == 0 {
		in = tasks
	}
	var found []apispec.Run
	for _, t := range in {
		runs, err := r.list(ctx, state.TaskName(t.Key), prefix)
		if err != nil {
			return nil, err
		}
		found = append(found, runs...)
	}
	return found, nil
}

func (r storeRecords) Output(ctx context.Context, task, id string, offset int) (apispec.RunOutputResponse, error) {
	var chunk apispec.RunOutputResponse
	// Before its output: once the run has ended, that is complete.
	run, err := state.Read[state.Run](ctx, r.Store, state.RunKey(task, id))
	if err != nil {
		return chunk, fmt.Errorf("read run %s: %w", id, err)
	}
	run.Data.Task, run.Data.ID = task, id
	text, err := r.Store.Output(ctx, run.Data)
	switch {
	case errors.Is(err, runlog.ErrGone):
		return chunk, fmt.Errorf("the output of run %s was removed: the bucket keeps output for a limited time only", id)
	case err != nil && !errors.Is(err, state.ErrNotFound):
		return chunk, fmt.Errorf("read the output of run %s: %w", id, err)
	}
	text = text[min(offset, len(text)):]
	return apispec.RunOutputResponse{
		Output: string(text), Offset: offset, NextOffset: offset + len(text),
		Ended: !run.Data.State.Active() && !run.Data.GoesOnRemotely(), State: apispec.RunState(run.Data.State), Remote: apiview.Optional(run.Data.GoesOnRemotely()),
	}, nil
}

// shortID is how much of a run's id is shown: the time of its decision, to parts of
// a millisecond, which no other run has.
const shortID = 18

// leastID is how many characters of an id are needed to find a run.
const leastID = 4

// findRun returns a run by its id or the beginning of its id, or else the
// latest run of a task: one that has begun, or also one that is to begin.
func findRun(ctx context.Context, from records, name string, intended bool) (apispec.Run, error) {
	runs, err := from.Runs(ctx, name)
	if err == nil {
		for _, run := range runs {
			if (intended || run.State != apispec.RunStateIntended) && run.State != apispec.RunStateSuperseded && run.Kind != apispec.RunKindPlan {
				return run, nil
			}
		}
		return apispec.Run{}, fmt.Errorf("task %s has no run that has begun", name)
	}
	if !apiclient.Missing(err) {
		return apispec.Run{}, err
	}
	prefix := strings.ToLower(name)
	var found []apispec.Run
	if len(prefix) >= leastID {
		if found, err = from.Find(ctx, prefix); err != nil {
			return apispec.Run{}, err
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return apispec.Run{}, fmt.Errorf("there is no task and no run %q%s: `terrapulse runs TASK` lists the runs of a task", name, meant(ctx, from, name))
	}
	ids := list.Map(found[:min(len(found), 3)], func(run apispec.Run) string { return run.ID + " of " + run.Task })
	return apispec.Run{}, fmt.Errorf("%q is the beginning of %d runs (%s): write more of the id", name, len(found), strings.Join(ids, ", "))
}

// meant is the task that was probably meant; "" if none was.
func meant(ctx context.Context, from overviews, task string) string {
	all, _ := joined(from.Overviews(ctx, selection.Selection{})) // what cannot be read is no hint
	return suggest.Meant(task, list.Map(all.Tasks, func(t apispec.TaskOverview) string { return t.Name }))
}

// overviews is where lists of tasks are read.
type overviews interface {
	Overviews(context.Context, selection.Selection) iter.Seq2[apispec.Overview, error]
}

// unknownLabels says which of the labels that select tasks no task has, and what was probably meant; "" if tasks
// have all of them, or if it is not known which labels there are.
func unknownLabels(ctx context.Context, from overviews, given []string) string {
	all, _ := joined(from.Overviews(ctx, selection.Selection{}))
	var known []string
	for i := range all.Tasks {
		known = append(known, selection.LabelsOf(&all.Tasks[i])...)
	}
	var unknown []string
	for _, label := range given {
		key, values, _ := strings.Cut(label, "=")
		for value := range strings.SplitSeq(values, ",") {
			if one := key + "=" + value; value != "" && len(known) > 0 && !slices.Contains(known, one) {
				unknown = append(unknown, "no task has the label "+one+suggest.Meant(one, known))
			}
		}
	}
	return strings.Join(unknown, "; ")
}

// shortened is the beginning of a run's id.
func shortened(id string) string { return id[:min(len(id), shortID)] }
