package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// mapPage is the page of what feeds tasks, and of what they have made.
type mapPage struct {
	Map      apispec.MapResponse `json:"map"`
	Selected selection.Map       `json:"selected"`
	By       []selectedBy        `json:"-"`
	Chart    drawing             `json:"-"`
}

// selectedBy is one thing by which tasks are selected, with the address of the page without it.
type selectedBy struct{ Name, Value, Without string }

const (
	mapWide  = 230 // of a box
	mapChars = 29  // of a name fit into it
	// mapDrawn is how many boxes a column has: nobody can follow the lines of more. mapRows is how
	// many rows the tables have.
	mapDrawn, mapRows = 30, 50
)

func mapURL(m selection.Map) string {
	m.Limit = 0
	if q := m.Query().Encode(); q != "" {
		return pageURL("map?") + q
	}
	return pageURL("map")
}

func (p *pages) resourceMap(r *http.Request) (view, error) {
	o, err := p.source.overview(r.Context())
	if err != nil {
		return view{}, err
	}
	selected := selection.ParseMap(r.URL.Query())
	selected.Search, selected.Service, selected.Node, selected.Limit = strings.TrimSpace(selected.Search), strings.TrimSpace(selected.Service), strings.TrimSpace(selected.Node), mapRows
	of, err := read(r.Context(), p.source, "map?"+selected.Query().Encode(), func(ctx context.Context) (apispec.MapResponse, error) { return p.source.Map(ctx, selected) })
	return view{title: "Map", template: "map", topic: everything, shown: o.topics, data: mapOf(of, selected)}, err
}

// mapOf is the page of a map.
func mapOf(m apispec.MapResponse, selected selection.Map) mapPage {
	page := mapPage{Map: m, Selected: selected, Chart: drawMap(m, selected)}
	for _, by := range []struct {
		name  string
		value func(*selection.Map) *string
	}{
		{"service", func(m *selection.Map) *string { return &m.Service }}, {"node", func(m *selection.Map) *string { return &m.Node }}, {"key", func(m *selection.Map) *string { return &m.Key }},
		{"config entry", func(m *selection.Map) *string { return &m.Entry }}, {"peer", func(m *selection.Map) *string { return &m.Peer }},
		{"source", func(m *selection.Map) *string { return &m.Source }}, {"task", func(m *selection.Map) *string { return &m.Task }},
		{"type", func(m *selection.Map) *string { return &m.Type }}, {"search", func(m *selection.Map) *string { return &m.Search }},
	} {
		without := selected
		if value := by.value(&without); *value != "" {
			was := *value
			*value = ""
			page.By = append(page.By, selectedBy{by.name, was, mapURL(without)})
		}
	}
	return page
}

// Fields are the parameters that a search keeps, by name.
func (p mapPage) Fields() map[string]string {
	kept := p.Selected
	kept.Search, kept.Service, kept.Node, kept.Limit = "", "", "", 0
	fields := map[string]string{}
	for name, values := range kept.Query() {
		fields[name] = values[0]
	}
	return fields
}

// SourceLink shows only the tasks that read a source.
func (p mapPage) SourceLink(text string) string {
	return sourceLink(p.Map.Sources, text)
}

func sourceLink(all []apispec.MapSource, text string) string {
	for _, s := range all {
		if s.Text == text && s.Name != nil && s.Text == "service "+*s.Name {
			return mapURL(selection.Map{Service: *s.Name})
		}
	}
	return mapURL(selection.Map{Source: text})
}

// TypeLink shows, of what is selected, only the tasks that have resources of a type.
func (p mapPage) TypeLink(name string) string {
	return typeLink(p.Selected, name)
}

func typeLink(selected selection.Map, name string) string {
	if selected.Type = name; name == state.OtherTypes {
		selected.Type = ""
	}
	return mapURL(selected)
}

// Undrawn is how many tasks the drawing does not have, and Unlisted how many the table does not.
func (p mapPage) Undrawn() int  { return max(0, p.Map.Counts.Tasks-mapDrawn) }
func (p mapPage) Unlisted() int { return max(0, p.Map.Counts.Tasks-len(p.Map.Tasks)) }

// Few are the first values of a list, and More how many others there are.
func (p mapPage) Few(t apispec.MapTask) []string { return firstOf(t.Sources) }
func (p mapPage) More(t apispec.MapTask) int {
	return moreOf(t.Sources) + apispec.Deref(t.MoreSources)
}

// Kept is how many addresses of the selected resources the page lists.
func (p mapPage) Kept() []apispec.MapAddress { return apispec.Deref(p.Map.Addresses) }

// Entries are what the tasks were applied with, as far as the page lists it, and MoreEntries how many more there are.
func (p mapPage) Entries() []apispec.MapEntry { return apispec.Deref(p.Map.Entries) }
func (p mapPage) MoreEntries() int            { return apispec.Deref(p.Map.MoreEntries) }

// UnknownNodes is of how many tasks it is not known whether they have the selected node.
func (p mapPage) UnknownNodes() int { return apispec.Deref(p.Map.Counts.UnknownNodes) }

// BySource reports whether tasks are selected by what they read.
func (p mapPage) BySource() bool {
	s := p.Selected
	return s.Service+s.Node+s.Key+s.Entry+s.Peer+s.Source != ""
}

// drawMap draws the sources at the left, the tasks in the middle and the types of their resources at the
// right. A box is about as high as what it is connected with.
func drawMap(m apispec.MapResponse, selected selection.Map) drawing {
	d := newDrawing("Sources in Consul, tasks that read them, and types of their resources", mapWide, mapChars)
	sources := m.Sources[:min(len(m.Sources), mapDrawn)]
	tasks := slices.Clone(m.Tasks[:min(len(m.Tasks), mapDrawn)])
	types := slices.Clone(m.Types[:min(len(m.Types), mapDrawn)])
	rows := map[string]int{}
	for row, s := range sources {
		rows[s.Text] = row
		d.place("source "+s.Text, 0, row, box{Name: s.Text, Below: counted(s.Tasks, "task"), Link: sourceLink(m.Sources, s.Text)})
	}
	slices.SortStableFunc(tasks, byRow(func(t apispec.MapTask) []string { return t.Sources }, rows))
	readers := map[string][]string{}
	for row, t := range tasks {
		rows["task "+t.Name] = row
		d.place("task "+t.Name, 1, row, box{Name: t.Name, Below: string(t.Phase) + madeInWords(t), Link: taskURL(t.Name), Tone: toneOf(t.Phase)})
		for _, text := range t.Sources {
			d.connect("source "+text, "task "+t.Name)
		}
		for _, of := range t.Types {
			readers[of.Type] = append(readers[of.Type], "task "+t.Name)
		}
	}
	slices.SortStableFunc(types, byRow(func(t apispec.MapType) []string { return readers[t.Type] }, rows))
	for row, t := range types {
		d.place("type "+t.Type, 2, row, box{Name: t.Type, Below: counted(t.Count, "resource"), Link: typeLink(selected, t.Type)})
		for _, task := range readers[t.Type] {
			d.connect(task, "type "+t.Type)
		}
	}
	return d
}

// madeInWords is how many resources a task has, after its phase.
func madeInWords(t apispec.MapTask) string {
	if t.Resources == nil {
		return ""
	}
	return " · " + counted(*t.Resources, "resource")
}

// byRow compares by the mean row of what boxes are connected with.
func byRow[T any](with func(T) []string, rows map[string]int) func(a, b T) int {
	mean := func(t T) float64 {
		sum, n := 0, 0
		for _, key := range with(t) {
			if row, ok := rows[key]; ok {
				sum, n = sum+row, n+1
			}
		}
		if n == 0 {
			return mapDrawn
		}
		return float64(sum) / float64(n)
	}
	return func(a, b T) int { return cmp.Compare(mean(a), mean(b)) }
}
