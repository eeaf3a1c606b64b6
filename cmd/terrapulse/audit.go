package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/export"
	"github.com/terrapulse/terrapulse/internal/record/audit"
)

// auditCommand prints the audit record.
func (a *app) auditCommand() command {
	c := &decisionCommand{app: a, name: "audit", reads: true}
	f := a.flagSet(c.name)
	c.place.registerActing(f)
	var selected listFlags
	selected.register(f, "24h", "entries")
	action := f.String("action", "", "Print only entries of this `action`, such as approve.")
	f.Lookup("json").Usage = "Print JSON, each entry on a line of its own."
	return command{flags: f, synopsis: "Print who did or decided what", examples: []string{"-since=30d -task=firewall", "-by=alice -action=approve -json"}, codes: codesOfStore,
		values: map[string]complete.Predictor{"task": a.tasks(f, c.place.taskNames)}, help: `Usage: terrapulse audit [flags]

  Prints who changed or decided what, the latest first, with what proves the
  name and where the request came from. With -config-file or -store it reads a
  store, else it uses the API of a running instance.
`, run: func(arguments []string) int {
			if len(arguments) > 0 {
				return a.fail(exitFlags, fmt.Errorf("%s takes no arguments", c.name))
			}
			query, err := selected.query(time.Now(), map[string]string{"action": *action})
			if err == nil {
				err = selected.check(a.json)
			}
			if err != nil {
				return a.fail(exitFlags, err)
			}
			if known := list.Map(audit.Actions, func(a audit.Action) string { return string(a) }); *action != "" && !slices.Contains(known, *action) {
				return a.fail(exitFlags, fmt.Errorf("-action is %q: write one of %s", *action, strings.Join(known, ", ")))
			}
			place, code := c.open()
			if code >= 0 {
				return code
			}
			defer place.Close()
			if err := c.printAudit(place, query, selected.format(a.json)); err != nil {
				return c.problem("unable to read the audit record", err)
			}
			return exitOK
		}}
}

// printAudit prints what a query selects.
func (c *decisionCommand) printAudit(place door, query url.Values, f export.Format) error {
	return printRows(c.stdout, f, export.Audit, 0, query, func(query url.Values) ([]apispec.AuditEntry, string, error) {
		answer, err := place.Audit(c.ctx, query)
		return answer.Entries, apispec.Deref(answer.Next), err
	}, []string{"TIME", "ACTION", "TASK", "BY", "PROOF", "FROM", "DETAIL"}, auditRow)
}

// auditRow adds an entry to a table.
func auditRow(t *table, e apispec.AuditEntry) {
	t.row(plain, at(&e.At), string(e.Action), apispec.Deref(e.Task), e.By, e.Proof, apispec.Deref(e.From), auditDetail(e))
}

// auditDetail is what an entry says beside who did what.
func auditDetail(e apispec.AuditEntry) string {
	all := []string{apispec.Deref(e.Detail)}
	if plan := apispec.Deref(e.Plan); plan != "" {
		all = append(all, "plan "+plan[:min(len(plan), shortestPlan)])
	}
	all = append(all, apispec.Deref(e.Comment))
	var said []string
	for _, text := range all {
		if text != "" {
			said = append(said, text)
		}
	}
	return strings.Join(said, "; ")
}
