package main

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

// eventsCommand lists the latest events.
func (a *app) eventsCommand() command {
	var from recordFlags
	f := a.flagSet("events")
	from.register(f)
	return command{flags: f, synopsis: "List what happened last",
		examples: []string{onFile, "-stack=network", "-http-addr http://localhost:8558 -json"}, codes: codesOfStore,
		help: fmt.Sprintf(`Usage: terrapulse events [flags]

  Lists the latest %d events, the latest first: changes in Consul, runs, holds,
  approvals, changes through the API, and who leads.
`, outbox.MaxLatest),
		run: func([]string) int {
			records, code := from.open(a)
			if code >= 0 {
				return code
			}
			defer records.Close()
			events, err := records.Events(a.ctx)
			if err != nil {
				return a.fail(exitError, err)
			}
			if a.json {
				return a.printJSON(events)
			}
			var t table
			t.row(plain, "TIME", "TASK", "EVENT")
			for _, e := range events {
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
			t.print(a.stdout)
			return exitOK
		},
	}
}
