package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// statusCommand shows what is known of every task.
func (a *app) statusCommand() command {
	var from doorFlags
	var tasks taskFlags
	var onlyHealth bool
	f := a.flagSet("status")
	from.register(f)
	tasks.register(f)
	f.BoolVar(&onlyHealth, "health", false, "Print only whether Terrapulse does its work. With -http-addr this needs no token.")
	return command{flags: f, synopsis: "Show every task: its phase, why, last run, due time",
		examples: []string{onFile, "-stack=network", "-stack=network -phase failing -name 'web-*' -limit 20", "-stack=network -sort last -limit 20", "-store sqlite:/var/lib/terrapulse/terrapulse.db -json", "-health -http-addr http://localhost:8558"},
		codes:    codesOfStore,
		values: map[string]complete.Predictor{"label": a.labels(f, &from), "name": a.tasks(f, from.taskNames), "after": a.tasks(f, from.taskNames), "phase": complete.PredictSet(selection.Phases()...), "sort": complete.PredictSet(selection.Sorts...),
			"reason": complete.PredictSet(list.Map(lifecycle.Reasons, func(r lifecycle.Row) string { return string(r.Code) })...)},
		help: `Usage: terrapulse status [flags]

  Shows who leads and, for every task, its phase, the reason, the last run and
  when it is due next. It only reads, also while another process runs tasks.
  Name the task files of the instance, its store, or the stack of a deployment
  in AWS: without any, the store is looked for in the default working_dir.

  -phase, -name, -label, -enabled, -reason and -search select tasks, and -limit
  and -after list a part of them. The last lines then count all tasks, and say
  how to list the next part. Labels are in the task files, as are the data and
  the files that -search finds: without an instance, name the task files.

  -health prints one line and is for health checks: the exit code is 0 if
  Terrapulse does its work, and 11 if it does not or cannot be asked.
`,
		run: func([]string) int {
			records, code := from.open(a, stores.Place.Read)
			if code >= 0 {
				return code
			}
			defer records.Close()
			if onlyHealth {
				return a.health(records.Client)
			}
			tasks.Brief = !a.json
			parts := records.Overviews(a.ctx, tasks.Selection)
			if a.json {
				st, err := joined(parts)
				if err != nil {
					return a.fail(exitError, err)
				}
				return a.printJSON(st)
			}
			listed, err := a.printStatus(parts, time.Now())
			if err != nil {
				return a.fail(exitError, err)
			}
			if listed > 0 {
				return exitOK
			}
			if unknown := unknownLabels(a.ctx, records.Client, tasks.Labels); unknown != "" {
				a.paragraph("", "Note: "+unknown)
			}
			return exitOK
		},
	}
}

// health prints whether Terrapulse does its work.
func (a *app) health(records *apiclient.Client) int {
	err := records.Health(a.ctx)
	switch {
	case a.json:
		report := struct {
			Healthy   bool   `json:"healthy"`
			Unhealthy string `json:"unhealthy,omitempty"`
		}{Healthy: err == nil}
		code := exitOK
		if err != nil {
			report.Unhealthy, code = err.Error(), exitError
		}
		return cmp.Or(a.printJSON(report), code)
	case err == nil:
		fmt.Fprintln(a.stdout, "healthy")
	}
	return max(a.fail(exitError, err), exitOK)
}

func (a *app) printJSON(v any) int {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return a.fail(exitError, err)
	}
	return exitOK
}

// printSummary prints what concerns all tasks.
func (a *app) printSummary(st apispec.Overview, now time.Time) {
	bundle, inAWS := apispec.Deref(st.Bundle), st.Store != nil && st.Store.Kind == "dynamodb"
	line := func(format string, args ...any) { a.paragraph("", fmt.Sprintf(format, args...)) }
	switch {
	case st.Leader != nil:
		line("Leader: %s", st.Leader.Owner)
	case st.Store != nil && st.Store.Unwritable != nil:
		line("Leader: none, because nothing can lead without writing to the store")
	case inAWS || bundle != "":
		// In AWS a tick leads only while there is something to do.
		line("Leader: none at this moment")
	default:
		line("Leader: none, nothing is watching Consul for this store")
	}
	if st.Instances != nil {
		line("Runs: %s", strings.Join(list.Map(*st.Instances, func(i apispec.InstanceRoom) string {
			return fmt.Sprintf("%s has %d of %d", i.ID, i.Parallel-i.Room, i.Parallel)
		}), ", "))
		for _, i := range *st.Instances {
			if i.Differs != nil {
				line("Problem: %s gets no runs, because it differs from the leader in: %s", i.ID, strings.Join(*i.Differs, ", "))
			}
		}
	}
	if bundle != "" {
		line("Bundle: %.12s", bundle)
	}
	if inAWS && bundle == "" {
		line("Bundle: none is in force; `terrapulse bundle push` uploads task files")
	}
	if st.LastGoodTick != nil && st.Leader == nil && bundle != "" {
		line("Last good tick recorded: %s ago (one is recorded every 5 minutes, and whenever something happens)", ago(now.Sub(*st.LastGoodTick)))
	}
	if st.Paused != nil {
		line("Paused %s. Nothing is applied until `terrapulse resume`.", pausedBy(*st.Paused))
	}
	if st.Store != nil && st.Store.Unwritable != nil {
		line("Problem: %s", *st.Store.Unwritable)
	} else if st.Unhealthy != nil && (st.Leader != nil || bundle != "") {
		line("Unhealthy: %s", *st.Unhealthy)
	}
	if st.Problem != nil {
		line("Problem: %s", *st.Problem)
	}
	if st.Replaced != nil {
		line("Consul was replaced %s ago: %s", ago(now.Sub(st.Replaced.Since)), lossOf(*st.Replaced))
	}
	switch {
	case st.Refused == nil:
	case apispec.Deref(st.Refused.Bundle) == "" && bundle != "":
		line("Problem, noticed %s ago: %s", ago(now.Sub(st.Refused.Since)), st.Refused.Error)
	case apispec.Deref(st.Refused.Bundle) == "":
		line("Problem: the task files were changed %s ago and are not in force: %s", ago(now.Sub(st.Refused.Since)), st.Refused.Error)
	default:
		line("Problem: bundle %.12s was refused %s ago and is not in force: %s", *st.Refused.Bundle, ago(now.Sub(st.Refused.Since)), st.Refused.Error)
	}
	if st.URL != nil {
		line("Pages: %s", *st.URL)
	}
}

// newsOf is what a phase means to the reader.
func newsOf(p apispec.Phase) news {
	switch tone := lifecycle.Phase(p).Tone(); {
	case tone == lifecycle.Good:
		return good
	case tone == lifecycle.Bad, p == apispec.PhaseDrifted:
		return bad
	}
	return plain
}

// longName is the length from which on the name of a task has a line of its own:
// the other columns take up to 48.
const longName = 32

// phase is the phase of a task and, of one that runs, for how long.
func phase(t apispec.TaskOverview, now time.Time) string {
	if t.Phase == apispec.PhaseRunning && t.Run != nil && t.Run.Started != nil {
		return fmt.Sprintf("%s %s", t.Phase, ago(now.Sub(*t.Run.Started)))
	}
	return string(t.Phase)
}

func lastRun(t apispec.TaskOverview, now time.Time) string {
	if t.LastRun == nil || t.LastRun.Ended == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s ago", apiview.Latest(t), ago(now.Sub(*t.LastRun.Ended)))
}

func due(t apispec.TaskOverview, now time.Time) string {
	switch {
	case t.Due != nil && t.Due.After(now):
		return "in " + ago(t.Due.Sub(now))
	case t.Due != nil:
		return "now"
	case !t.Enabled, t.Phase == apispec.PhaseRemoved:
		return "never"
	}
	return "on change"
}

// changed is what has changed in Consul and waits to be applied, else what had changed before the
// last run.
func changed(t apispec.TaskOverview, now time.Time) string {
	switch {
	case apispec.Deref(t.Changed) != "":
		since := ""
		if t.ChangedSince != nil {
			since = " " + ago(now.Sub(*t.ChangedSince)) + " ago"
		}
		return "changed" + since + ": " + shorten(*t.Changed, 66)
	case t.LastRun != nil && t.LastRun.Reason.Code == state.ReasonChanged:
		return "last run: " + shorten(t.LastRun.Reason.Text, 66)
	}
	return ""
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
