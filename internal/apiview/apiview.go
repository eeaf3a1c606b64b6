// Package apiview shows records and definitions in the types of the HTTP API. The
// API and the commands that read a store show them in the same way.
package apiview

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Run returns a run as the API shows it.
func Run(run state.Run) apispec.Run {
	shown := apispec.Run{
		ID: run.ID, Task: run.Task, State: apispec.RunState(run.State), Kind: apispec.RunKind(run.Kind), Launch: Optional(run.Launch),
		Reason: Reason(run.Reason), Seen: Moment(run.Seen), Created: run.Created, Launched: Moment(run.Launched), Started: Moment(run.Started),
		Planned: Moment(run.Planned), Ended: Moment(run.Ended),
		Error: Optional(run.Error), Changes: Changes(run.Changes), Entries: Entries(run.Entries),
	}
	if !run.Started.IsZero() && !run.Ended.IsZero() {
		shown.Waited = Optional((run.Ended.Sub(run.Started) - run.Worked(run.Ended)).Seconds())
	}
	if w := run.Wait; w != nil && run.State == state.RunWaiting {
		shown.Wait = &apispec.Wait{For: apispec.WaitFor(w.For), ID: w.ID, Text: Optional(w.Text), Since: w.Since, Until: Moment(w.Until)}
		if len(w.Causes) > 0 {
			shown.Wait.Causes = new(Causes(*w))
		}
	}
	if a := run.Approved(); a != nil {
		shown.Approved, shown.ApprovedBy, shown.ApprovedComment = &a.At, &a.By, Optional(a.Comment)
	}
	if r := run.Remote; r != nil && r.URL != "" {
		shown.Remote = &apispec.RemoteRun{ID: Optional(r.ID), URL: r.URL}
	}
	if run.Resumed != nil {
		shown.Resumed = Moment(run.Resumed.At)
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

// Causes returns why a plan needs an approval as the API shows it.
func Causes(w state.Wait) []apispec.Cause {
	causes := make([]apispec.Cause, len(w.Causes))
	for i, c := range w.Causes {
		causes[i] = apispec.Cause{Rule: string(c.Rule), Text: c.Text}
	}
	return causes
}

// RunURL returns the path of a run.
func RunURL(task, id string) string {
	return "/v1/tasks/" + url.PathEscape(task) + "/runs/" + url.PathEscape(id)
}

// Reason returns a reason as the API shows it.
func Reason(r state.Reason) apispec.Reason {
	return apispec.Reason{Code: string(r.Code), Text: r.Text, Attempt: Optional(r.Attempt)}
}

// Changes returns what a run did, or a plan would do, as the API shows it.
func Changes(c *state.Changes) *apispec.Changes {
	if c == nil {
		return nil
	}
	out := &apispec.Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy, Unknown: Optional(c.Unknown)}
	if len(c.Resources) > 0 {
		resources := make([]apispec.Resource, len(c.Resources))
		for i, res := range c.Resources {
			resources[i] = apispec.Resource{Address: res.Address, Action: res.Action}
		}
		out.Resources = &resources
	}
	return out
}

// ChangesOf returns the numbers of the API.
func ChangesOf(c *apispec.Changes) *state.Changes {
	if c == nil {
		return nil
	}
	return &state.Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy, Unknown: apispec.Deref(c.Unknown)}
}

// Entries returns as the API shows it what came, went and changed in Consul.
func Entries(c *state.EntryChanges) *apispec.EntryChanges {
	if c == nil {
		return nil
	}
	out := &apispec.EntryChanges{Added: c.Added, Removed: c.Removed, Changed: c.Changed, Text: c.String()}
	if len(c.Entries) > 0 {
		entries := make([]apispec.EntryChange, len(c.Entries))
		for i, e := range c.Entries {
			entries[i] = apispec.EntryChange{Action: apispec.EntryAction(e.Action), Name: e.Name, Group: e.Group,
				ID: Optional(e.ID), Address: Optional(e.Address), AddressBefore: Optional(e.Before)}
			if len(e.Attributes) > 0 {
				entries[i].Attributes = new(slices.Clone(e.Attributes))
			}
		}
		out.Entries = &entries
	}
	return out
}

// Moment is nil for no time, which JSON then leaves out.
func Moment(t time.Time) *time.Time {
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
	if t.AWSRole != "" {
		def.AwsRole = &t.AWSRole
	}
	if w := t.OwnCloudWorkspace(); w != (config.CloudWorkspace{}) {
		def.TerraformCloudWorkspace = &apispec.TerraformCloudWorkspace{ExecutionMode: Optional(w.ExecutionMode),
			AgentPoolID: Optional(w.AgentPoolID), AgentPoolName: Optional(w.AgentPoolName), TerraformVersion: Optional(w.TerraformVersion)}
	}
	if len(t.MovedFrom) > 0 {
		def.MovedFrom = &t.MovedFrom
	}
	if own := t.OwnRules(); len(own) > 0 {
		text, err := json.Marshal(own)
		if err == nil {
			err = json.Unmarshal(text, &def) // the API has the keys of task files
		}
		if err != nil {
			panic(fmt.Sprintf("apiview: the rules of a task: %v", err)) // a type that the API does not have
		}
	}
	return def
}

// Optional is nil for the zero value, which JSON then leaves out.
func Optional[T comparable](v T) *T {
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
		shown[spec.Kind().APIName()] = condition.Definition(spec)
	}
	return shown
}

func conditionOf(c config.Condition) apispec.Condition {
	if c.Spec == nil {
		return apispec.Condition{}
	}
	shown := condition.Definition(c.Spec)
	if c.Kind().Variable != nil {
		shown["use_as_module_input"] = c.UseAsModuleInput
	}
	return apispec.Condition{c.Kind().APIName(): shown}
}

// Worked is how long a run that has ended worked, without its waits: the duration that
// people see, wherever they see the run.
func Worked(r apispec.Run) (worked time.Duration, ended bool) {
	if r.Started == nil || r.Ended == nil {
		return 0, false
	}
	waited := time.Duration(apispec.Deref(r.Waited) * float64(time.Second))
	return max(0, r.Ended.Sub(*r.Started)-waited), true
}

// Paused is a pause as the API shows it; nil if there is none.
func Paused(p *state.Paused) *apispec.Paused {
	if p == nil {
		return nil
	}
	return &apispec.Paused{By: p.By, Since: p.Since, Reason: Optional(p.Reason)}
}
