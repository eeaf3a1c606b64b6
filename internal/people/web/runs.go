package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// runsPage are the latest runs of all tasks, as many as the API lists at once. The page of a task has
// earlier ones.
type runsPage struct {
	States []tab         `json:"states"`
	Runs   []apispec.Run `json:"runs"`
	Total  int           `json:"total"`
	paging
	Filter filter `json:"filter"`
}

func (p *pages) runs(r *http.Request) (view, error) {
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	latest, err := read(r.Context(), p.source, "runs", func(ctx context.Context) ([]apispec.Run, error) { return p.source.LatestRuns(ctx, apiclient.MaxRuns) })
	return view{title: "Runs", template: "runs", shown: o.topics, data: runsOf(latest, r.URL.Query())}, err
}

// runsOf selects what the page of runs shows, the latest first.
func runsOf(latest []apispec.Run, query url.Values) runsPage {
	page := runsPage{Filter: runsFilter(query), Total: len(latest)}
	f := &page.Filter
	counts := map[apispec.RunState]int{}
	for _, run := range latest {
		counts[run.State]++
		if (f.State == "" || f.State == string(run.State)) && f.finds(run.Task, run.Reason.Text, apispec.Deref(run.Error), string(run.State), string(run.Kind)) {
			page.Runs = append(page.Runs, run)
		}
	}
	page.States = []tab{{Name: "all", Count: page.Total}}
	for _, state := range runStates {
		if counts[state] > 0 || string(state) == f.State {
			page.States = append(page.States, tab{Name: string(state), Value: string(state), Count: counts[state], Tone: runTone(state)})
		}
	}
	f.finish(page.States, "state", f.State)
	slices.SortFunc(page.Runs, func(a, b apispec.Run) int {
		return cmp.Or(lastMoment(b).Compare(lastMoment(a)), cmp.Compare(b.ID, a.ID))
	})
	page.Runs, page.paging = paged(page.Runs, f)
	return page
}

// runStates are in the order in which people look for them.
var runStates = []apispec.RunState{
	apispec.RunStateRunning, apispec.RunStateWaiting, apispec.RunStateIntended, apispec.RunStateFailed, apispec.RunStateLost, apispec.RunStateInterrupted,
	apispec.RunStateSucceeded, apispec.RunStateUnchanged, apispec.RunStateCancelled, apispec.RunStateSuperseded,
}

// lastMoment is when a run ended; of a live one, later than that of all that ended.
func lastMoment(run apispec.Run) time.Time {
	if run.Ended == nil {
		return run.Created.AddDate(100, 0, 0)
	}
	return *run.Ended
}
