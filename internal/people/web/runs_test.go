package web

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestRuns_ShowTheLiveOnesFirst(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(minutes int) *time.Time { at := now.Add(time.Duration(minutes) * time.Minute); return &at }
	latest := []apispec.Run{
		{ID: "d", Task: "dns", State: apispec.RunStateRunning, Created: now},
		{ID: "a", Task: "web", State: apispec.RunStateFailed, Ended: at(1)},
		{ID: "c", Task: "web", State: apispec.RunStateFailed, Ended: at(3), Error: new("no route"), Reason: apispec.Reason{Text: "service api"}},
		{ID: "b", Task: "dns", State: apispec.RunStateSucceeded, Ended: at(2)},
	}
	for query, want := range map[string][]string{"": {"d", "c", "b", "a"}, "state=failed": {"c", "a"}, "q=ROUTE": {"c"}, "q=dns": {"d", "b"}, "q=api&state=succeeded": nil} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		page := runsOf(latest, values)
		var got []string
		for _, r := range page.Runs {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
		if page.Total != 4 || page.Matches != len(want) {
			t.Errorf("%q: %d of %d runs", query, page.Matches, page.Total)
		}
	}
}

func TestDigests_GatesMoveOnlyWhatShowsThem(t *testing.T) {
	o := some(apispec.TaskOverview{Name: "web"})
	before := digestsOf(o)
	o.Gates = &[]apispec.Gate{{Name: "nodes"}}
	after := digestsOf(o)
	if before[everything] == after[everything] || before[""] != after[""] || before["web"] != after["web"] {
		t.Errorf("before %v, after %v", before, after)
	}
}
