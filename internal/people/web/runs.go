package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// runsPage are the runs of all tasks that are kept in the tasks' records: the live one
// and the latest ones of each.
type runsPage struct {
	States []tab         `json:"states"`
	Runs   []apispec.Run `json:"runs"`
	Total  int           `json:"total"`
	paging
	Filter filter `json:"filter"`
}

func (p *pages) runs(r *http.Request) (view, error) {
	o, err := p.source.selected(r.Context(), everyTask)
	if err != nil {
		return view{}, err
	}
	latest, err := read(r.Context(), p.source, "runs", p.source.LatestRuns)
	return view{title: "Runs", template: "runs", shown: o.topics, data: runsOf(o.Overview, latest, r.URL.Query())}, err
}

// runsOf selects what the page of runs shows, the latest first. Of the latest runs more
// is known than their tasks' records say.
func runsOf(o apispec.Overview, latest []apispec.Run, query url.Values) runsPage {
	page := runsPage{Filter: runsFilter(query)}
	f := &page.Filter
	known := make(map[string]bool, len(latest))
	counts := map[apispec.RunState]int{}
	add := func(run apispec.Run) {
		if known[run.ID] {
			return
		}
		known[run.ID] = true
		counts[run.State]++
		page.Total++
		if (f.State == "" || f.State == string(run.State)) && f.finds(run.Task, run.Reason.Text, apispec.Deref(run.Error), string(run.State), string(run.Kind)) {
			page.Runs = append(page.Runs, run)
		}
	}
	for _, run := range latest {
		add(run)
	}
	for _, t := range o.Tasks {
		if t.Run != nil {
			add(*t.Run)
		}
		if t.LastRun != nil {
			add(*t.LastRun)
		}
		for _, run := range apispec.Deref(t.Recent) {
			add(recentRun(t.Name, run))
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

// recentRun is a run of which only little is known.
func recentRun(task string, run apispec.RecentRun) apispec.Run {
	r := apispec.Run{ID: run.ID, Task: task, Kind: run.Kind, State: run.State, Created: run.Ended, Ended: &run.Ended}
	if run.Seconds != nil {
		r.Created = run.Ended.Add(-time.Duration(*run.Seconds * float64(time.Second)))
		r.Started = &r.Created
	}
	return r
}
