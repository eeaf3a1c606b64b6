package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/suggest"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// shortID is how much of a run's id is shown: the time of its decision, to parts of
// a millisecond, which no other run has.
const shortID = 18

// leastID is how many characters of an id are needed to find a run.
const leastID = 4

// findRun returns a run by its id or the beginning of its id, or else the
// latest run of a task: one that has begun, or also one that is to begin.
func findRun(ctx context.Context, from *apiclient.Client, name string, intended bool) (apispec.Run, error) {
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
func meant(ctx context.Context, from *apiclient.Client, task string) string {
	all, _ := joined(from.Overviews(ctx, selection.Selection{})) // what cannot be read is no hint
	return suggest.Meant(task, list.Map(all.Tasks, func(t apispec.TaskOverview) string { return t.Name }))
}

// unknownLabels says which of the labels that select tasks no task has, and what was probably meant; "" if tasks
// have all of them, or if it is not known which labels there are.
func unknownLabels(ctx context.Context, from *apiclient.Client, given []string) string {
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
