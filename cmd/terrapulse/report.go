package main

import (
	"cmp"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/preview"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
)

// onceReport is what start -once -json and invoke -wait -json print.
type onceReport struct {
	Tasks   []taskReport `json:"tasks"`
	Seconds float64      `json:"seconds"`
}

type taskReport struct {
	Name    string         `json:"name"`
	Outcome string         `json:"outcome"` // the state of the run, "stopped", "waiting", "disabled" or "not run"
	Reason  apispec.Reason `json:"reason"`
	Run     *apispec.Run   `json:"run,omitempty"`
	Plan    string         `json:"plan,omitempty"` // of invoke -inspect
}

// printReport prints outcomes in JSON, with the plans of tasks that have one, and
// returns the exit code.
func (a *app) printReport(outcomes []reconcile.Outcome, plans map[string]string, elapsed time.Duration) int {
	report := onceReport{Tasks: []taskReport{}, Seconds: elapsed.Seconds()}
	for _, o := range outcomes {
		t := taskReport{Name: o.Task, Outcome: wordOf(o), Reason: apiview.Reason(o.Reason), Plan: plans[o.Task]}
		if !notBegun(o) {
			t.Run = new(apiview.Run(*o.Run))
		}
		report.Tasks = append(report.Tasks, t)
	}
	return cmp.Or(a.printJSON(report), exitCodeOf(outcomes))
}

// inspectReport is what inspect -json prints of a task.
type inspectReport struct {
	Name           string           `json:"name"`
	Enabled        bool             `json:"enabled"` // a task that is disabled is not planned
	ChangesPresent bool             `json:"changes_present"`
	Changes        *apispec.Changes `json:"changes,omitempty"`
	Plan           string           `json:"plan,omitempty"`
	Data           *driver.Plan     `json:"data,omitempty"` // the plan as data
	Error          string           `json:"error,omitempty"`
}

// printPlansAsJSON prints plans in JSON.
func (a *app) printPlansAsJSON(results []preview.Result) int {
	reports := make([]inspectReport, len(results))
	for i, r := range results {
		reports[i] = inspectReport{Name: r.Task.Name, Enabled: r.Task.Enabled}
		switch ch := r.Plan.Changes; {
		case r.Err != nil:
			reports[i].Error = r.Err.Error()
		case r.Task.Enabled:
			reports[i].ChangesPresent, reports[i].Plan = ch.Any(), r.Plan.Text
			reports[i].Changes = apiview.Changes(ch.Counts())
			if r.Plan.Resources != nil {
				reports[i].Data = &results[i].Plan
			}
		}
	}
	return a.printJSON(map[string]any{"tasks": reports})
}
