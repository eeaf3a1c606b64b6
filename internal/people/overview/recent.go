package overview

import (
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// recentOf returns the newest runs of a task that have ended; nil if there are none.
func recentOf(t state.Task) *[]apispec.RecentRun {
	runs := t.RecentRuns()
	if len(runs) == 0 {
		return nil
	}
	shown := make([]apispec.RecentRun, len(runs))
	for i, r := range runs {
		shown[i] = apispec.RecentRun{ID: r.ID, State: apispec.RunState(r.State), Kind: apispec.RunKind(r.Kind), Ended: r.Ended, Seconds: apiview.Optional(r.Took.Seconds())}
	}
	return &shown
}
