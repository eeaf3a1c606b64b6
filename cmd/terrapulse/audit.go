package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/audit"
)

// auditCommand prints the audit record.
func (a *app) auditCommand() command {
	c := &decisionCommand{app: a, name: "audit", reads: true}
	f := a.flagSet(c.name)
	c.store.register(f)
	c.api.register(f)
	f.Lookup("http-addr").Usage += " Not used with -config-file, -config-dir or -store, which name a store."
	since := f.String("since", "24h", "How far back to look, as a `duration` such as 12h or 30d.")
	task := f.String("task", "", "Print only entries about this `task`.")
	by := f.String("by", "", "Print only what people or programs did whose `name` has this part.")
	action := f.String("action", "", "Print only entries of this `action`, such as approve.")
	return command{flags: f, synopsis: "Print who did or decided what", examples: []string{"-since=30d -task=firewall", "-by=alice -action=approve -json"}, codes: codesOfStore, help: `Usage: terrapulse audit [flags]

  Prints who changed or decided what, the latest first, with what proves the
  name and where the request came from. With -json, each entry is a line of
  JSON. With -config-file or -store it reads a store, else it uses the API of a
  running instance.
`, run: func(arguments []string) int {
		if len(arguments) > 0 {
			return a.fail(exitFlags, fmt.Errorf("%s takes no arguments", c.name))
		}
		length, err := lifetime(*since)
		if err != nil {
			return a.fail(exitFlags, errors.New(strings.Replace(err.Error(), "-expires", "-since", 1)))
		}
		if known := list.Map(audit.Actions, func(a audit.Action) string { return string(a) }); *action != "" && !slices.Contains(known, *action) {
			return a.fail(exitFlags, fmt.Errorf("-action is %q: write one of %s", *action, strings.Join(known, ", ")))
		}
		place, code := c.open()
		if code >= 0 {
			return code
		}
		defer place.Close()
		query := url.Values{"since": {time.Now().Add(-length).UTC().Format(time.RFC3339)}, "limit": {"1000"}}
		for name, value := range map[string]string{"task": *task, "by": *by, "action": *action} {
			if value != "" {
				query.Set(name, value)
			}
		}
		if err := c.printAudit(place, query); err != nil {
			return c.problem("unable to read the audit record", err)
		}
		return exitOK
	}}
}

// printAudit prints what a query selects, page by page.
func (c *decisionCommand) printAudit(place decisions, query url.Values) error {
	var t table
	t.row(plain, "TIME", "ACTION", "TASK", "BY", "PROOF", "FROM", "DETAIL")
	for {
		entries, more, err := place.Audit(c.ctx, query)
		if err != nil {
			return err
		}
		for i := range entries {
			e := &entries[i]
			if c.json {
				line, err := json.Marshal(e)
				if err != nil {
					return fmt.Errorf("print an entry: %w", err)
				}
				fmt.Fprintf(c.stdout, "%s\n", line)
				continue
			}
			t.row(plain, at(&e.At), string(e.Action), apispec.Deref(e.Task), e.By, e.Proof, apispec.Deref(e.From), auditDetail(*e))
		}
		if !more || len(entries) == 0 {
			break
		}
		query.Set("before", entries[len(entries)-1].ID)
	}
	if !c.json {
		t.print(c.stdout)
	}
	return nil
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

func (s storeDecisions) Audit(ctx context.Context, query url.Values) ([]apispec.AuditEntry, bool, error) {
	entries, more, err := audit.List(ctx, s.Store, apiview.AuditFilter(query, time.Now()), func(audit.Entry) bool { return true })
	return list.Map(entries, apiview.AuditEntry), more, err
}
