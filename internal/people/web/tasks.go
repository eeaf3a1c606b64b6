package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
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

	Keys         []string  `json:"label_keys,omitempty"` // of the labels of all tasks
	Sections     []section `json:"-"`                    // the tasks, if they are grouped
	MoreSections int       `json:"-"`
	Table        taskTable `json:"-"` // the tasks, if they are not
	Review       bool      `json:"-"` // several plans wait, and the viewer may act

	Groups     []*sameTrouble  `json:"-"` // Urgent and more, with equal reasons joined
	MoreUrgent int             `json:"-"` // tasks that no group has
	Replaced   *replacedBanner `json:"-"`

	paging
	Filter filter `json:"filter"`
}

// filter is what a page of tasks or runs selects, by the query of its URL.
type filter struct {
	path   string
	Phase  string   `json:"phase,omitempty"` // of tasks; selection.Attention selects those of several phases
	State  string   `json:"state,omitempty"` // of runs
	Search string   `json:"search,omitempty"`
	Labels []string `json:"labels,omitempty"` // of tasks: KEY=VALUE
	Group  string   `json:"group,omitempty"`  // the key of a label
	Sort   string   `json:"sort,omitempty"`   // the opposite order with a - before it
	Page   int      `json:"page,omitempty"`   // of runs, from 1
	After  string   `json:"after,omitempty"`  // the task before the page of tasks
	Before string   `json:"before,omitempty"` // the task after it

	acts    bool // the viewer may act
	chooses bool // people choose tasks in the list, to approve their plans
}

// Chooses reports whether people choose tasks in the list.
func (f filter) Chooses() bool { return f.chooses }

// maxUrgent is how many groups of tasks the list of what needs attention shows, and
// readUrgent how many tasks are read for it.
const (
	maxUrgent  = 10
	readUrgent = 200
)

// tasksFilter is what the page of tasks selects. What it does not know, it leaves out.
func tasksFilter(query url.Values) filter {
	f := filter{path: pageURL("tasks"), Phase: query.Get("phase"), Search: strings.TrimSpace(query.Get("q")), Sort: query.Get("sort"), Labels: labelsIn(query), Group: groupIn(query),
		After: query.Get("after"), Before: query.Get("before")}
	if !slices.Contains(selection.Phases(), f.Phase) {
		f.Phase = ""
	}
	if !slices.Contains(selection.Sorts, strings.TrimPrefix(f.Sort, "-")) {
		f.Sort = "name"
	}
	if f.After != "" {
		f.Before = ""
	}
	return f
}

// runsFilter is what the page of runs selects.
func runsFilter(query url.Values) filter {
	return filter{path: pageURL("runs"), State: query.Get("state"), Search: strings.TrimSpace(query.Get("q")), Page: pageNumber(query)}
}

// pageNumber is which page of a list is requested, from 1.
func pageNumber(query url.Values) int {
	n, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		return 1
	}
	return max(1, n)
}

// selection is what the page of tasks reads: one page of the list, and what needs
// attention.
func (f filter) selection() selection.Selection {
	s := selection.Selection{Search: f.Search, Labels: f.Labels, Group: f.Group, Sort: f.Sort, After: f.After, Before: f.Before, Urgent: readUrgent}
	if f.Phase != "" {
		s.Phases = []apispec.Phase{apispec.Phase(f.Phase)}
	}
	return s.First(perPage)
}

func (p *pages) tasks(r *http.Request) (view, error) {
	f := tasksFilter(r.URL.Query())
	f.acts = p.Viewer(r).Rights.Acts()
	o, err := p.source.selected(r.Context(), f.selection())
	if err != nil {
		return view{}, err
	}
	losses, err := p.losses(r.Context(), o.Overview)
	return view{title: "Tasks", template: "tasks", shown: o.topics, data: tasksOf(o.Overview, losses, f)}, err
}

// tasksOf is what the page of tasks shows of an overview with the selected tasks.
func tasksOf(o apispec.Overview, losses []apispec.TaskOverview, f filter) tasksPage {
	counts := apispec.Deref(o.Counts)
	page := tasksPage{Replaced: replacedOf(o, losses), Urgent: pointers(apispec.Deref(o.Attention)), Tasks: pointers(o.Tasks), Total: counts.All, Filter: f}
	others := o
	others.Replaced = nil // the banner says it
	page.Alerts = alerts(others)
	if o.Paused != nil {
		resume := forAll(o)
		page.ForAll = &resume
	}
	page.Tabs = []tab{{Name: "all", Count: page.Total}, {Name: "needs attention", Value: string(selection.Attention), Count: counts.Attention, Tone: ask}}
	for _, p := range lifecycle.Phases {
		phase := string(p.Phase)
		if counts.Phases[phase] > 0 || phase == f.Phase {
			page.Tabs = append(page.Tabs, tab{Name: phase, Value: phase, Count: counts.Phases[phase], Tone: p.Tone})
		}
	}
	f.finish(page.Tabs, "phase", f.Phase)
	page.Keys = apispec.Deref(o.LabelKeys)
	waiting := slices.DeleteFunc(slices.Clone(page.Urgent), func(t *apispec.TaskOverview) bool { return !selection.Deciding(t) })
	page.Review = f.acts && len(waiting) > 1
	f.chooses = page.Review
	if f.Group != "" {
		page.Sections, page.MoreSections = sectionsOf(apispec.Deref(o.Groups), page.Tasks, f)
	} else {
		page.Table = taskTable{f, page.Tasks}
	}
	page.Groups = grouped(page.Urgent)
	page.Groups = page.Groups[:min(len(page.Groups), maxUrgent)]
	page.MoreUrgent = counts.Attention
	for _, g := range page.Groups {
		page.MoreUrgent -= len(g.Tasks)
	}
	page.Urgent = page.Urgent[:min(len(page.Urgent), maxUrgent)]
	page.More = counts.Attention - len(page.Urgent)
	page.paging = f.part(counts, len(o.Tasks), apispec.Deref(o.Next), apispec.Deref(o.Previous))
	return page
}

// pointers points to values.
func pointers[T any](values []T) []*T {
	all := make([]*T, len(values))
	for i := range values {
		all[i] = &values[i]
	}
	return all
}

// finds reports whether texts have all words that people search for.
func (f filter) finds(texts ...string) bool {
	return selection.Has(strings.Fields(strings.ToLower(f.Search)), texts...)
}
