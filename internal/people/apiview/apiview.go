// Package apiview shows records and definitions in the types of the HTTP API. The
// API and the commands that read a store show them in the same way.
package apiview

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Run returns a run as the API shows it.
func Run(run state.Run) apispec.Run {
	shown := apispec.Run{
		ID: run.ID, Task: run.Task, State: apispec.RunState(run.State), Kind: apispec.RunKind(run.Kind), Launch: Optional(run.Launch),
		Reason: Reason(run.Reason), Seen: Moment(run.Seen), Created: run.Created, Launched: Moment(run.Launched), Started: Moment(run.Started),
		Planned: Moment(run.Planned), Ended: Moment(run.Ended), Runner: Optional(run.Runner),
		Error: Optional(run.Error), Changes: Changes(run.Changes), Entries: Entries(run.Entries),
		Verification: Verification(run.Verification),
	}
	if !run.Started.IsZero() && !run.Ended.IsZero() {
		shown.Waited = Optional((run.Ended.Sub(run.Started) - run.Worked(run.Ended)).Seconds())
	}
	if w := run.Wait; w != nil && run.State == state.RunWaiting {
		shown.Wait = &apispec.Wait{For: apispec.WaitFor(w.For), ID: w.ID, Text: Optional(w.Text), Since: w.Since, Until: Moment(w.Until), Again: Moment(w.Again)}
		if len(w.Causes) > 0 {
			shown.Wait.Causes = new(Causes(*w))
		}
	}
	if a := run.Approved(); a != nil {
		shown.Approved, shown.ApprovedBy, shown.ApprovedComment = &a.At, new(a.Names()), Optional(a.Comment)
		shown.Approvals = new(Approvals(a.All()))
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
	if w := run.WhatIf; w != nil {
		shown.WhatIf = &apispec.RunWhatIf{ID: Optional(w.ID), Supposed: w.Supposed, Verdict: Verdict(w.Verdict)}
	}
	shown.Verdict = Verdict(run.Verdict)
	return shown
}

// Approvals returns the approvals of people as the API shows them.
func Approvals(given []state.Given) []apispec.Approval { return list.Map(given, Approval) }

// Approval returns the approval of a person as the API shows it.
func Approval(a state.Given) apispec.Approval {
	return apispec.Approval{By: a.By, Authenticated: a.Authenticated, Proof: Optional(string(a.Proof)), As: Optional(a.As),
		At: a.At, Comment: Optional(a.Comment), Expires: Moment(a.Expires)}
}

// Causes returns why a plan needs an approval as the API shows it.
func Causes(w state.Wait) []apispec.Cause {
	return list.Map(w.Causes, func(c state.Cause) apispec.Cause { return apispec.Cause{Rule: string(c.Rule), Text: c.Text} })
}

// RunURL returns the path of a run.
func RunURL(task, id string) string { return RunsURL(task, "") + "/" + url.PathEscape(id) }

// RunsURL returns the path of the runs of a task that began after a run, or of all its runs.
func RunsURL(task, after string) string {
	path := "/v1/tasks/" + url.PathEscape(task) + "/runs"
	if after != "" {
		path += "?after=" + after
	}
	return path
}

// Reason returns a reason as the API shows it.
func Reason(r state.Reason) apispec.Reason {
	return apispec.Reason{Code: r.Code, Text: r.Text, Attempt: Optional(r.Attempt)}
}

// Changes returns what a run did, or a plan would do, as the API shows it.
func Changes(c *state.Changes) *apispec.Changes {
	if c == nil {
		return nil
	}
	out := &apispec.Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy, Uncounted: Optional(c.Uncounted), Unknown: Optional(c.Unknown)}
	if len(c.Resources) > 0 {
		out.Resources = new(list.Map(c.Resources, func(r state.Resource) apispec.Resource {
			return apispec.Resource{Address: r.Address, Action: r.Action}
		}))
	}
	return out
}

// ChangesOf returns the numbers of the API.
func ChangesOf(c *apispec.Changes) *state.Changes {
	if c == nil {
		return nil
	}
	return &state.Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy, Uncounted: apispec.Deref(c.Uncounted), Unknown: apispec.Deref(c.Unknown)}
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
func Task(t *config.Task) apispec.Task { return definition(t.Definition()) }

// PublicTask is Task for people who may not see secrets.
func PublicTask(t *config.Task) apispec.Task {
	keys, err := config.Public(t.Definition())
	if err != nil {
		panic(fmt.Sprintf("apiview: the definition of a task: %v", err))
	}
	return definition(keys)
}

func definition(keys map[string]any) apispec.Task {
	var def apispec.Task
	text, err := json.Marshal(keys)
	if err == nil {
		err = json.Unmarshal(text, &def)
	}
	if err != nil {
		panic(fmt.Sprintf("apiview: the definition of a task: %v", err)) // a type that the API does not have
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
