package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// runsThatTook returns runs, the latest first, that worked as long as given. The latest one
// waited for an hour, too.
func runsThatTook(took ...time.Duration) []apispec.Run {
	var runs []apispec.Run
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for i, d := range took {
		r := apispec.Run{ID: "r", Task: "web", State: apispec.RunStateSucceeded, Kind: apispec.RunKindApply}
		started, seen := at, at.Add(-time.Second)
		if i == 0 {
			r.Waited = new(time.Hour.Seconds())
			d += time.Hour
		}
		ended := at.Add(d)
		r.Started, r.Seen, r.Ended = &started, &seen, &ended
		runs, at = append(runs, r), at.Add(-24*time.Hour)
	}
	return runs
}

func TestCharts_MeasureRunsWithoutTheirWaits(t *testing.T) {
	runs := runsThatTook(3*time.Second, 7*time.Second, 2*time.Second, 9*time.Second)
	runs[1].State = apispec.RunStateFailed
	runs = append(runs, apispec.Run{ID: "live", State: apispec.RunStateRunning})
	charts := chartsOf(runs)
	if len(charts) != 2 {
		t.Fatalf("%+v", charts)
	}
	if got, want := charts[0].Summary, "4 runs: the last 3.0 s, half at most 3.0 s, the longest 9.0 s; 1 failed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := charts[1].Summary, "3 runs: the last 4.0 s, half at most 4.0 s, the longest 10.0 s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var heights []int
	for _, b := range charts[0].Bars {
		heights = append(heights, b.Height)
	}
	if want := []int{90, 20, 70, 30}; !slices.Equal(heights, want) {
		t.Errorf("of an axis of 10 s the bars, the oldest first, take %v %%, want %v", heights, want)
	}
	if last := charts[0].Bars[3]; last.X+barWidth != charts[0].Width || !strings.Contains(last.Label, "3.0 s") {
		t.Errorf("the latest run is not at the right end: %+v", last)
	}
	if charts := chartsOf(runsThatTook(time.Second, time.Second)); len(charts) > 0 {
		t.Errorf("two runs make a chart: %+v", charts)
	}
}

func TestCharts_HaveAnAxisThatEndsAboveEveryBar(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Millisecond: "100 ms", time.Second: "1 s", 1100 * time.Millisecond: "2 s", 41 * time.Second: "1 min", 3 * time.Hour: "4 h", 30 * time.Hour: "2 days", 100 * time.Hour: "6 days",
	} {
		if got := axis(above(d)); got != want || above(d) < d {
			t.Errorf("the axis for %s ends at %s, want %s", d, got, want)
		}
	}
}
