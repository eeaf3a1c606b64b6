package web

import (
	"net/url"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// labelsIn are the labels that the query of a page selects, each KEY=VALUE, with spaces between them. What is
// none, is left out.
func labelsIn(query url.Values) []string {
	all := strings.Fields(strings.Join(query["label"], " "))
	return slices.DeleteFunc(all, func(label string) bool {
		_, err := selection.Parse(url.Values{"label": {label}})
		return err != nil
	})
}

// groupIn is the key by which the query of a page groups tasks; "" if it is none.
func groupIn(query url.Values) string {
	group := query.Get("group")
	if _, err := selection.Parse(url.Values{"group": {group}}); err != nil {
		return ""
	}
	return group
}

// LabelText are the labels as people write them.
func (f filter) LabelText() string { return strings.Join(f.Labels, " ") }

// labelled is the address of the same selection with another value of a label, without groups.
func (f filter) labelled(key, value string) string {
	f.Labels = slices.DeleteFunc(slices.Clone(f.Labels), func(label string) bool { return strings.HasPrefix(label, key+"=") })
	f.Labels, f.Group = append(f.Labels, key+"="+value), ""
	return f.link("page", "")
}

// taskTable is a table of tasks, whose columns can be sorted.
type taskTable struct {
	Filter filter
	Tasks  []*apispec.TaskOverview
}

// section are the tasks of a list with the same value of a label.
type section struct {
	Name   string // the value
	Link   string // to these tasks alone
	Count  int
	Phases []tab
	Table  taskTable // those in this part of the list
}

// maxAbsent is how many groups are named of which this part of the list has no task.
const maxAbsent = 50

// sectionsOf are the groups of the tasks of a part, and some others; more is how many are left out.
func sectionsOf(groups []apispec.TaskGroup, tasks []*apispec.TaskOverview, f filter) (sections []section, more int) {
	in := map[string][]*apispec.TaskOverview{}
	for _, t := range tasks {
		value := selection.Label(t, f.Group)
		in[value] = append(in[value], t)
	}
	absent := 0
	for _, g := range groups {
		if len(in[g.Value]) == 0 {
			if absent++; absent > maxAbsent {
				more++
				continue
			}
		}
		s := section{Name: g.Value, Link: f.labelled(f.Group, g.Value), Count: g.Tasks, Table: taskTable{f, in[g.Value]}}
		if s.Name == "" {
			s.Name = "without " + f.Group
		}
		for _, p := range lifecycle.Phases {
			if n := g.Phases[string(p.Phase)]; n > 0 {
				s.Phases = append(s.Phases, tab{Name: string(p.Phase), Count: n, Tone: p.Tone})
			}
		}
		sections = append(sections, s)
	}
	return sections, more
}
