package web

import (
	"cmp"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// chart shows the latest runs of a task: a bar for how long each one worked, and a
// dot for how long it took from the change to the end of the apply.
type chart struct {
	Width, Height int
	Bars          []bar
	Top           string // the longest duration
}

type bar struct {
	X, Y, Height, Dot int // Dot is 0 if the run was for no change
	Tone              tone
	Label             string
	Run               apispec.Run
}

const (
	chartRuns   = 40
	chartHeight = 80
	barWidth    = 10
)

// chartOf draws the latest runs, the oldest on the left.
func chartOf(runs []apispec.Run) chart {
	c := chart{Width: chartRuns * barWidth, Height: chartHeight}
	var longest time.Duration
	var shown []apispec.Run
	for _, r := range runs { // the latest is the first
		if r.Started != nil && r.Ended != nil && len(shown) < chartRuns {
			shown = append(shown, r)
			longest = max(longest, r.Ended.Sub(*r.Started), sinceSeen(r))
		}
	}
	longest = cmp.Or(longest, time.Second)
	scale := func(d time.Duration) int { return int(int64(chartHeight-4) * int64(d) / int64(longest)) }
	for i, r := range shown {
		worked, after := r.Ended.Sub(*r.Started), sinceSeen(r)
		h := max(2, scale(worked))
		b := bar{X: c.Width - (i+1)*barWidth, Y: chartHeight - h, Height: h, Tone: runTone(r.State), Run: r}
		b.Label = fmt.Sprintf("%s, %s, worked %s", r.Ended.UTC().Format("2 Jan 15:04:05 UTC"), r.State, brief(worked))
		if after > 0 {
			b.Dot = chartHeight - max(2, scale(after))
			b.Label += ", " + brief(after) + " after the change"
		}
		c.Bars = append(c.Bars, b)
	}
	c.Top = brief(longest)
	return c
}

// sinceSeen is how long after its change a run was applied; 0 if it was not.
func sinceSeen(r apispec.Run) time.Duration {
	if r.Seen == nil || r.Ended == nil || r.State != apispec.RunStateSucceeded {
		return 0
	}
	return r.Ended.Sub(*r.Seen)
}
