package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
)

// statusCommand shows what is known of every task.
type statusCommand struct{ *app }

func (c *statusCommand) Synopsis() string {
	return "Show every task: its state, why, its last run, when it is due"
}

func (c *statusCommand) Help() string {
	f, _, _ := c.flags()
	return `Usage: terrapulse status [flags]

  Shows what the store knows: who leads, and for every task what it does and
  why, its last run and when it is due next. It reads only, also while another
  process runs tasks. Name the task files of the instance, or its store: without
  either the store is looked for in the default working_dir.
` + describe(f)
}

func (c *statusCommand) flags() (*flag.FlagSet, *storeFlags, *bool) {
	f := newFlags("status")
	return f, registerStore(f), f.Bool("json", false, "Print JSON, for scripts.")
}

// status is what -json prints.
type status struct {
	Leader  *leader    `json:"leader,omitempty"`
	Good    *time.Time `json:"last_good_tick,omitempty"`
	Bundle  string     `json:"bundle,omitempty"` // in force; "" where the configuration is read from files
	Problem string     `json:"problem,omitempty"`
	// Refused is a newer configuration that is not in force because it is wrong.
	Refused *state.Refused `json:"refused,omitempty"`
	Tasks   []taskStatus   `json:"tasks"`
	// Overrides are what was changed through the API, beside the files.
	Overrides []state.Override `json:"overrides,omitempty"`
}

type leader struct {
	Owner string    `json:"owner"`
	Fence uint64    `json:"fence"`
	Until time.Time `json:"until"`
}

type taskStatus struct {
	Task    string        `json:"task"`
	State   string        `json:"state"`
	Reason  state.Reason  `json:"reason"`
	Run     string        `json:"run,omitempty"` // under way
	Due     *time.Time    `json:"due,omitempty"`
	Changed string        `json:"changed,omitempty"` // in Consul, and not yet applied
	Applied *time.Time    `json:"applied,omitempty"`
	Failed  int           `json:"failures,omitempty"` // in a row
	Last    *state.Result `json:"last_run,omitempty"`
}

func (c *statusCommand) Run(args []string) int {
	f, from, asJSON := c.flags()
	if code := c.parseAll(f, args, c.Help()); code >= 0 {
		return code
	}
	store, code := c.openStore(from)
	if code >= 0 {
		return code
	}
	defer store.Close()
	st, err := readStatus(c.ctx, store, time.Now())
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
	st.Good, st.Problem = timeOrNil(rec.Data.Good), rec.Data.Problem
	st.Bundle, st.Refused = rec.Data.Bundle, rec.Data.Refused
	if st.Problem == "" {
		st.Problem = rec.Data.Stalled
	}
	held, err := lease.Read(ctx, store, reconcile.LeaseName)
	if err != nil {
		return st, fmt.Errorf("read who leads: %w", err)
	}
	if held.Owner != "" && now.Before(held.Expires) {
		st.Leader = &leader{Owner: held.Owner, Fence: held.Fence, Until: held.Expires}
	}
	tasks, err := state.ReadAll[state.Task](ctx, store, state.TaskPrefix)
	if err != nil {
		return st, fmt.Errorf("read the tasks' records: %w", err)
	}
	for _, t := range tasks {
		s := t.Data
		ts := taskStatus{Task: state.TaskName(t.Key), State: taskState(s), Reason: s.Reason, Due: timeOrNil(s.Due),
			Applied: timeOrNil(s.AppliedAt), Failed: s.Failures, Last: s.Last}
		if s.Run == nil {
			settled(&ts, s)
		} else {
			ts.Run = s.Run.ID
			run, err := state.Read[state.Run](ctx, store, state.RunKey(ts.Task, ts.Run))
			if err != nil {
				return st, fmt.Errorf("read run %s of task %s: %w", ts.Run, ts.Task, err)
			}
			if run.Data.State == state.RunIntended {
				ts.State = "waiting"
				ts.Reason.Text = fmt.Sprintf("run %s waits for its turn: %s", ts.Run, run.Data.Reason.Text)
			}
		}
		if s.Pending != nil {
			ts.Changed = s.Pending.Changed
		}
		st.Tasks = append(st.Tasks, ts)
	}
	overrides, err := state.ReadAll[state.Override](ctx, store, state.OverridePrefix)
	if err != nil {
		return st, fmt.Errorf("read what was changed through the API: %w", err)
	}
	for _, o := range overrides {
		st.Overrides = append(st.Overrides, o.Data)
	}
	return st, nil
}

// settled puts right what nobody has looked at since the task's run ended,
// because no one leads.
func settled(ts *taskStatus, s state.Task) {
	if s.Reason.Kind == state.ReasonRunning && s.Last != nil {
		ts.Reason = s.Last.Reason
	}
	if s.Failures > 0 && s.Due.IsZero() {
		ts.Due = timeOrNil(s.RetryAt)
	}
}

// taskState is one word for what a task is at.
func taskState(s state.Task) string {
	switch {
	case s.Run != nil:
		return "running"
	case s.Reason.Kind == state.ReasonDisabled, s.Reason.Kind == state.ReasonRemoved:
		return string(s.Reason.Kind)
	case s.Failures > 0:
		return "failing"
	case s.Interrupted():
		return "interrupted"
	case s.Reason.Kind == state.ReasonConsul, s.Reason.Kind == state.ReasonBuffering, s.Reason.Kind == state.ReasonBlocked:
		return "waiting"
	case s.AppliedAt.IsZero():
		return "new"
	}
	return "applied"
}

func (c *statusCommand) print(st status, now time.Time) {
	switch {
	case st.Leader != nil:
		fmt.Fprintf(c.stdout, "Leader: %s (fence %d)\n", st.Leader.Owner, st.Leader.Fence)
	case st.Bundle != "":
		// Nothing stands by: a tick leads only while there is something to do.
		fmt.Fprintln(c.stdout, "Leader: none at this moment")
	default:
		fmt.Fprintln(c.stdout, "Leader: none, nothing is watching Consul for this store")
	}
	if st.Bundle != "" {
		fmt.Fprintf(c.stdout, "Bundle: %.12s\n", st.Bundle)
	}
	if st.Good != nil && st.Leader == nil && st.Bundle != "" {
		fmt.Fprintf(c.stdout, "Last good tick noted: %s ago (one is noted every 5 minutes, and whenever something happens)\n", ago(now.Sub(*st.Good)))
	}
	if st.Problem != "" {
		fmt.Fprintf(c.stdout, "Problem: %s\n", st.Problem)
	}
	switch {
	case st.Refused == nil:
	case st.Refused.Bundle == "" && st.Bundle != "":
		fmt.Fprintf(c.stdout, "Problem, noticed %s ago: %s\n", ago(now.Sub(st.Refused.Since)), st.Refused.Error)
	case st.Refused.Bundle == "":
		fmt.Fprintf(c.stdout, "Problem: the task files were changed %s ago, and what they say now is not in force: %s\n",
			ago(now.Sub(st.Refused.Since)), st.Refused.Error)
	default:
		fmt.Fprintf(c.stdout, "Problem: bundle %.12s was refused %s ago and is not in force: %s\n",
			st.Refused.Bundle, ago(now.Sub(st.Refused.Since)), st.Refused.Error)
	}
	if len(st.Overrides) > 0 {
		defer c.printOverrides(st.Overrides, now)
	}
	if len(st.Tasks) == 0 {
		fmt.Fprintln(c.stdout, "No task has been decided on yet.")
		return
	}
	fmt.Fprintln(c.stdout)
	var tab table
	tab.row(plain, "TASK", "STATE", "LAST RUN", "NEXT DUE", "CHANGED", "WHY")
	for _, t := range st.Tasks {
		last := "-"
		if t.Last != nil {
			last = fmt.Sprintf("%s %s ago", t.Last.State, ago(now.Sub(t.Last.Ended)))
			if t.Last.Changes != nil {
				last += " (" + t.Last.Changes.String() + ")"
			}
		}
		due := "on change"
		if t.State == "disabled" || t.State == "removed" {
			due = "never"
		}
		if t.Due != nil {
			due = "now"
			if wait := t.Due.Sub(now); wait > 0 {
				due = "in " + ago(wait)
			}
		}
		n := plain
		switch t.State {
		case "applied":
			n = good
		case "failing":
			n = bad
		}
		tab.row(n, t.Task, t.State, last, due, changed(t), why(t))
	}
	tab.print(c.stdout)
}

// printOverrides prints what was changed through the API.
func (c *statusCommand) printOverrides(overrides []state.Override, now time.Time) {
	fmt.Fprintln(c.stdout)
	var tab table
	tab.row(plain, "CHANGED BESIDE THE FILES", "HOW", "WHEN", "BY")
	for _, o := range overrides {
		tab.row(plain, o.Task, o.String(), ago(now.Sub(o.At))+" ago", o.By)
	}
	tab.print(c.stdout)
}

// changed is what changed in Consul: what waits to be applied, else what the
// last run was for.
func changed(t taskStatus) string {
	switch {
	case t.Changed != "":
		return shorten(t.Changed, 40)
	case t.Last != nil && t.Last.Reason.Kind == state.ReasonChanged:
		return shorten(t.Last.Reason.Text, 40)
	}
	return "-"
}

// why is one line for people.
func why(t taskStatus) string {
	text := t.Reason.Text
	if t.Failed > 0 && t.Last != nil && t.Last.Error != "" {
		text += ": " + t.Last.Error
	}
	return shorten(text, 120)
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
