package web_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

var (
	aTime   = regexp.MustCompile(`<time[^>]*>[^<]*</time>`)
	rightly = regexp.MustCompile(`^<time( class="date")? datetime="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ" title="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ">\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ</time>$`)
	// The words for a bar under the mouse are a text of SVG, in which no element can be: they have exact times in UTC.
	ofABar    = regexp.MustCompile(`<g><title>[^<]*</title>`)
	anyTag    = regexp.MustCompile(`<[^>]*>`)
	timeOfDay = regexp.MustCompile(`\b\d\d:\d\d\b|\d{4}-\d\d-\d\d|\d+ (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`)
)

// TestPages_WriteTimesByOneRule reads pages whose reasons, waits and runs have times.
func TestPages_WriteTimesByOneRule(t *testing.T) {
	s := newSiteOf(t, tasksOnWeb("web", "db", "dns")+"task {\n name = \"edge\"\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n labels = { site = \"muc\" }\n}\n")
	retried := s.ran("web", state.RunFailed, "no route to host")
	retried.Reason = state.Reason{Code: state.ReasonBackoff, Text: "retry number 5 at 2086-03-14T13:00:01+01:00"}
	s.write("web", retried)
	now := time.Now().UTC()
	s.write("db", state.Task{Stops: state.Stops{OnHold: &state.OnHold{By: "Jo", At: now.Add(-time.Hour)}}, Applied: state.Applied{At: now}, Reason: state.Reason{Code: state.ReasonUnchanged}})
	s.write("dns", state.Task{Applied: state.Applied{At: now}, Due: now.Add(time.Hour), Reason: state.Reason{Code: state.ReasonUnchanged, Text: "next scheduled at 2086-03-14T12:00:00Z"}})
	plan, text := poolPlan()
	waits := s.waits("edge", plan, text)
	waits.OnHold = &state.OnHold{By: "Jo", At: now.Add(-time.Hour), Comment: "until 2086-03-14T12:00:00Z"}
	waits.Reason = state.Reason{Code: state.ReasonWaiting, Text: "it waits until 2086-03-14T12:00:00Z"}
	s.write("edge", waits)
	planned := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: "web", Kind: state.KindPlan, State: state.RunSucceeded, Created: now, Times: state.Times{Started: now, Ended: now},
		WhatIf: &state.WhatIf{Supposed: "without node n7", Verdict: &state.Verdict{Outcome: state.WouldWindow, Text: "would wait for its window, which opens at 2086-03-14T13:00:00+01:00"}}}
	asked := state.Question{ID: uuid.Must(uuid.NewV7()).String(), Supposed: "without node n7", By: "Jo", Created: now, Tasks: 1, Runs: []state.Answering{{Task: "web", Run: planned.ID}}}
	s.put(state.RunKey("web", planned.ID), planned)
	s.put(state.QuestionKey(asked.ID), asked)
	found := 0
	for _, path := range []string{"/ui/tasks", "/ui/tasks?group=site", "/ui/tasks/web", "/ui/tasks/db", "/ui/tasks/dns", "/ui/tasks/edge", "/ui/tasks/web/runs/" + retried.Ended.Last.Run, "/ui/runs", "/ui/order",
		"/ui/map", "/ui/map?task=web", "/ui/approvals", "/ui/what-if/" + asked.ID, "/ui/events", "/ui/audit", "/ui/health"} {
		page, _ := s.page(path)
		if _, page, _ = strings.Cut(page, "<main"); page == "" || strings.Contains(page, "cannot be shown") {
			t.Errorf("%s: %s", path, page)
		}
		for _, one := range aTime.FindAllString(page, -1) {
			if found++; !rightly.MatchString(one) {
				t.Errorf("%s has %s", path, one)
			}
		}
		page, _, _ = strings.Cut(page, "<noscript>")
		if text := anyTag.ReplaceAllString(aTime.ReplaceAllString(ofABar.ReplaceAllString(page, ""), ""), " "); timeOfDay.MatchString(text) {
			at := timeOfDay.FindStringIndex(text)
			t.Errorf("%s has a time that its viewer's browser does not write: %s", path, text[max(0, at[0]-80):min(len(text), at[1]+40)])
		}
	}
	if found < 24 {
		t.Errorf("the pages have only %d times", found)
	}
	s.page("/ui/what-if/"+asked.ID, "2086-03-14T12:00:00Z</time>")
	s.page("/ui/tasks?group=site", "site")
}

// TestEventsPage_TakesTimesInTheZoneInWhichItShowsThem filters events of the morning of a day in winter.
func TestEventsPage_TakesTimesInTheZoneInWhichItShowsThem(t *testing.T) {
	s := newEventful(t) // at 8, 9, 10 and 11 o'clock in UTC, which is 9 to 12 in Berlin
	value := func(b *browsertest.Browser, label string) string {
		b.Fill(label, "")
		return browsertest.Eval[string](b, "document.activeElement.value")
	}
	b := browsertest.New(t)
	b.Zone("Europe/Berlin")
	b.Open(s.url + "/ui/events?since=2026-11-20+09:30")
	b.Until("Since (Europe/Berlin)", "Until (Europe/Berlin)", "no route to host")
	if got := value(b, "Since"); got != "2026-11-20 10:30" {
		t.Errorf("the page shows %q", got)
	}
	b.Fill("Until", "2026-11-2")
	s.happened(outbox.Event{Kind: outbox.RunFailed, Seq: 9, At: morning.Add(5 * time.Hour), Task: "dns", Run: "01a3", Error: "another error"})
	s.write("dns", s.ran("dns", state.RunFailed, "another error"))
	b.Until("another error") // the page has brought itself up to date
	if got := value(b, "Since"); got != "2026-11-20 10:30" {
		t.Errorf("up to date, the page shows %q", got)
	}
	if got := value(b, "Until"); got != "2026-11-2" {
		t.Errorf("what its reader has typed is %q now", got)
	}
	for _, c := range []struct{ since, until, query, shown, hidden string }{
		{"", "2026-11-20 11:30", "since=2026-11-20+09%3A30&until=2026-11-20+10%3A30", "no route to host", "another error"},
		{"2026-11-20T13:30", "", "since=2026-11-20+12%3A30", "another error", "no route to host"},
		{"2026-11-20", "", "since=2026-11-19+23%3A00", "no route to host", "web-0"},
		{"2026-07-20", "", "since=2026-07-19+22%3A00", "no route to host", "web-0"}, // summer
		{"2026-11-20T12:30:00Z", "", "since=2026-11-20T12%3A30%3A00Z", "another error", "no route to host"},
		{"2026-13-45", "", "since=2026-13-45", "no route to host", "web-0"}, // no time
	} {
		b.Open(s.url + "/ui/events?since=2026-11-20+09:30")
		b.Until("Europe/Berlin")
		for label, text := range map[string]string{"Since": c.since, "Until": c.until} {
			if text != "" {
				value(b, label)
				browsertest.Eval[bool](b, "document.activeElement.select() || true")
				b.Press(text)
			}
		}
		b.Click("Show")
		b.Comes(c.query)
		b.Until("Since (Europe/Berlin)", c.shown)
		if strings.Contains(b.Text("main"), c.hidden) {
			t.Errorf("%+v shows %s", c, c.hidden)
		}
	}
	b.Quiet()

	without := browsertest.New(t)
	without.Zone("Europe/Berlin")
	without.WithoutScripts()
	without.Open(s.url + "/ui/events?since=2026-11-20+09:30")
	without.Until("Since (UTC)", "Until (UTC)", "no route to host")
	if got := value(without, "Since"); got != "2026-11-20 09:30" {
		t.Errorf("without scripts, the page shows %q", got)
	}
}
