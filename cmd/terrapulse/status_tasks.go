package main

import (
	"errors"
	"flag"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// taskFlags are which tasks a command lists.
type taskFlags struct{ selection.Selection }

func (t *taskFlags) register(f *flag.FlagSet) {
	f.Func("phase", "List only tasks in this `phase`, or attention for those that need a person, or approval for those whose plan waits. Repeatable.", func(s string) error {
		one, err := parsed("phase", s)
		t.Phases = append(t.Phases, one.Phases...)
		return err
	})
	f.StringVar(&t.Name, "name", "", "List only tasks whose name has this `part`. With * or ?, as in 'web-*', the whole name must match.")
	f.Func("label", "List only tasks with this `label`, as in site=muc; with site=muc,ber those with one of these, with site= those without it. Repeatable: all must hold.", func(s string) error {
		one, err := parsed("label", s)
		t.Labels = append(t.Labels, one.Labels...)
		return err
	})
	f.BoolFunc("enabled", "List only tasks that are enabled; with -enabled=false, only the others.", func(s string) error {
		one, err := parsed("enabled", s)
		t.Enabled = one.Enabled
		return err
	})
	f.StringVar(&t.Reason, "reason", "", "List only tasks whose reason has this `code`, such as backing_off.")
	f.StringVar(&t.Search, "search", "", "List only tasks with each of these `words` in the name, the reason, the changes, the watched data, the labels or the file.")
	f.Func("sort", "List in this `order`: "+strings.Join(selection.Sorts, ", ")+"; with - before it, the opposite. Default: name if tasks are selected, otherwise that of the task files.", func(s string) error {
		one, err := parsed("sort", s)
		t.Sort = one.Sort
		return err
	})
	f.StringVar(&t.After, "after", "", "List only the tasks that follow this `task`: the next part of a list that -limit has cut.")
	f.Func("limit", "List at most this `number` of tasks. Default: all.", func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return errors.New("give a number from 0 on")
		}
		t.Selection = t.First(n)
		return nil
	})
}

// parsed is the selection of one parameter. The flag package adds its name to the error.
func parsed(key, value string) (selection.Selection, error) {
	s, err := selection.Parse(url.Values{key: {value}})
	if wrong := (*selection.Error)(nil); errors.As(err, &wrong) {
		err = errors.New(wrong.Hint)
	}
	return s, err
}

// joined reads all parts of an overview. What concerns all tasks is from the first part.
func joined(parts iter.Seq2[apispec.Overview, error]) (apispec.Overview, error) {
	var whole *apispec.Overview
	for part, err := range parts {
		if err != nil {
			return part, err
		}
		if whole == nil {
			whole = &part
			continue
		}
		whole.Tasks, whole.Next = append(whole.Tasks, part.Tasks...), part.Next
	}
	return apispec.Deref(whole), nil
}

// printStatus prints an overview whose tasks come in parts, as they come.
func (a *app) printStatus(parts iter.Seq2[apispec.Overview, error], now time.Time) (listed int, err error) {
	var whole apispec.Overview
	var next *string
	common, began := commonReasons{}, false
	for part, err := range parts {
		if err != nil {
			return listed, err
		}
		if !began {
			whole, began = part, true
			a.printSummary(part, now)
		}
		if len(part.Tasks) > 0 {
			common.add(part.Tasks)
			a.printTasks(part.Tasks, common, now)
		}
		listed, next = listed+len(part.Tasks), part.Next
	}
	for _, text := range common.texts() {
		fmt.Fprintln(a.stdout)
		a.paragraph("", text)
	}
	switch counts := apispec.Deref(whole.Counts); {
	case counts.All > listed:
		a.paragraph("", fmt.Sprintf("\nListed: %d of %s (%s)", listed, plural(counts.All, "task", "tasks"), phasesOf(counts)))
	case listed == 0:
		a.paragraph("", "No task has been decided on yet.")
	}
	if next != nil {
		a.paragraph("", fmt.Sprintf("More tasks follow: add -after='%s'", *next))
	}
	if len(whole.Overrides) > 0 {
		fmt.Fprintln(a.stdout, "\nChanged through the API, beside the task files:")
		for _, o := range whole.Overrides {
			a.paragraph("  ", fmt.Sprintf("%s: %s, %s ago by %s", o.Task, o.Change, ago(now.Sub(o.At)), apispec.Deref(o.By)))
		}
	}
	return listed, nil
}

// phasesOf says how many tasks are in each phase.
func phasesOf(counts apispec.TaskCounts) string {
	var all []string
	for _, phase := range selection.Phases() {
		if n := counts.Phases[phase]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, phase))
		}
	}
	return strings.Join(all, ", ")
}

// printTasks prints a row for each task of a part, and below it why the task is in its
// phase, unless many tasks have that in common.
func (a *app) printTasks(tasks []apispec.TaskOverview, common commonReasons, now time.Time) {
	fmt.Fprintln(a.stdout)
	var tab table
	tab.row(plain, "TASK", "PHASE", "LAST RUN", "NEXT DUE")
	for _, t := range tasks {
		name := t.Name
		if len([]rune(name)) > longName {
			tab.note("", name) // a name is never cut: it is there to be copied
			name = ""
		}
		tab.row(newsOf(t.Phase), name, phase(t, now), lastRun(t, now), due(t, now))
		if why := common.without(t); why != "" {
			tab.note("  ", "why: "+why)
		}
		if t.Run != nil && t.Run.Remote != nil {
			tab.note("  ", "in HCP Terraform: "+t.Run.Remote.URL)
		}
		if changed := changed(t, now); changed != "" {
			tab.note("  ", changed)
		}
	}
	tab.print(a.stdout)
}
