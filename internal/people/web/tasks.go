package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// tasksPage is the page of all tasks.
type tasksPage struct {
	Alerts []alert                 `json:"alerts"` // what concerns all tasks
	Urgent []*apispec.TaskOverview `json:"needs_attention"`
	More   int                     `json:"more_need_attention"` // beyond Urgent
	Tabs   []tab                   `json:"phases"`
	Tasks  []*apispec.TaskOverview `json:"tasks"`
	Total  int                     `json:"total"` // all tasks
	ForAll *action                 `json:"for_all,omitempty"`

	Groups     []*sameTrouble  `json:"-"` // Urgent and more, with equal reasons joined
	MoreUrgent int             `json:"-"` // tasks that no group has
	Replaced   *replacedBanner `json:"-"`

	paging
	Filter filter `json:"filter"`
}

// filter is what a page of tasks or runs selects, by the query of its URL.
type filter struct {
	path   string
	Phase  string `json:"phase,omitempty"` // of tasks; needsAttention selects those of several phases
	State  string `json:"state,omitempty"` // of runs
	Search string `json:"search,omitempty"`
	Sort   string `json:"sort,omitempty"` // the opposite order with a - before it
	Page   int    `json:"page"`           // from 1
}

// needsAttention in place of a phase selects the tasks that need a person.
const needsAttention = "attention"

// maxUrgent is how many tasks the list of what needs attention shows.
const maxUrgent = 10

func filterOf(path string, query url.Values) filter {
	f := filter{path: path, Phase: query.Get("phase"), State: query.Get("state"), Search: strings.TrimSpace(query.Get("q")), Sort: query.Get("sort"), Page: 1}
	if n, err := strconv.Atoi(query.Get("page")); err == nil && n > 0 {
		f.Page = n
	}
	return f
}

func (p *pages) tasks(r *http.Request) (view, error) {
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	return view{title: "Tasks", template: "tasks", shown: o.topics, data: tasksOf(o.Overview, r.URL.Query())}, nil
}

// tasksOf selects what the page of tasks shows.
func tasksOf(o apispec.Overview, query url.Values) tasksPage {
	page := tasksPage{Replaced: replacedOf(o), Urgent: []*apispec.TaskOverview{}, Tasks: []*apispec.TaskOverview{}, Total: len(o.Tasks), Filter: filterOf(pageURL("tasks"), query)}
	others := o
	others.Replaced = nil // the banner says it
	page.Alerts = alerts(others)
	if o.Paused != nil {
		resume := forAll(o)
		page.ForAll = &resume
	}
	f := &page.Filter
	counts := map[apispec.Phase]int{}
	for i := range o.Tasks {
		t := &o.Tasks[i]
		counts[t.Phase]++
		if urgency(t) > 0 {
			page.Urgent = append(page.Urgent, t)
		}
		if f.selects(t) {
			page.Tasks = append(page.Tasks, t)
		}
	}
	page.Tabs = []tab{{Name: "all", Count: page.Total}, {Name: "needs attention", Value: needsAttention, Count: len(page.Urgent), Tone: ask}}
	for _, p := range lifecycle.Phases {
		phase := apispec.Phase(p.Phase)
		if counts[phase] > 0 || string(phase) == f.Phase {
			page.Tabs = append(page.Tabs, tab{Name: string(phase), Value: string(phase), Count: counts[phase], Tone: p.Tone})
		}
	}
	f.finish(page.Tabs, "phase", f.Phase)
	slices.SortFunc(page.Urgent, byUrgency)
	page.Groups = grouped(page.Urgent)
	for _, g := range page.Groups[min(len(page.Groups), maxUrgent):] {
		page.MoreUrgent += len(g.Tasks)
	}
	page.Groups = page.Groups[:min(len(page.Groups), maxUrgent)]
	if len(page.Urgent) > maxUrgent {
		page.More, page.Urgent = len(page.Urgent)-maxUrgent, page.Urgent[:maxUrgent]
	}
	name, reversed := strings.CutPrefix(f.Sort, "-")
	order, ok := orders[name]
	if !ok {
		order, reversed, f.Sort = byName, false, "name"
	}
	slices.SortFunc(page.Tasks, func(a, b *apispec.TaskOverview) int {
		if reversed {
			a, b = b, a
		}
		return order(a, b)
	})
	page.Tasks, page.paging = paged(page.Tasks, f)
	return page
}

// selects reports whether the page shows a task.
func (f filter) selects(t *apispec.TaskOverview) bool {
	switch f.Phase {
	case "", string(t.Phase):
	case needsAttention:
		if urgency(t) == 0 {
			return false
		}
	default:
		return false
	}
	return f.finds(t.Name, t.Reason.Text, apispec.Deref(t.Watches), what(t), apispec.Deref(t.Origin.File))
}

// finds reports whether texts have all words that people search for.
func (f filter) finds(texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(f.Search)), func(word string) bool { return !strings.Contains(all, word) })
}

// orders are how tasks can be sorted; unknown ones are as name.
var orders = map[string]func(a, b *apispec.TaskOverview) int{
	"name": byName,
	"phase": func(a, b *apispec.TaskOverview) int {
		return cmp.Or(byUrgency(a, b), cmp.Compare(a.Phase, b.Phase), byName(a, b))
	},
	"last": func(a, b *apispec.TaskOverview) int {
		return cmp.Or(lastActive(b).Compare(lastActive(a)), byName(a, b))
	},
	"due": func(a, b *apispec.TaskOverview) int {
		switch { // those without a time are last
		case a.Due == nil && b.Due != nil:
			return 1
		case a.Due != nil && b.Due == nil:
			return -1
		}
		return cmp.Or(apispec.Deref(a.Due).Compare(apispec.Deref(b.Due)), byName(a, b))
	},
}

func byName(a, b *apispec.TaskOverview) int { return cmp.Compare(a.Name, b.Name) }

// lastActive is when the latest run of a task ended; that of a live one began later.
func lastActive(t *apispec.TaskOverview) time.Time {
	if t.Run != nil {
		return t.Run.Created
	}
	return apispec.Deref(apispec.Deref(t.LastRun).Ended)
}
