package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// perPage is how many tasks one page shows.
const perPage = 50

// tasksPage is the page of all tasks.
type tasksPage struct {
	Overview apispec.Overview       `json:"-"`
	Alerts   []string               `json:"alerts"` // what concerns all tasks
	Urgent   []apispec.TaskOverview `json:"needs_attention"`
	More     int                    `json:"more_need_attention"` // beyond Urgent
	Phases   []phaseCount           `json:"phases"`
	Tasks    []apispec.TaskOverview `json:"tasks"`
	Total    int                    `json:"total"`   // all tasks
	Matches  int                    `json:"matches"` // those that the filter selects
	Filter   filter                 `json:"filter"`
	Last     int                    `json:"pages"`
}

// phaseCount is how many tasks are in a phase.
type phaseCount struct {
	Phase apispec.Phase `json:"phase"`
	Count int           `json:"count"`
}

// filter is what a page of tasks selects, by the query of its URL.
type filter struct {
	Phase  string `json:"phase,omitempty"`
	Search string `json:"search,omitempty"`
	Sort   string `json:"sort"`
	Page   int    `json:"page"` // from 1
}

// maxUrgent is how many tasks the list of what needs attention shows.
const maxUrgent = 10

func (p *pages) tasks(r *http.Request) (view, error) {
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	return view{title: "Tasks", template: "tasks", data: tasksOf(o, r.URL.Query())}, nil
}

// tasksOf selects what the page of tasks shows.
func tasksOf(o apispec.Overview, query url.Values) tasksPage {
	f := filter{Phase: query.Get("phase"), Search: strings.TrimSpace(query.Get("q")), Sort: cmp.Or(query.Get("sort"), "name"), Page: 1}
	if n, err := strconv.Atoi(query.Get("page")); err == nil && n > 0 {
		f.Page = n
	}
	page := tasksPage{Overview: o, Alerts: alerts(o), Total: len(o.Tasks), Filter: f}
	counts := map[apispec.Phase]int{}
	for _, t := range o.Tasks {
		counts[t.Phase]++
		if urgency(t) > 0 {
			page.Urgent = append(page.Urgent, t)
		}
		if (f.Phase == "" || string(t.Phase) == f.Phase) && matches(t, f.Search) {
			page.Tasks = append(page.Tasks, t)
		}
	}
	for phase, n := range counts {
		page.Phases = append(page.Phases, phaseCount{phase, n})
	}
	slices.SortFunc(page.Phases, func(a, b phaseCount) int { return cmp.Compare(a.Phase, b.Phase) })
	slices.SortFunc(page.Urgent, byUrgency)
	if len(page.Urgent) > maxUrgent {
		page.More, page.Urgent = len(page.Urgent)-maxUrgent, page.Urgent[:maxUrgent]
	}
	order, ok := orders[f.Sort]
	if !ok {
		order, page.Filter.Sort = byName, "name"
	}
	slices.SortStableFunc(page.Tasks, order)
	page.Matches = len(page.Tasks)
	page.Last = max(1, (page.Matches+perPage-1)/perPage)
	page.Filter.Page = min(f.Page, page.Last)
	first := (page.Filter.Page - 1) * perPage
	page.Tasks = page.Tasks[first:min(first+perPage, page.Matches)]
	return page
}

// orders are how tasks can be sorted; unknown ones are as name.
var orders = map[string]func(a, b apispec.TaskOverview) int{
	"name":  byName,
	"phase": func(a, b apispec.TaskOverview) int { return cmp.Or(cmp.Compare(a.Phase, b.Phase), byName(a, b)) },
	"last":  func(a, b apispec.TaskOverview) int { return cmp.Or(lastEnded(b).Compare(lastEnded(a)), byName(a, b)) },
	"due": func(a, b apispec.TaskOverview) int {
		return cmp.Or(apispec.Deref(a.Due).Compare(apispec.Deref(b.Due)), byName(a, b))
	},
}

func byName(a, b apispec.TaskOverview) int { return cmp.Compare(a.Name, b.Name) }

func lastEnded(t apispec.TaskOverview) time.Time {
	return apispec.Deref(apispec.Deref(t.LastRun).Ended)
}

// matches reports whether a task is what people search for.
func matches(t apispec.TaskOverview, text string) bool {
	text = strings.ToLower(text)
	return text == "" || strings.Contains(strings.ToLower(t.Name), text) || strings.Contains(strings.ToLower(t.Reason.Text), text)
}

// Link is the address of the same page with another value.
func (f filter) Link(key, value string) string {
	q := url.Values{}
	set := func(k, v, standard string) {
		if k == key {
			v = value
		}
		if v != standard {
			q.Set(k, v)
		}
	}
	set("phase", f.Phase, "")
	set("q", f.Search, "")
	set("sort", f.Sort, "name")
	if key == "page" {
		set("page", "", "1")
	}
	if len(q) == 0 {
		return Root + "tasks"
	}
	return Root + "tasks?" + q.Encode()
}

// Page is the address of another page of the same selection.
func (f filter) PageLink(n int) string { return f.Link("page", strconv.Itoa(n)) }

// Previous and Next are the numbers of the neighbouring pages; 0 if there is none.
func (p tasksPage) Previous() int { return p.Filter.Page - 1 }

func (p tasksPage) Next() int {
	if p.Filter.Page >= p.Last {
		return 0
	}
	return p.Filter.Page + 1
}
