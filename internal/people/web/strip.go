package web

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// strip shows how the latest runs of a task ended: a bar each, the latest on the right.
// The bar of a run that failed is the highest.
type strip struct {
	Paths []stripPath
	Label string
}

// stripPath are the bars of one tone.
type stripPath struct {
	Tone tone
	D    string
}

const (
	stripHeight = 16
	stripStep   = 6 // the width of a bar and its gap
	stripBar    = 4
)

// stripHeights are the heights of the bars; those of other tones are low.
var stripHeights = map[tone]int{bad: stripHeight, good: 9, busy: 9, ask: 9}

func stripOf(t apispec.TaskOverview) *strip {
	runs := apispec.Deref(t.Recent)
	if len(runs) == 0 {
		return nil
	}
	runs = runs[max(0, len(runs)-state.RecentRuns):]
	bars := map[tone]*strings.Builder{}
	counts := map[string]int{}
	var s strip
	var outcomes []string
	for i, run := range runs {
		tone, outcome := runTone(run.State), string(run.State)
		if t.Unverified != nil && t.Unverified.Run == run.ID {
			tone, outcome = bad, apiview.NotVerified
		}
		if bars[tone] == nil {
			bars[tone] = new(strings.Builder)
			s.Paths = append(s.Paths, stripPath{Tone: tone})
		}
		height := max(4, stripHeights[tone])
		x := (state.RecentRuns - len(runs) + i) * stripStep
		fmt.Fprintf(bars[tone], "M%d %dh%dv%dh-%dz", x, stripHeight-height, stripBar, height, stripBar)
		if counts[outcome]++; counts[outcome] == 1 {
			outcomes = append(outcomes, outcome)
		}
	}
	for i := range s.Paths {
		s.Paths[i].D = bars[s.Paths[i].Tone].String()
	}
	words := list.Map(outcomes, func(how string) string { return fmt.Sprintf("%d %s", counts[how], how) })
	s.Label = counted(len(runs), "latest run") + ": " + strings.Join(words, ", ")
	return &s
}
