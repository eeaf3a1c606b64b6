package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/api"
	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/state"
)

// statusCommand shows what is known of every task.
type statusCommand struct{ *app }

func (c *statusCommand) Synopsis() string {
	return "Show every task: its state, why, its last run, when it is due"
}

func (c *statusCommand) Help() string {
	return `Usage: terrapulse status [flags]

  Shows what the store knows: who leads, and for every task what it does and
  why, its last run and when it is due next. It reads only, also while another
  process runs tasks. Name the task files of the instance, or its store: without
  either the store is looked for in the default working_dir.
`
}

func (c *statusCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{onFile, "-store sqlite:/var/lib/terrapulse/terrapulse.db -json", "-http-addr https://sync-1.example.com:8558"},
		codes: codesOfStore}
}

func (c *statusCommand) flags() (*flag.FlagSet, *recordFlags, *bool) {
	f := newFlags("status")
	return f, registerRecords(f), f.Bool("json", false, "Print JSON, for scripts.")
}

// status is what -json prints. It has the names of the API's overview.
type status struct {
	Leader  *apispec.Leader `json:"leader,omitempty"`
	Good    *time.Time      `json:"last_good_tick,omitempty"`
	Bundle  string          `json:"bundle,omitempty"` // in force; "" where the configuration is read from files
	Problem string          `json:"problem,omitempty"`
	// Refused is a newer configuration that is not in force because it is wrong.
	Refused *apispec.Refused `json:"refused,omitempty"`
	Tasks   []taskStatus     `json:"tasks"`
	// Overrides are what was changed through the API, beside the files.
	Overrides []override `json:"overrides,omitempty"`
}

type taskStatus struct {
	Name     string            `json:"name"`
	State    apispec.TaskState `json:"state"`
	Reason   apispec.Reason    `json:"reason"`
	Run      *apispec.Run      `json:"run,omitempty"` // that has not ended
	Due      *time.Time        `json:"due,omitempty"`
	Changed  string            `json:"changed,omitempty"` // in Consul, and not yet applied
	Applied  *time.Time        `json:"applied,omitempty"`
	Failures int               `json:"failures,omitempty"` // in a row
	Last     *apispec.Run      `json:"last_run,omitempty"`
}

type override struct {
	Task   string    `json:"task"`
	Change string    `json:"change"` // in words
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
}

func (c *statusCommand) Run(args []string) int {
	f, from, asJSON := c.flags()
	if code := c.parseAll(f, args); code >= 0 {
		return code
	}
	records, code := from.open(c.app)
	if code >= 0 {
		return code
	}
	defer records.Close()
	st, err := records.status(c.ctx, time.Now())
	if err != nil {
		return c.fail(exitError, err)
	}
	if *asJSON {
		return c.printJSON(st)
	}
	c.print(st, time.Now())
	return exitOK
}

func (a *app) printJSON(v any) int {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return a.fail(exitError, err)
	}
	return exitOK
}

func readStatus(ctx context.Context, store state.Store, now time.Time) (status, error) {
	st := status{Tasks: []taskStatus{}}
	rec, err := state.Read[state.Reconcile](ctx, store, state.ReconcileKey)
	if err != nil {
		return st, fmt.Errorf("read the reconcile record: %w", err)
	}
	st.Good, st.Problem = timeOrNil(rec.Data.Good), cmp.Or(rec.Data.Problem, rec.Data.Stalled)
	st.Bundle = rec.Data.Bundle
	if r := rec.Data.Refused; r != nil {
		st.Refused = &apispec.Refused{Error: r.Error, Since: r.Since}
		if r.Bundle != "" {
			st.Refused.Bundle = &r.Bundle
		}
	}
	held, err := lease.Read(ctx, store, state.LeaderLease)
	if err != nil {
		return st, fmt.Errorf("read who leads: %w", err)
	}
	if held.Owner != "" && now.Before(held.Expires) {
		st.Leader = &apispec.Leader{Owner: held.Owner, Fence: int64(held.Fence), Until: held.Expires}
	}
	tasks, err := state.ReadTasks(ctx, store)
	if err != nil {
		return st, err
	}
	for _, t := range tasks {
		ts, err := readTask(ctx, store, state.TaskName(t.Key), t.Data)
		if err != nil {
			return st, err
		}
		st.Tasks = append(st.Tasks, ts)
	}
	overrides, err := state.ReadAll[state.Override](ctx, store, state.OverridePrefix)
	if err != nil {
		return st, fmt.Errorf("read what was changed through the API: %w", err)
	}
	for _, o := range overrides {
		st.Overrides = append(st.Overrides, override{Task: o.Data.Task, Change: o.Data.String(), By: o.Data.By, At: o.Data.At})
	}
	return st, nil
}

func readTask(ctx context.Context, store state.Store, name string, t state.Task) (taskStatus, error) {
	var run state.Run
	if t.Run != nil {
		rec, err := state.Read[state.Run](ctx, store, state.RunKey(name, t.Run.ID))
		if err != nil {
			return taskStatus{}, fmt.Errorf("read run %s of task %s: %w", t.Run.ID, name, err)
		}
		run = rec.Data
	}
	sum := t.Summary(run)
	ts := taskStatus{Name: name, State: apispec.TaskState(sum.State), Reason: api.ReasonOf(sum.Reason), Due: timeOrNil(sum.Due),
		Applied: timeOrNil(t.AppliedAt), Failures: t.Failures}
	if run.ID != "" {
		shown := api.RunOf(run)
		ts.Run = &shown
	}
	if t.Last != nil {
		ts.Last = api.LastRunOf(name, t.Last)
	}
	if t.Pending != nil {
		ts.Changed = t.Pending.Changed
	}
	return ts, nil
}

func (c *statusCommand) print(st status, now time.Time) {
	line := func(format string, args ...any) { c.paragraph("", fmt.Sprintf(format, args...)) }
	switch {
	case st.Leader != nil:
		line("Leader: %s (fence %d)", st.Leader.Owner, st.Leader.Fence)
	case st.Bundle != "":
		// Nothing stands by: a tick leads only while there is something to do.
		line("Leader: none at this moment")
	default:
		line("Leader: none, nothing is watching Consul for this store")
	}
	if st.Bundle != "" {
		line("Bundle: %.12s", st.Bundle)
	}
	if st.Good != nil && st.Leader == nil && st.Bundle != "" {
		line("Last good tick noted: %s ago (one is noted every 5 minutes, and whenever something happens)", ago(now.Sub(*st.Good)))
	}
	if st.Problem != "" {
		line("Problem: %s", st.Problem)
	}
	switch {
	case st.Refused == nil:
	case deref(st.Refused.Bundle) == "" && st.Bundle != "":
		line("Problem, noticed %s ago: %s", ago(now.Sub(st.Refused.Since)), st.Refused.Error)
	case deref(st.Refused.Bundle) == "":
		line("Problem: the task files were changed %s ago, and what they say now is not in force: %s", ago(now.Sub(st.Refused.Since)), st.Refused.Error)
	default:
		line("Problem: bundle %.12s was refused %s ago and is not in force: %s", *st.Refused.Bundle, ago(now.Sub(st.Refused.Since)), st.Refused.Error)
	}
	if len(st.Tasks) == 0 {
		line("No task has been decided on yet.")
	} else {
		c.printTasks(st.Tasks, now)
	}
	if len(st.Overrides) > 0 {
		fmt.Fprintln(c.stdout, "\nChanged through the API, beside the task files:")
		for _, o := range st.Overrides {
			c.paragraph("  ", fmt.Sprintf("%s: %s, %s ago by %s", o.Task, o.Change, ago(now.Sub(o.At)), o.By))
		}
	}
}

// printTasks prints a row for each task, and below it why the task is in its
// state.
func (c *statusCommand) printTasks(tasks []taskStatus, now time.Time) {
	fmt.Fprintln(c.stdout)
	var tab table
	tab.row(plain, "TASK", "STATE", "LAST RUN", "NEXT DUE")
	for _, t := range tasks {
		name := t.Name
		if len([]rune(name)) > longName {
			tab.note("", name) // a name is never cut: it is there to be copied
			name = ""
		}
		n := plain
		switch t.State {
		case apispec.TaskStateApplied:
			n = good
		case apispec.TaskStateFailing:
			n = bad
		}
		tab.row(n, name, doing(t, now), lastRun(t, now), due(t, now))
		tab.note("  ", "why: "+why(t))
		if changed := changed(t); changed != "" {
			tab.note("  ", "changed: "+changed)
		}
	}
	tab.print(c.stdout)
}

// longName is the length from which on the name of a task has a line of its own:
// what stands beside it takes 48 columns at most.
const longName = 32

// doing is the state of a task and, of one that runs, for how long.
func doing(t taskStatus, now time.Time) string {
	if t.State == apispec.TaskStateRunning && t.Run != nil && t.Run.Started != nil {
		return fmt.Sprintf("%s %s", t.State, ago(now.Sub(*t.Run.Started)))
	}
	return string(t.State)
}

func lastRun(t taskStatus, now time.Time) string {
	if t.Last == nil || t.Last.Ended == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s ago", t.Last.State, ago(now.Sub(*t.Last.Ended)))
}

func due(t taskStatus, now time.Time) string {
	switch {
	case t.Due != nil && t.Due.After(now):
		return "in " + ago(t.Due.Sub(now))
	case t.Due != nil:
		return "now"
	case t.State == apispec.TaskStateDisabled || t.State == apispec.TaskStateRemoved:
		return "never"
	}
	return "on change"
}

// changed is what changed in Consul: what waits to be applied, else what the
// last run was for.
func changed(t taskStatus) string {
	switch {
	case t.Changed != "":
		return shorten(t.Changed, 66)
	case t.Last != nil && t.Last.Reason.Code == string(state.ReasonChanged):
		return shorten(t.Last.Reason.Text, 66)
	}
	return ""
}

// why is the reason of a task's state in at most two lines.
func why(t taskStatus) string {
	text := t.Reason.Text
	if t.Failures > 0 && t.Last != nil && deref(t.Last.Error) != "" {
		text += ": " + *t.Last.Error
	}
	return shorten(text, 140)
}

// shorten makes one line of at most limit characters of the text.
func shorten(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > limit {
		text = string(runes[:limit-1]) + "…"
	}
	return text
}

// ago is a duration as people say it.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
