// Package apiview shows records and definitions in the types of the HTTP API. The
// API and the commands that read a store show them in the same way.
package apiview

import (
	"maps"
	"net/url"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/overview"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Overview returns an overview as the API shows it.
func Overview(o overview.Overview) apispec.Overview {
	shown := apispec.Overview{
		Healthy: o.Unhealthy == "", Unhealthy: optional(o.Unhealthy), LastGoodTick: moment(o.LastGoodTick),
		Problem: optional(o.Problem), Since: moment(o.Since), Bundle: optional(o.Bundle),
		Tasks: make([]apispec.TaskOverview, len(o.Tasks)), Overrides: make([]apispec.Override, len(o.Overrides)),
	}
	if l := o.Leader; l != nil {
		shown.Leader = &apispec.Leader{Owner: l.Owner, Fence: int64(l.Fence), Until: l.Expires}
	}
	if r := o.Refused; r != nil {
		shown.Refused = &apispec.Refused{Bundle: optional(r.Bundle), Error: r.Error, Since: r.Since}
	}
	for i, t := range o.Tasks {
		shown.Tasks[i] = TaskOverview(t)
	}
	for i, override := range o.Overrides {
		shown.Overrides[i] = *overrideOf(&override)
	}
	return shown
}

// TaskOverview returns what is known of a task as the API shows it.
func TaskOverview(t overview.Task) apispec.TaskOverview {
	shown := apispec.TaskOverview{
		Name: t.Name, Phase: apispec.Phase(t.Phase), Enabled: t.Enabled, Override: overrideOf(t.Override),
		Reason: Reason(t.Reason), Due: moment(t.Due), Applied: moment(t.Applied), Failures: optional(t.Failures),
	}
	if d := t.Definition; d != nil {
		shown.Origin = apispec.Origin{API: d.FromAPI, File: optional(d.Source.File), Line: optional(d.Source.Line)}
	} else if o := t.Override; o != nil {
		shown.Origin.API = len(o.Definition) > 0
	}
	if t.Pending != nil {
		shown.Changed, shown.ChangedSince = optional(t.Pending.Changed), moment(t.Pending.First)
	}
	if t.Run != nil {
		shown.Run = new(Run(*t.Run))
	}
	if t.Last != nil {
		shown.LastRun = lastRunOf(t.Name, t.Last)
	}
	return shown
}

func overrideOf(o *overview.Override) *apispec.Override {
	if o == nil {
		return nil
	}
	shown := apispec.Override{Task: o.Task, Change: o.String(), Enabled: o.Enabled, Provisional: optional(o.Provisional != nil), By: optional(o.By), At: o.At}
	if o.Problem != nil {
		shown.Problem = optional(o.Problem.Error())
	}
	return &shown
}

// lastRunOf returns the latest run of a task that has ended.
func lastRunOf(task string, last *state.Result) *apispec.Run {
	return new(Run(state.Run{ID: last.Run, Task: task, Kind: last.Kind, State: last.State, Reason: last.Reason, Created: last.Created,
		Started: last.Started, Ended: last.Ended, Error: last.Error, Changes: last.Changes}))
}

// Run returns a run as the API shows it.
func Run(run state.Run) apispec.Run {
	shown := apispec.Run{
		ID: run.ID, Task: run.Task, State: apispec.RunState(run.State), Kind: apispec.RunKind(run.Kind), Launch: optional(run.Launch),
		Reason: Reason(run.Reason), Seen: moment(run.Seen), Created: run.Created, Started: moment(run.Started), Ended: moment(run.Ended),
		Error: optional(run.Error), Changes: changes(run.Changes),
	}
	if w := run.Wait; w != nil && run.State == state.RunWaiting {
		shown.Wait = &apispec.Wait{For: apispec.WaitFor(w.For), ID: w.ID, Text: optional(w.Text), Since: w.Since, Until: moment(w.Until)}
	}
	here := RunURL(run.Task, run.ID)
	if run.State == state.RunRunning || run.State == state.RunLost || run.Logs > 0 || run.Output != (state.Kept{}) {
		shown.LogURL = new(here + "/log")
	}
	if run.State.Ended() && run.Plan != (state.Kept{}) {
		shown.PlanURL = new(here + "/plan")
	}
	if run.State.Ended() && run.PlanData != (state.Kept{}) {
		shown.PlanDataURL = new(here + "/plan-data")
	}
	return shown
}

// RunURL returns the path of a run.
func RunURL(task, id string) string {
	return "/v1/tasks/" + url.PathEscape(task) + "/runs/" + url.PathEscape(id)
}

// Reason returns a reason as the API shows it.
func Reason(r state.Reason) apispec.Reason {
	return apispec.Reason{Code: string(r.Code), Text: r.Text, Attempt: optional(r.Attempt)}
}

func changes(c *state.Changes) *apispec.Changes {
	if c == nil {
		return nil
	}
	out := &apispec.Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy}
	if len(c.Resources) > 0 {
		resources := make([]apispec.Resource, len(c.Resources))
		for i, res := range c.Resources {
			resources[i] = apispec.Resource{Address: res.Address, Action: res.Action}
		}
		out.Resources = &resources
	}
	return out
}

// moment is nil for no time, which JSON then leaves out.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Task returns the definition of a task as the API shows it, and takes it: as
// it was configured, with what every task has.
func Task(t *config.Task) apispec.Task {
	def := apispec.Task{
		Name:        t.Name,
		Description: &t.Description,
		Enabled:     &t.Enabled,
		Module:      t.WrittenModule(),
		Version:     &t.Version,
		Providers:   new(append([]string{}, t.Providers...)),
		Variables:   new(variables(t)),
		Condition:   conditionOf(t.Condition),
		ModuleInput: new(definitions(t.ModuleInputs...)),
	}
	if b := t.BufferPeriod; t.OwnBufferPeriod() != (config.OwnBufferPeriod{}) {
		def.BufferPeriod = &apispec.BufferPeriod{Enabled: &b.Enabled, Min: new(b.Min.String()), Max: new(b.Max.String())}
	}
	if own := t.OwnRunTimeout(); own != nil {
		def.RunTimeout = new(own.String())
	}
	return def
}

// optional is nil for the zero value, which JSON then leaves out.
func optional[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

func variables(t *config.Task) map[string]string {
	source := map[string]string{}
	for name, v := range t.Variables {
		source[name] = string(hclwrite.Format(hclwrite.TokensForValue(v).Bytes()))
	}
	maps.Copy(source, t.VariableTemplates)
	return source
}

// definitions are the blocks of kinds, by the names that they have in the API.
func definitions(specs ...condition.Spec) map[string]any {
	shown := map[string]any{}
	for _, spec := range specs {
		shown[spec.Kind().APIName()] = spec.Definition()
	}
	return shown
}

func conditionOf(c config.Condition) apispec.Condition {
	if c.Spec == nil {
		return apispec.Condition{}
	}
	shown := c.Spec.Definition()
	if c.Kind().Variable != nil {
		shown["use_as_module_input"] = c.UseAsModuleInput
	}
	return apispec.Condition{c.Kind().APIName(): shown}
}
