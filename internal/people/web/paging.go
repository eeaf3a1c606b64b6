package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// perPage is how many tasks or runs one page shows.
const perPage = 50

// paging says which part of a list a page shows.
type paging struct {
	Matches  int    `json:"matches"` // those that the filter selects
	Last     int    `json:"pages"`
	First    int    `json:"-"` // number of the first one that is shown, from 1
	Through  int    `json:"-"` // number of the last one that is shown
	Previous string `json:"-"` // links to the neighbouring pages; "" if there is none
	Next     string `json:"-"`
}

// pagingOf is the paging of a part with so many of all matches, behind those that are
// skipped.
func pagingOf(matches, skipped, shown int) paging {
	p := paging{Matches: matches, Last: max(1, (matches+perPage-1)/perPage), Through: skipped + shown}
	p.First = min(skipped+1, p.Through)
	return p
}

// part is the paging of a part of the tasks, with the cursors of its neighbours.
func (f filter) part(counts apispec.TaskCounts, shown int, next, previous string) paging {
	p := pagingOf(counts.Matches, counts.Skipped, shown)
	if next != "" {
		p.Next = f.link("after", next)
	}
	if previous != "" {
		p.Previous = f.link("before", previous)
	}
	return p
}

// paged returns the part of a list that the page shows, and corrects the number of the
// page.
func paged[T any](all []T, f *filter) ([]T, paging) {
	f.Page = min(f.Page, max(1, (len(all)+perPage-1)/perPage))
	first := (f.Page - 1) * perPage
	shown := all[first:min(first+perPage, len(all))]
	p := pagingOf(len(all), first, len(shown))
	if f.Page > 1 {
		p.Previous = f.link("page", strconv.Itoa(f.Page-1))
	}
	if f.Page < p.Last {
		p.Next = f.link("page", strconv.Itoa(f.Page+1))
	}
	return shown, p
}

// tab is a link to a selection, with how many there are.
type tab struct {
	Name    string `json:"name"`
	Value   string `json:"-"`
	Count   int    `json:"count"`
	Tone    tone   `json:"-"`
	Link    string `json:"-"`
	Current bool   `json:"-"`
}

// finish sets the links of tabs that are values of a key of the filter.
func (f filter) finish(tabs []tab, key, current string) {
	for i := range tabs {
		tabs[i].Link, tabs[i].Current = f.link(key, tabs[i].Value), tabs[i].Value == current
	}
}

// link is the address of the same selection with another value of one key. Only a link
// to another page has a number or a cursor.
func (f filter) link(key, value string) string {
	q := url.Values{}
	for k, v := range map[string]string{"phase": f.Phase, "state": f.State, "q": f.Search, "label": f.LabelText(), "group": f.Group, "sort": f.Sort} {
		if k != key && v != "" && v != "name" {
			q.Set(k, v)
		}
	}
	if value != "" && value != "name" && (key != "page" || value != "1") {
		q.Set(key, value)
	}
	if len(q) == 0 {
		return f.path
	}
	return f.path + "?" + q.Encode()
}

// SortLink is the address of the same selection in another order: the opposite one if
// it is in that order.
func (f filter) SortLink(name string) string {
	if f.Sort == name {
		name = "-" + name
	}
	return f.link("sort", name)
}

// Sorted is the order of a column, as screen readers say it; "" if it is another
// column's.
func (f filter) Sorted(name string) string {
	by, reversed := strings.CutPrefix(f.Sort, "-")
	switch {
	case by != name:
		return ""
	case reversed != (name == "last"): // the latest run is the first
		return "descending"
	}
	return "ascending"
}

// sorting is an order of tasks, as people choose it.
type sorting struct{ Value, Label string }

var sortings = []sorting{{"name", "by name"}, {"phase", "most urgent first"}, {"last", "latest run first"}, {"due", "next due first"}}

// Sorts are the orders that people can choose, and the one in force.
func (f filter) Sorts() []sorting {
	all := slices.Clone(sortings)
	for _, s := range sortings {
		if f.Sort == "-"+s.Value {
			all = append(all, sorting{f.Sort, s.Label + ", reversed"})
		}
	}
	return all
}

// All is the address of everything.
func (f filter) All() string { return f.path }
