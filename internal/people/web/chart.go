package web

import (
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
)

// chart shows durations of the latest runs of a task as bars, the oldest on the left.
type chart struct {
	Title   string
	Summary string // in words
	Width   int
	Height  int
	Wide    int // on the screen, in pixels
	Bars    []bar
	Ticks   []tick
	From    time.Time // when the run of the first bar ended; zero if that bar is not at the left end
	To      time.Time // when that of the last bar ended
}

// bar is one run.
type bar struct {
	X, Y, Height int
	Tone         tone
	Label        string
}

// tick is a label of the axis.
type tick struct {
	Y     int
	Label string
}

const (
	chartRuns   = 50
	fewestBars  = 3  // fewer ones say less than the table
	leastBars   = 12 // for which there is space
	barPixels   = 14
	chartHeight = 100
	barWidth    = 10
)

// measure is something about runs that takes time.
type measure struct {
	title string
	of    func(apispec.Run) (d time.Duration, ok bool)
}

var measures = []measure{
	{"How long runs worked", apiview.Worked},
	{"From the change in Consul to the end of the apply, without waits", sinceSeen},
}

// chartsOf draws what there is to draw of the runs, of which the latest is the first.
func chartsOf(runs []apispec.Run) []chart {
	var all []chart
	for _, m := range measures {
		if c := chartOf(runs, m); len(c.Bars) >= fewestBars {
			all = append(all, c)
		}
	}
	return all
}

func chartOf(runs []apispec.Run, m measure) chart {
	c := chart{Title: m.title, Height: chartHeight}
	var shown []apispec.Run
	var took []time.Duration
	failed := 0
	for _, r := range slices.Backward(runs[:min(len(runs), chartRuns)]) {
		if d, ok := m.of(r); ok {
			shown, took = append(shown, r), append(took, d)
			if outcomeTone(r) == bad {
				failed++
			}
		}
	}
	if len(shown) == 0 {
		return c
	}
	top := above(slices.Max(took))
	scale := func(d time.Duration) int { return int(int64(chartHeight) * int64(d) / int64(top)) }
	places := max(leastBars, len(shown))
	c.Width, c.Wide = places*barWidth, places*barPixels
	for i, r := range shown {
		h := max(2, scale(took[i]))
		c.Bars = append(c.Bars, bar{X: (places - len(shown) + i) * barWidth, Y: chartHeight - h, Height: h, Tone: outcomeTone(r),
			Label: fmt.Sprintf("%s: %s, %s", clock.UTC(*r.Ended), apiview.Outcome(r), brief(took[i]))})
	}
	for _, part := range []time.Duration{top, top / 2, 0} {
		c.Ticks = append(c.Ticks, tick{chartHeight - scale(part), axis(part)})
	}
	if c.To = *shown[len(shown)-1].Ended; places == len(shown) {
		c.From = *shown[0].Ended
	}
	last := took[len(took)-1]
	slices.Sort(took)
	c.Summary = fmt.Sprintf("%s: the last %s, half at most %s, the longest %s", counted(len(shown), "run"), brief(last), brief(took[(len(took)-1)/2]), brief(took[len(took)-1]))
	if failed > 0 {
		c.Summary += fmt.Sprintf("; %d failed", failed)
	}
	return c
}

// sinceSeen is how long after its change a run was applied, without its waits.
func sinceSeen(r apispec.Run) (time.Duration, bool) {
	if r.Seen == nil || r.Ended == nil || r.State != apispec.RunStateSucceeded || r.Kind != apispec.RunKindApply {
		return 0, false
	}
	return max(0, r.Ended.Sub(*r.Seen)-waited(r)), true
}

// waited is how long a run has waited, such as for an approval.
func waited(r apispec.Run) time.Duration {
	return time.Duration(apispec.Deref(r.Waited) * float64(time.Second))
}

// axes are the durations at which an axis may end.
var axes = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 10 * time.Second, 20 * time.Second,
	40 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// above is the end of the axis for durations up to d.
func above(d time.Duration) time.Duration {
	for _, a := range axes {
		if a >= d {
			return a
		}
	}
	const day = 24 * time.Hour
	return (d + 2*day - 1) / (2 * day) * (2 * day) // half of it is whole days, too
}

// axis is a duration as a short label.
func axis(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
