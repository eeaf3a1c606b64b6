package notify

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/outbox"
	"github.com/terrapulse/terrapulse/internal/state"
)

// maxText is how much of an error or of a detail a message shows.
const maxText = 1500

const toApprove = "To approve: "

// Lines is an event in words: what happened, why, with which numbers, and what to do.
func Lines(e outbox.Event) []string {
	lines := []string{cmp.Or(e.Kind.About().Line, strings.ReplaceAll(string(e.Kind), "_", " "))}
	if e.Task != "" {
		lines[0] = e.Task + ": " + lines[0]
	}
	stack := "" // flag of a command
	if e.Stack != "" {
		stack = "-stack=" + e.Stack + " "
	}
	say := func(name, text string) {
		if runes := []rune(text); len(runes) > maxText {
			text = string(runes[:maxText]) + "…"
		}
		if text != "" {
			lines = append(lines, name+": "+text)
		}
	}
	why, entries := cmp.Or(e.Detail, e.Cause, strings.ReplaceAll(string(e.Reason), "_", " ")), e.Entries.String()
	if e.Run != "" && e.Cause != "" {
		why = e.Cause // why the run ended early
	}
	say("Why", why)
	if entries != "" && !strings.Contains(why, entries) {
		say("Changed in Consul", entries)
	}
	say("Error", e.Error)
	say("By", e.By)
	if c := e.Changes; c != nil {
		form := "%d added, %d changed, %d destroyed"
		if e.Kind == outbox.RunWaiting || e.Kind == outbox.DriftFound || e.RunKind != "" { // nothing is applied
			form = "%d to add, %d to change, %d to destroy"
		}
		say("Resources", fmt.Sprintf(form, c.Add, c.Change, c.Destroy))
	}
	if !e.Started.IsZero() && e.Kind != outbox.RunWaiting {
		say("Duration", e.At.Sub(e.Started).Round(time.Second/10).String())
	}
	if !e.Until.IsZero() {
		say("Until", e.Until.UTC().Format(time.RFC3339))
	}
	if e.Kind == outbox.RunWaiting && e.WaitFor == state.WaitApproval {
		lines = append(lines, toApprove+"terrapulse approve "+stack+e.Task)
	}
	see := e.URL
	if see == "" && stack != "" {
		see = "terrapulse ui " + strings.TrimSpace(stack)
	}
	say("See", see)
	say("In HCP Terraform", e.RemoteURL)
	if e.Links != nil && e.Kind.About().Level > slog.LevelInfo {
		say("Log", e.Links.Logs)
	}
	return lines
}
