package notify

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// maxText is how much of an error or of a detail a message shows.
const maxText = 1500

const toApprove = "To approve: "

// maxNames is how many tasks a message names.
const maxNames = 20

// headline says what happened, and to what.
func headline(e outbox.Event) string {
	line := cmp.Or(e.Kind.About().Line, strings.ReplaceAll(string(e.Kind), "_", " "))
	one := map[outbox.Kind]outbox.Kind{outbox.TasksUnreadable: outbox.TaskUnreadable, outbox.TasksReadable: outbox.TaskReadable}[e.Kind]
	switch {
	case e.Task != "":
		return e.Task + ": " + line
	case len(e.Tasks) == 1 && one != "":
		return e.Tasks[0] + ": " + one.About().Line
	case one != "":
		return fmt.Sprintf("%d %s", e.Count, line) // it begins with "tasks"
	case len(e.Tasks) > 0:
		return fmt.Sprintf("%d tasks: %s", e.Count, line)
	}
	return line
}

// Lines is an event in words: what happened, why, with which numbers, and what to do.
func Lines(e outbox.Event) []string {
	lines := []string{headline(e)}
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
	say("Before", e.Former)
	say("Why", why)
	if entries != "" && !strings.Contains(why, entries) {
		say("Changed in Consul", entries)
	}
	if len(e.Tasks) > 1 {
		names := strings.Join(e.Tasks[:min(len(e.Tasks), maxNames)], ", ")
		if more := e.Count - maxNames; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		say("Tasks", names)
	}
	say("Error", e.Error)
	switch ended := e.Kind == outbox.ConsulFound || e.Kind == outbox.TasksReadable || e.Kind == outbox.TaskRecovered || e.Kind == outbox.TaskVerified; {
	case e.Since.IsZero():
	case ended:
		say("It lasted", e.At.Sub(e.Since).Round(time.Second).String())
	case e.Failures > 1:
		say("Failing", fmt.Sprintf("%d runs in a row, since %s", e.Failures, clock.UTC(e.Since)))
	}
	if e.Count > 0 && len(e.Tasks) == 0 {
		say("Tasks concerned", strconv.Itoa(e.Count))
	}
	say("By", e.By)
	if e.Approvals > 0 {
		say("Approvals", fmt.Sprintf("%d of %d that are needed", e.Approvals, e.Needs))
	}
	if c := e.Changes; c != nil {
		text := c.String()
		if e.Kind == outbox.RunWaiting || e.Kind == outbox.DriftFound || e.RunKind != "" { // nothing is applied
			text = c.ToDo()
		}
		say("Resources", text)
	}
	if took := e.Worked(); took > 0 {
		say("Duration", took.Round(time.Second/10).String())
	}
	if !e.Until.IsZero() {
		say("Until", clock.UTC(e.Until))
	}
	if e.Kind == outbox.RunWaiting && e.WaitFor == state.WaitApproval {
		lines = append(lines, toApprove+state.PlanCommand("approve", e.Plan, stack, e.Task))
	}
	see := e.URL
	if see == "" && stack != "" {
		see = "terrapulse ui " + strings.TrimSpace(stack)
	}
	say("See", see)
	say("In HCP Terraform", e.RemoteURL)
	if e.Links != nil && e.Level() > slog.LevelInfo {
		say("Log", e.Links.Logs)
	}
	return lines
}
