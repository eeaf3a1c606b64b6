package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// attention is how much needs a person. The title and the icon of every page show it.
type attention struct {
	Alerts, Tasks int
	Known         bool   // the overview was read lately
	Paused        string // who has paused everything, and why; "" if nobody has
}

// Count is how many things need a person.
func (a attention) Count() int { return a.Alerts + a.Tasks }

func (a attention) String() string {
	var all []string
	if a.Alerts > 0 {
		all = append(all, counted(a.Alerts, "alert"))
	}
	if a.Tasks > 0 {
		all = append(all, counted(a.Tasks, "task"))
	}
	switch {
	case !a.Known:
		return ""
	case len(all) == 0:
		return "Nothing needs attention."
	case a.Count() == 1:
		return all[0] + " needs attention."
	}
	return strings.Join(all, " and ") + " need attention."
}

// counted is a number of things in words.
func counted(n int, thing string) string { return number(n) + " " + state.Plural(n, thing) }

// number is a number as people read it: 12,345.
func number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func attentionOf(o apispec.Overview) attention {
	return attention{Alerts: len(alerts(o)), Tasks: apispec.Deref(o.Counts).Attention, Known: true, Paused: pausedText(o.Paused)}
}

// attention is how much needs a person, as far as that has been read lately: no page
// reads the overview only for its title.
func (p *pages) attention() attention {
	kept, _ := p.source.recent(latestKey)
	if o, ok := kept.value.(snapshot); ok {
		return attentionOf(o.Overview)
	}
	return attention{}
}

// alert is something that is wrong with all of it.
type alert struct {
	Text  string     `json:"text"`
	Since *time.Time `json:"since,omitempty"`
}

// alerts are what is wrong with all of it, the worst first.
func alerts(o apispec.Overview) []alert {
	var all []alert
	problem, unhealthy := apispec.Deref(o.Problem), apispec.Deref(o.Unhealthy)
	if unhealthy != "" {
		all = append(all, alert{unhealthy, o.Since})
	}
	if problem != "" && !strings.Contains(unhealthy, problem) {
		all = append(all, alert{problem, o.Since})
	}
	unwritable := o.Store != nil && o.Store.Unwritable != nil                // which says why nobody leads
	if o.Leader == nil && !unwritable && o.Bundle == nil && o.Links == nil { // a deployment in AWS needs no leader between its ticks
		all = append(all, alert{Text: "Nobody leads: nothing watches Consul."})
	}
	if o.Paused != nil {
		all = append(all, alert{pausedText(o.Paused), &o.Paused.Since})
	}
	if o.Replaced != nil {
		all = append(all, alert{fmt.Sprintf("Consul is not the one whose data was applied: %s. %s.", o.Replaced.Why, waitingTasks(o.Replaced.Tasks)), &o.Replaced.Since})
	}
	if o.Refused != nil {
		all = append(all, alert{"A newer configuration is not in force: " + o.Refused.Error, &o.Refused.Since})
	}
	return all
}

// waitingTasks says how many tasks wait.
func waitingTasks(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return counted(n, "task") + " wait"
}

// pausedText says who has paused everything, and why; "" if nobody has.
func pausedText(p *apispec.Paused) string {
	if p == nil {
		return ""
	}
	text := "Paused by " + p.By
	if p.Reason != nil {
		text += ": " + *p.Reason
	}
	return text + ". Nothing is applied until somebody resumes."
}

// since is since when a task needs a person, as far as that is known.
func since(t *apispec.TaskOverview) *time.Time {
	switch {
	case t.Run != nil && t.Run.Wait != nil:
		return &t.Run.Wait.Since
	case t.Phase == apispec.PhaseFailing && t.LastRun != nil:
		return t.LastRun.Ended
	case t.Unverified != nil && (t.Phase == apispec.PhaseUnverified || t.NeedsPerson):
		return &t.Unverified.Since
	case t.Phase == apispec.PhaseDrifted && t.Drift != nil && t.Drift.Found != nil:
		return &t.Drift.Found.Since
	}
	return t.ChangedSince
}

// icon is the address of the icon that shows how much needs a person.
func (a attention) icon(version string) string {
	if a.Count() == 0 {
		return pageURL("static/icon.svg?v=" + version)
	}
	return fmt.Sprintf("%s?n=%d&v=%s", pageURL("icon.svg"), min(a.Count(), mostInIcon+1), version)
}

// mostInIcon is the highest number that can be read in an icon.
const mostInIcon = 9

// icon sends the program's icon, with a number if something needs a person.
func (p *pages) icon(w http.ResponseWriter, r *http.Request) {
	raw, _ := files.ReadFile("static/icon.svg") // it is embedded
	if n, _ := strconv.Atoi(r.URL.Query().Get("n")); n > 0 {
		text := strconv.Itoa(n)
		if n > mostInIcon {
			text = strconv.Itoa(mostInIcon) + "+"
		}
		badge := `<circle cx="21" cy="21" r="11" fill="#b3261e" stroke="#fff" stroke-width="1.5"/>` +
			`<text x="21" y="26.5" text-anchor="middle" font-family="sans-serif" font-weight="700" font-size="15" fill="#fff">` + text + `</text></svg>`
		raw = bytes.Replace(raw, []byte("</svg>"), []byte(badge), 1)
	}
	sendStatic(w, contentTypes[".svg"], raw)
}
