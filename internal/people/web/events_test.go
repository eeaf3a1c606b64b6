package web_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// happened writes events.
func (s *site) happened(events ...outbox.Event) {
	s.t.Helper()
	if _, err := s.store.Apply(s.t.Context(), outbox.NewEvents(events...).Changes()...); err != nil {
		s.t.Fatal(err)
	}
}

var morning = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

func newEventful(t *testing.T) *site {
	s := newSite(t, "web", "dns")
	s.happened(
		outbox.Event{Kind: outbox.LeadershipTaken, Seq: 1, At: morning, By: "net-1"},
		outbox.Event{Kind: outbox.HoldBegun, Seq: 2, At: morning.Add(time.Hour), Task: "web", By: "Ann <b>", Detail: "rack 7"},
		outbox.Event{Kind: outbox.RunFailed, Seq: 3, At: morning.Add(2 * time.Hour), Task: "dns", Run: "01a2", Error: "no route to host"},
		outbox.Event{Kind: outbox.HoldEnded, Seq: 4, At: morning.Add(3 * time.Hour), Task: "web", By: "=cmd()"},
	)
	return s
}

func TestEventsPage_PlanThatWaitsForAPersonIsAWarning(t *testing.T) {
	s := newSite(t, "web", "dns")
	s.happened(outbox.Event{Kind: outbox.RunWaiting, Seq: 1, At: morning, Task: "web", Run: "01a2", WaitFor: state.WaitApproval, Plan: "p1"},
		outbox.Event{Kind: outbox.RunWaiting, Seq: 2, At: morning, Task: "dns", Run: "01a3", WaitFor: state.WaitWindow})
	var page struct{ Events []apispec.LatestEvent }
	if err := json.Unmarshal([]byte(s.text("/ui/events.json?level=warning")), &page); err != nil || len(page.Events) != 1 || *page.Events[0].Task != "web" {
		t.Errorf("the warnings are %+v, %v", page.Events, err)
	}
}

func TestEventsPage_IsFilteredAndExported(t *testing.T) {
	s := newEventful(t)
	for query, want := range map[string]string{
		"":                        "hold_ended run_failed hold_begun leadership_taken",
		"?task=web":               "hold_ended hold_begun",
		"?kind=run_failed":        "run_failed",
		"?level=warning":          "run_failed hold_begun",
		"?level=error":            "run_failed",
		"?by=ANN":                 "hold_begun",
		"?q=NO+ROUTE":             "run_failed",
		"?since=2026-11-20T09:30": "hold_ended run_failed",
		"?since=2026-11-20T09:00:00Z&until=2026-11-20T10:00": "hold_begun",
		"?kind=bogus&level=bogus&since=bogus&task=dns":       "run_failed",
		"?task=nobody": "",
	} {
		var page struct{ Events []apispec.LatestEvent }
		if err := json.Unmarshal([]byte(s.text("/ui/events.json"+query)), &page); err != nil {
			t.Fatal(err)
		}
		var shown, lines, rows []string
		for _, e := range page.Events {
			shown = append(shown, e.Kind)
		}
		for line := range strings.Lines(s.text("/ui/events/export" + query)) {
			var e apispec.LatestEvent
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, e.Kind)
		}
		table, err := csv.NewReader(strings.NewReader(s.text("/ui/events/export?format=csv&" + strings.TrimPrefix(query, "?")))).ReadAll()
		if err != nil || len(table) == 0 {
			t.Fatal(table, err)
		}
		for _, row := range table[1:] {
			rows = append(rows, row[2])
			if strings.HasPrefix(row[6], "=") {
				t.Errorf("a spreadsheet computes %q", row[6])
			}
		}
		for what, got := range map[string][]string{"page": shown, "lines": lines, "table": rows} {
			if strings.Join(got, " ") != want {
				t.Errorf("%q: the %s has %v, want %s", query, what, got, want)
			}
		}
	}
}

func TestEventsPage_SearchesAndTurnsPagesInTheBrowser(t *testing.T) {
	s := newEventful(t)
	for i := range 240 {
		s.happened(outbox.Event{Kind: outbox.ChangeSeen, Seq: uint64(10 + i), At: morning.Add(time.Duration(i-300) * time.Minute), Task: "web", Detail: fmt.Sprintf("service web: +web-%03d", i)})
	}
	b := browsertest.New(t)
	b.Open(s.url + "/ui/events")
	b.Until("no route to host", "Ann <b>", "web-239", "The oldest event that is kept")
	b.Click("Older")
	b.Comes("before=")
	b.Until("web-143")
	if strings.Contains(b.Text("main"), "no route") {
		t.Error("the second page has what the first has")
	}
	b.Click("Older")
	b.Until("web-000")
	b.Click("Newest")
	b.Until("no route to host")
	b.Fill("Text", "route"+kb.Enter)
	b.Comes("q=route")
	b.Until("no route to host")
	if strings.Contains(b.Text("main"), "Ann") {
		t.Error("the search finds everything")
	}
	b.Accessible()
	b.Quiet()
}
