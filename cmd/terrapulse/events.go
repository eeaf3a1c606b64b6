package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/export"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// eventsCommand lists events.
func (a *app) eventsCommand() command {
	var from doorFlags
	var selected listFlags
	f := a.flagSet("events")
	from.register(f)
	selected.register(f, "", "events")
	var labels []string
	f.Func("label", "Print only events about tasks with this `label`, as in site=muc. Repeatable: all must hold.", func(s string) error {
		one, err := parsed("label", s)
		labels = append(labels, one.Labels...)
		return err
	})
	kind := f.String("kind", "", "Print only events of this `kind`, such as run_failed.")
	level := f.String("level", "", "Print only events of this `level` and above: info, warning or error.")
	text := f.String("text", "", "Print only events whose `text` or details have this part.")
	limit := f.Int("limit", 50, "Print at most this `number` of events; 0 prints all.")
	f.Lookup("json").Usage = "Print JSON, each event on a line of its own."
	return command{flags: f, synopsis: "List what happened",
		examples: []string{onFile, "-stack=network -level=warning -since=7d", "-stack=network -task=firewall -limit=0 -csv"}, codes: codesOfStore,
		values: map[string]complete.Predictor{"task": a.tasks(f, from.taskNames), "label": a.labels(f, &from)},
		help: `Usage: terrapulse events [flags]

  Lists events, the latest first: changes in Consul, runs, holds, approvals,
  changes through the API, and who leads. At least the latest 100,000 are kept.

  -label selects by the labels that tasks have now. Labels are in the task
  files: without an instance, name these.
`,
		run: func([]string) int {
			if err := checkEvents(&selected, a.json, *kind, *level, *limit); err != nil {
				return a.fail(exitFlags, err)
			}
			query, err := selected.query(time.Now(), map[string]string{"kind": *kind, "level": *level, "q": *text})
			if err != nil {
				return a.fail(exitFlags, err)
			}
			if len(labels) > 0 {
				query["label"] = labels
			}
			records, code := from.open(a, stores.Place.Read)
			if code >= 0 {
				return code
			}
			defer records.Close()
			err = printRows(a.stdout, selected.format(a.json), export.Events, *limit, query, func(query url.Values) ([]apispec.LatestEvent, string, error) {
				answer, err := records.Events(a.ctx, query)
				return answer.Events, apispec.Deref(answer.Next), err
			}, []string{"TIME", "TASK", "EVENT"}, eventRow)
			if err != nil {
				return a.fail(exitError, err)
			}
			return exitOK
		},
	}
}

// checkEvents refuses filters that select nothing because they are misspelt.
func checkEvents(l *listFlags, json bool, kind, level string, limit int) error {
	kinds := list.Map(outbox.Kinds(), func(k outbox.Kind) string { return string(k) })
	levels := list.Map(apiview.EventLevels, func(l apispec.EventLevel) string { return string(l) })
	switch {
	case kind != "" && !slices.Contains(kinds, kind):
		return fmt.Errorf("-kind is %q: write one of %s", kind, strings.Join(kinds, ", "))
	case level != "" && !slices.Contains(levels, level):
		return fmt.Errorf("-level is %q: write one of %s", level, strings.Join(levels, ", "))
	case limit < 0:
		return errors.New("-limit is " + strconv.Itoa(limit) + ": write how many events to print, or 0 for all")
	}
	return l.check(json)
}

// eventRow adds an event to a table.
func eventRow(t *table, e apispec.LatestEvent) {
	color := plain
	if e.Level != apispec.EventLevelInfo {
		color = bad
	}
	subject := "-"
	if e.Task != nil {
		subject = *e.Task
	}
	t.row(color, at(&e.At), subject, e.Text)
	details := apispec.Deref(e.Details)
	if e.By != nil {
		details = append(details, "By: "+*e.By)
	}
	if len(details) > 0 {
		t.line(strings.Join(details, "; "))
	}
}
