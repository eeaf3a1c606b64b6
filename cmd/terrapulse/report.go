package main

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/api"
	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
)

// onceReport is what start -once -json and invoke -wait -json print.
type onceReport struct {
	Tasks   []taskReport `json:"tasks"`
	Seconds float64      `json:"seconds"`
}

type taskReport struct {
	Name    string         `json:"name"`
	Outcome string         `json:"outcome"` // the state of the run, "disabled" or "not run"
	Reason  apispec.Reason `json:"reason"`
	Run     *apispec.Run   `json:"run,omitempty"`
	Plan    string         `json:"plan,omitempty"` // of invoke -inspect
}

// printReport prints outcomes in JSON, with the plans of tasks that have one, and
// returns the exit code.
func (a *app) printReport(outcomes []reconcile.Outcome, plans map[string]string, elapsed time.Duration) int {
	code := exitOK
	report := onceReport{Tasks: []taskReport{}, Seconds: elapsed.Seconds()}
	for _, o := range outcomes {
		if o.Failed() {
			code = exitError
		}
		t := taskReport{Name: o.Task, Outcome: "not run", Reason: api.ReasonOf(o.Reason), Plan: plans[o.Task]}
		switch {
		case !notBegun(o):
			run := api.RunOf(*o.Run)
			t.Run, t.Outcome = &run, string(o.Run.State)
		case o.Reason.Code == state.ReasonDisabled:
			t.Outcome = "disabled"
		}
		report.Tasks = append(report.Tasks, t)
	}
	if printed := a.printJSON(report); printed != exitOK {
		return printed
	}
	return code
}

// inspectReport is what inspect -json prints of a task.
type inspectReport struct {
	Name           string           `json:"name"`
	Enabled        bool             `json:"enabled"` // a task that is disabled is not planned
	ChangesPresent bool             `json:"changes_present"`
	Changes        *apispec.Changes `json:"changes,omitempty"`
	Plan           string           `json:"plan,omitempty"`
	Error          string           `json:"error,omitempty"`
}

// printPlansAsJSON prints plans in JSON, and returns the exit code.
func (a *app) printPlansAsJSON(tasks []*config.Task, results []inspection, detailed bool) int {
	code := exitOK
	reports := make([]inspectReport, len(tasks))
	for i, t := range tasks {
		r := results[i]
		reports[i] = inspectReport{Name: t.Name, Enabled: t.Enabled}
		switch {
		case r.err != nil:
			reports[i].Error, code = r.err.Error(), exitError
		case t.Enabled:
			reports[i].ChangesPresent, reports[i].Plan = !r.Empty, r.Text
			reports[i].Changes = &apispec.Changes{Add: r.Changes.Add, Change: r.Changes.Change, Destroy: r.Changes.Destroy}
			if !r.Empty && detailed && code == exitOK {
				code = exitChanges
			}
		}
	}
	if printed := a.printJSON(map[string]any{"tasks": reports}); printed != exitOK {
		return printed
	}
	return code
}
