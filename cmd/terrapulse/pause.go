package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
)

// pauseOutput is what pause and resume print with -json.
type pauseOutput struct {
	Paused *apispec.Paused `json:"paused,omitempty"` // what is in effect now
	Ended  *apispec.Paused `json:"ended,omitempty"`
}

var pauseAll = decisionCommand{
	name: "pause", synopsis: "Keep every task from running until somebody resumes",
	examples: []string{"-reason=\"maintenance of the firewalls\" -stack=terrapulse", "-http-addr=http://localhost:8558"},
	reason:   "Why, as a `text` that is recorded and shown.",
	usage: `Usage: terrapulse pause [flags]

  Keeps every task from running until ` + "`terrapulse resume`" + `, whatever changes or
  is requested. Runs that have begun go on; one that was only decided does not
  begin. Consul is still polled, and plans are still made; checks for drift and
  schedules wait. With -config-file or -store it writes to a store, with -stack
  to a deployment in AWS, else it uses the API of a running instance.
`,
	doAll: func(c *decisionCommand, at door) (int, error) {
		by := userAtHost()
		paused, err := at.Pause(c.ctx, apispec.PauseRequest{By: &by, Reason: apiview.Optional(c.given.reason)})
		if err != nil {
			return 0, err
		}
		if c.json {
			return c.printJSON(pauseOutput{Paused: &paused}), nil
		}
		fmt.Fprintf(c.stdout, "Paused %s. Nothing is applied until `terrapulse resume`. Runs that have begun go on.\n", pausedBy(paused))
		return exitOK, nil
	},
}

var resumeAll = decisionCommand{
	name: "resume", synopsis: "Let tasks run again after a pause",
	examples: []string{"-stack=terrapulse", "-http-addr=http://localhost:8558"},
	reason:   "Why, as a `text` that is recorded.",
	usage: `Usage: terrapulse resume [flags]

  Ends ` + "`terrapulse pause`" + `, and the pause with which a new deployment in AWS
  begins. Tasks with changes run at once, with what Consul shows then. Guards,
  windows and approvals still apply. With -config-file or -store it writes to a
  store, with -stack to a deployment in AWS, else it uses the API of a running
  instance.
`,
	doAll: func(c *decisionCommand, at door) (int, error) {
		by := userAtHost()
		ended, err := at.Resume(c.ctx, apispec.PauseRequest{By: &by, Reason: apiview.Optional(c.given.reason)})
		switch {
		case err != nil:
			return 0, err
		case c.json:
			return c.printJSON(pauseOutput{Ended: ended}), nil
		case ended == nil:
			fmt.Fprintln(c.stdout, "Nothing is paused.")
		default:
			fmt.Fprintf(c.stdout, "Resumed. It was paused %s.\n", pausedBy(*ended))
		}
		return exitOK, nil
	},
}

// pausedBy says who has paused, since when and why.
func pausedBy(p apispec.Paused) string {
	text := fmt.Sprintf("by %s since %s", p.By, at(&p.Since))
	if p.Reason != nil {
		text += ": " + *p.Reason
	}
	return text
}
