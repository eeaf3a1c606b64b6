package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// functions are what templates call.
var functions = template.FuncMap{
	"deref":        deref,
	"stamp":        stamp,
	"took":         took,
	"short":        short,
	"digest":       func(d string) string { return d[:min(len(d), 12)] },
	"tone":         toneOf,
	"firstOf":      firstOf,
	"moreOf":       moreOf,
	"outcome":      apiview.Outcome,
	"outcomeTone":  outcomeTone,
	"latest":       apiview.Latest,
	"latestTone":   latestTone,
	"changes":      changes,
	"task":         taskURL,
	"onMap":        func(name string) string { return mapURL(selection.Map{Task: name}) },
	"nodeOnMap":    func(name *string) string { return mapURL(selection.Map{Node: *name}) },
	"serviceOnMap": func(name *string) string { return mapURL(selection.Map{Service: *name}) },
	"escape":       url.PathEscape,
	"run":          func(r apispec.Run) string { return runURL(r.Task, r.ID) },
	"remote":       func(r apispec.Run) string { return remoteURL(&r) },
	"what":         selection.What,
	"unlisted": func(e *apispec.EntryChanges) int {
		return max(0, e.Added+e.Removed+e.Changed-len(apispec.Deref(e.Entries)))
	},
	"list":        apispec.Deref[[]apispec.EntryChange],
	"texts":       apispec.Deref[[]string],
	"sign":        func(a apispec.EntryAction) string { return signs[a] },
	"join":        strings.Join,
	"prose":       prose,
	"lead":        lead,
	"after":       after,
	"add":         func(a, b int) int { return a + b },
	"column":      func(f filter, name, label string) column { return column{label, f.SortLink(name), f.Sorted(name)} },
	"pieces":      pieces,
	"eventLink":   eventLink,
	"level":       func(l apispec.EventLevel) tone { return levels[l] },
	"memberState": memberState,
	"storeName":   func(kind string) string { return cmp.Or(storeNames[kind], kind) },
	"strip":       stripOf,
	"since":       since,
	"number":      number,
	"calm": func(t *apispec.TaskOverview) bool {
		return selection.Urgency(t) == 0 && slices.Contains([]tone{good, calm, absent}, toneOf(t.Phase))
	},
	"deciding":     selection.Deciding,
	"why":          whyOf,
	"waitingTasks": waitingTasks,
	"counted":      counted,
	"labelsOf":     selection.LabelsOf,
	"labels":       func(t apispec.TaskOverview) []string { return selection.LabelsOf(&t) },
	"line":         firstLine,
}

// column is the head of a column by which a list can be sorted.
type column struct{ Label, Link, Sorted string }

// signs of what happened to an entry, as in a plan.
var signs = map[apispec.EntryAction]string{apispec.EntryActionAdded: "+", apispec.EntryActionRemoved: "−", apispec.EntryActionChanged: "~"}

// tone is what a phase or an outcome means to the reader; a class of the style sheet.
type tone = lifecycle.Tone

const (
	calm   = lifecycle.Calm
	good   = lifecycle.Good
	busy   = lifecycle.Busy
	ask    = lifecycle.Ask
	bad    = lifecycle.Bad
	absent = lifecycle.Absent
)

func toneOf(p apispec.Phase) tone { return lifecycle.Phase(p).Tone() }

func runTone(s apispec.RunState) tone {
	switch s {
	case apispec.RunStateSucceeded, apispec.RunStateUnchanged:
		return good
	case apispec.RunStateFailed, apispec.RunStateLost:
		return bad
	case apispec.RunStateWaiting:
		return ask
	case apispec.RunStateIntended, apispec.RunStateRunning, apispec.RunStateInterrupted:
		return busy
	case apispec.RunStateSuperseded, apispec.RunStateCancelled:
		return calm
	}
	return calm
}

// outcomeTone is the tone of a run. One that was not verified did not do what it should.
func outcomeTone(r apispec.Run) tone {
	if apiview.Outcome(r) == apiview.NotVerified {
		return bad
	}
	return runTone(r.State)
}

// latestTone is the tone of the latest run of a task that has ended.
func latestTone(t apispec.TaskOverview) tone {
	if apiview.Unproven(t) {
		return bad
	}
	return runTone(t.LastRun.State)
}

// prose is a text of the program, in which commands are between backquotes. The script
// of the page writes its times in the viewer's zone.
func prose(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			b.WriteString("<code>" + template.HTMLEscapeString(part) + "</code>")
			continue
		}
		end := 0
		for _, at := range dates.FindAllStringIndex(part, -1) {
			b.WriteString(template.HTMLEscapeString(part[end:at[0]]) + date(part[at[0]:at[1]]))
			end = at[1]
		}
		b.WriteString(template.HTMLEscapeString(part[end:]))
	}
	return template.HTML(b.String())
}

// dates are the times in texts of the program.
var dates = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)`)

// date shows a time in a sentence.
func date(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return element(t, ` class="date"`)
}

// element shows a time without a script, and exactly when the mouse is over it.
func element(t time.Time, class string) string {
	text := clock.UTC(t)
	return fmt.Sprintf(`<time%s datetime="%s" title="%s">%s</time>`, class, text, text, text)
}

// lead is the part of a reason that says why, without the commands to use: a page has
// links for them.
func lead(text string) template.HTML {
	why, _, _ := strings.Cut(text, "; `")
	return prose(why)
}

// storeNames are what people call the kinds of stores.
var storeNames = map[string]string{"sqlite": "SQLite", "consul": "Consul KV", "dynamodb": "DynamoDB"}

// memberState is what an instance of a cluster does, and what that means.
func memberState(m apispec.ClusterMember) tab {
	switch state := apispec.Deref(m.State); {
	case state == apispec.MemberStateLeads || m.Leader:
		return tab{Name: "leads", Tone: good}
	case state == apispec.MemberStateSilent:
		return tab{Name: "silent", Tone: bad}
	case !m.Healthy:
		return tab{Name: "unhealthy", Tone: bad}
	}
	return tab{Name: "stands by", Tone: calm}
}

// taskURL is the address of the page of a task.
func taskURL(name string) string { return pageURL("tasks/" + url.PathEscape(name)) }

// pageURL returns the path of a page.
func pageURL(name string) string { return outbox.PagesPath + name }

// deref returns what an optional text or number of the API is; its zero value if it
// is missing.
func deref(v any) any {
	p := reflect.ValueOf(v)
	switch {
	case p.Kind() != reflect.Pointer:
		return v
	case p.IsNil():
		return reflect.Zero(p.Type().Elem()).Interface()
	}
	return p.Elem().Interface()
}

// stamp shows a time that is in no sentence: how long ago it was, or in how long it will be. The
// script of the page writes that, and keeps it right.
func stamp(v any) template.HTML {
	t, _ := deref(v).(time.Time)
	if t.IsZero() {
		return ""
	}
	return template.HTML(element(t, ""))
}

// short is the end of an id, which tells it from others: it begins with the time.
func short(id string) string { return id[max(0, len(id)-8):] }

// took is how long a run worked, without its waits, in words; "" if it has not ended.
func took(r *apispec.Run) string {
	if r != nil {
		if d, ok := apiview.Worked(*r); ok {
			return brief(d)
		}
	}
	return ""
}

// after is how long after its change a run was applied, in words; "" if it was not.
func after(r apispec.Run) string {
	if d, ok := sinceSeen(r); ok {
		return brief(d)
	}
	return ""
}

// brief is a duration as people say it.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// changes are the numbers of a run as Terraform's users know them.
func changes(c *apispec.Changes) string {
	switch {
	case c == nil:
		return ""
	case apispec.Deref(c.Unknown):
		return "unknown"
	}
	return fmt.Sprintf("+%d ~%d -%d", c.Add, c.Change, c.Destroy)
}

// value shows a value of a plan.
func value(v any) string {
	switch v := v.(type) {
	case nil:
		return "–"
	case string:
		return v
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// pieces are the parts of what changed between which a line may break.
func pieces(changed string) []string { return between.FindAllString(changed, -1) }

var between = regexp.MustCompile(`(?s).+?(?:[,;] |$)`)
