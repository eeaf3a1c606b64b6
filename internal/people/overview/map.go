package overview

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// maxMapSources is how many sources of a task a map names.
const maxMapSources = 50

// Map returns what feeds the selected tasks, and which types of resources they have: from the
// configuration and the rows of the summary. It reads no record. Which tasks depend on the selected
// node is not in them: has says it, of the tasks of MayHaveNode.
func (l *List) Map(selected selection.Map, has func(task string) bool) apispec.MapResponse {
	limit := cmp.Or(selected.Limit, selection.DefaultMapLimit)
	m := mapping{sources: map[string]*apispec.MapSource{}, types: map[string]*apispec.MapType{}}
	tasks := []mapped{}
	for t := range l.mapped(selected) {
		if selected.Node == "" || has(t.name) {
			tasks = append(tasks, t)
			m.add(t.feeds, t.row.Made)
		}
	}
	slices.SortFunc(tasks, func(a, b mapped) int { return strings.Compare(a.name, b.name) })
	answer := m.answer(limit)
	answer.Counts.Tasks, answer.Tasks = len(tasks), []apispec.MapTask{}
	for _, t := range tasks[:min(len(tasks), limit)] {
		answer.Tasks = append(answer.Tasks, mapTask(t.entry, t.phase, t.feeds))
	}
	return answer
}

// mapped is a task of a map, with what feeds it.
type mapped struct {
	*entry
	phase apispec.Phase
	feeds []condition.Feed
}

// mapped yields the selected tasks, whatever nodes they depend on.
func (l *List) mapped(selected selection.Map) iter.Seq[mapped] {
	feeds := l.reader.Known.feedsOf(l.effective.Config)
	words := strings.Fields(strings.ToLower(selected.Search))
	return func(yield func(mapped) bool) {
		for i := range l.entries {
			e := &l.entries[i]
			of := feeds[e.name]
			if !e.configured && e.definition != nil {
				of = e.definition.Feeds()
			}
			if selectsTask(selected, words, e, of) && !yield(mapped{e, l.tasks[i].Phase, of}) {
				return
			}
		}
	}
}

// MayHaveNode returns which of the selected tasks may depend on a node: those that read services or nodes,
// and those whose definition is not known.
func (l *List) MayHaveNode(selected selection.Map) (names []string) {
	for t := range l.mapped(selected) {
		if t.definition == nil || slices.ContainsFunc(t.feeds, func(f condition.Feed) bool { return f.Kind == condition.ServicesKind || f.Kind == condition.NodesKind }) {
			names = append(names, t.name)
		}
	}
	return names
}

// selectsTask reports whether a map has a task with these sources.
func selectsTask(s selection.Map, words []string, e *entry, feeds []condition.Feed) bool {
	if s.Task != "" && s.Task != e.name {
		return false
	}
	if s.Type != "" && !hasType(e.row.Made, s.Type) {
		return false
	}
	if bySource := s.Service + s.Key + s.Entry + s.Peer + s.Source; bySource != "" && !slices.ContainsFunc(feeds, func(f condition.Feed) bool { return selectsFeed(s, f) }) {
		return false
	}
	if len(words) == 0 {
		return true
	}
	texts := []string{e.name, string(e.row.Made)}
	for _, f := range feeds {
		texts = append(texts, f.Text)
	}
	return selection.Has(words, texts...)
}

// selectsFeed reports whether one source is all of what a map selects by sources.
func selectsFeed(s selection.Map, f condition.Feed) bool {
	return (s.Source == "" || s.Source == f.Text) && (s.Peer == "" || s.Peer == f.Scope.Peer) &&
		(s.Service == "" || f.Has(condition.OfService, s.Service)) &&
		(s.Key == "" || f.Has(condition.OfKey, strings.TrimPrefix(s.Key, "/"))) &&
		(s.Entry == "" || f.Has(condition.OfEntry, s.Entry))
}

func hasType(types state.TypeList, name string) bool {
	for is := range types.Each() {
		if is == name {
			return true
		}
	}
	return false
}

// mapping counts what the selected tasks have.
type mapping struct {
	sources map[string]*apispec.MapSource
	types   map[string]*apispec.MapType
	unknown int
}

func (m *mapping) add(feeds []condition.Feed, made state.TypeList) {
	for f := range distinct(feeds) {
		s := m.sources[f.Text]
		if s == nil {
			s = &apispec.MapSource{Text: f.Text, Kind: f.Kind.APIName(), Name: apiview.Optional(f.Name), Datacenter: apiview.Optional(f.Scope.Datacenter),
				Namespace: apiview.Optional(f.Scope.Namespace), Peer: apiview.Optional(f.Scope.Peer)}
			m.sources[f.Text] = s
		}
		s.Tasks++
	}
	if made == "" {
		m.unknown++
	}
	for name, n := range made.Each() {
		t := m.types[name]
		if t == nil {
			t = &apispec.MapType{Type: name, Tasks: new(0)}
			m.types[name] = t
		}
		t.Count += n
		*t.Tasks++
	}
}

// answer returns the map without its tasks.
func (m *mapping) answer(limit int) apispec.MapResponse {
	answer := apispec.MapResponse{Sources: []apispec.MapSource{}, Types: []apispec.MapType{}}
	answer.Counts = apispec.MapCounts{Sources: len(m.sources), Types: len(m.types), Unknown: m.unknown}
	sources := slices.SortedFunc(maps.Values(m.sources), func(a, b *apispec.MapSource) int {
		return cmp.Or(b.Tasks-a.Tasks, strings.Compare(a.Text, b.Text))
	})
	for _, s := range sources[:min(len(sources), limit)] {
		answer.Sources = append(answer.Sources, *s)
	}
	types := slices.SortedFunc(maps.Values(m.types), func(a, b *apispec.MapType) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Type, b.Type)) })
	for i, t := range types {
		if answer.Counts.Resources += t.Count; i < limit {
			answer.Types = append(answer.Types, *t)
		}
	}
	return answer
}

// distinct yields the first of the sources with each text: a service may feed a task in two ways.
func distinct(feeds []condition.Feed) iter.Seq[condition.Feed] {
	return func(yield func(condition.Feed) bool) {
		seen := make(map[string]bool, len(feeds))
		for _, f := range feeds {
			if seen[f.Text] {
				continue
			}
			if seen[f.Text] = true; !yield(f) {
				return
			}
		}
	}
}

func mapTask(e *entry, phase apispec.Phase, feeds []condition.Feed) apispec.MapTask {
	t := apispec.MapTask{Name: e.name, Phase: phase, Sources: []string{}, Types: []apispec.MapType{}}
	for f := range distinct(feeds) {
		t.Sources = append(t.Sources, f.Text)
	}
	if more := len(t.Sources) - maxMapSources; more > 0 {
		t.Sources, t.MoreSources = t.Sources[:maxMapSources], &more
	}
	for name, n := range e.row.Made.Each() {
		t.Types = append(t.Types, apispec.MapType{Type: name, Count: n})
	}
	if e.row.Made != "" {
		t.Resources = new(0)
		for _, of := range t.Types {
			*t.Resources += of.Count
		}
	}
	return t
}
