package web

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestRuns_ShowEachRunOnceTheLiveOnesFirst(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(minutes int) *time.Time { at := now.Add(time.Duration(minutes) * time.Minute); return &at }
	last := apispec.Run{ID: "c", Task: "web", State: apispec.RunStateFailed, Ended: at(3), Error: new("no route"), Reason: apispec.Reason{Text: "service api"}}
	o := some(
		apispec.TaskOverview{Name: "web", LastRun: &apispec.Run{ID: "c", Task: "web", State: apispec.RunStateFailed, Ended: at(3)},
			Recent: &[]apispec.RecentRun{{ID: "a", State: apispec.RunStateFailed, Ended: *at(1)}, {ID: "c", State: apispec.RunStateFailed, Ended: *at(3)}}},
		apispec.TaskOverview{Name: "dns", Run: &apispec.Run{ID: "d", Task: "dns", State: apispec.RunStateRunning, Created: now},
			Recent: &[]apispec.RecentRun{{ID: "b", State: apispec.RunStateSucceeded, Ended: *at(2)}}})
	for query, want := range map[string][]string{"": {"d", "c", "b", "a"}, "state=failed": {"c", "a"}, "q=ROUTE": {"c"}, "q=dns": {"d", "b"}, "q=api&state=succeeded": nil} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		page := runsOf(o, []apispec.Run{last}, values)
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
	if got := runsOf(o, []apispec.Run{last}, nil).Runs[1]; apispec.Deref(got.Error) != "no route" {
		t.Errorf("what is known of a run is lost: %+v", got)
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
