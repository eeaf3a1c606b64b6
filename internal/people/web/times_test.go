package web_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

var (
	aTime     = regexp.MustCompile(`<time[^>]*>[^<]*</time>`)
	rightly   = regexp.MustCompile(`^<time( class="date")? datetime="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ" title="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ">\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ</time>$`)
	anyTag    = regexp.MustCompile(`<[^>]*>`)
	timeOfDay = regexp.MustCompile(`\d\d:\d\d|\d{4}-\d\d-\d\d|\d+ (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`)
)

// TestPages_WriteTimesByOneRule reads pages whose reasons, waits and runs have times.
func TestPages_WriteTimesByOneRule(t *testing.T) {
	s := newSite(t, "web", "db", "dns")
	retried := s.ran("web", state.RunFailed, "no route to host")
	retried.Reason = state.Reason{Code: state.ReasonBackoff, Text: "retry number 5 at 2086-03-14T13:00:01+01:00"}
	s.write("web", retried)
	now := time.Now().UTC()
	s.write("db", state.Task{Stops: state.Stops{OnHold: &state.OnHold{By: "Jo", At: now.Add(-time.Hour)}}, Observation: state.Observation{AppliedAt: now}, Reason: state.Reason{Code: state.ReasonUnchanged}})
	s.write("dns", state.Task{Observation: state.Observation{AppliedAt: now}, Due: now.Add(time.Hour), Reason: state.Reason{Code: state.ReasonUnchanged, Text: "next scheduled at 2086-03-14T12:00:00Z"}})
	found := 0
	for _, path := range []string{"/ui/tasks", "/ui/tasks/web", "/ui/tasks/db", "/ui/tasks/dns", "/ui/tasks/web/runs/" + retried.Last.Run, "/ui/runs", "/ui/order", "/ui/events", "/ui/audit", "/ui/health"} {
		page, _ := s.page(path)
		_, page, _ = strings.Cut(page, "<main")
		for _, one := range aTime.FindAllString(page, -1) {
			if found++; !rightly.MatchString(one) {
				t.Errorf("%s has %s", path, one)
			}
		}
		page, _, _ = strings.Cut(page, "<noscript>")
		if text := anyTag.ReplaceAllString(aTime.ReplaceAllString(page, ""), " "); timeOfDay.MatchString(text) {
			t.Errorf("%s has a time that its viewer's browser does not write: %s", path, timeOfDay.FindString(text))
		}
	}
	if found < 12 {
		t.Errorf("the pages have only %d times", found)
	}
}
