package overview

import (
	"maps"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// HasNode reports whether what a task was applied with has the selected node, or a service instance on it.
// Both are of the selected service and peer. known is false if nothing of it is kept.
func HasNode(selected selection.Map, in state.Inputs) (has, known bool) {
	for _, text := range in.Sources {
		s, err := condition.ParseSource(text)
		on := s.Of == condition.OfService && s.Node == selected.Node && (selected.Service == "" || selected.Service == s.Name) ||
			s.Of == condition.OfNode && s.Name == selected.Node && selected.Service == ""
		if err == nil && on && (selected.Peer == "" || selected.Peer == s.Scope.Peer) {
			return true, true
		}
	}
	return false, in.Kind != "" || in.Others != nil || in.Backend != ""
}

// Fed returns what a task was applied with, which is in: of the selected sources and node or, if none is
// selected, of all. It is sorted by kind and name.
func (l *List) Fed(task string, selected selection.Map, in state.Inputs) []apispec.MapEntry {
	f := fed{task: task, node: selected.Node, details: in.Details, shown: map[[2]string][]condition.Source{}}
	for _, text := range in.Sources {
		if s, err := condition.ParseSource(text); err == nil {
			f.shown[[2]string{s.Name, s.Node}] = append(f.shown[[2]string{s.Name, s.Node}], s)
		}
	}
	if selected.Service+selected.Key+selected.Entry+selected.Peer+selected.Source != "" {
		f.picked = []condition.Feed{}
		f.named = map[string]string{condition.OfService: selected.Service, condition.OfKey: strings.TrimPrefix(selected.Key, "/"), condition.OfEntry: selected.Entry}
		for _, feed := range l.feeds(task) {
			if selectsFeed(selected, feed) {
				f.picked = append(f.picked, feed)
			}
		}
	}
	if in.Kind != "" { // otherwise the elements are those of the module inputs
		f.add(in.Kind, in.Elements)
	}
	for _, kind := range slices.Sorted(maps.Keys(in.Others)) {
		f.add(kind, in.Others[kind])
	}
	return f.entries
}

// feeds returns what a task reads.
func (l *List) feeds(task string) []condition.Feed {
	for i := range l.entries {
		switch e := &l.entries[i]; {
		case e.name != task:
		case !e.configured && e.definition != nil:
			return e.definition.Feeds()
		default:
			return l.reader.Known.feedsOf(l.effective.Config)[task]
		}
	}
	return nil
}

// fed collects what a task was applied with.
type fed struct {
	task    string
	node    string // that is selected; "" for all
	details map[string]string
	shown   map[[2]string][]condition.Source // what Consul showed, by service and node
	picked  []condition.Feed                 // nil for all
	named   map[string]string                // the service, the key and the config entry that are selected
	entries []apispec.MapEntry
}

func (f *fed) add(kind string, elements map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(elements)) {
		d := condition.ParseDetail(f.details[name])
		e := apispec.MapEntry{Task: f.task, Kind: kind, Name: name, ID: apiview.Optional(d.ID), Address: apiview.Optional(d.Address)}
		var from condition.Source
		switch kind {
		case condition.ServicesKind.Name:
			e.Service = apiview.Optional(d.Group)
			if from = f.instance(d, name); from.Node != "" {
				e.Node = &from.Node
			}
		case condition.CatalogServicesKind.Name:
			e.Service = &name
		case condition.NodesKind.Name:
			e.Node = &name
		}
		e.Peer = apiview.Optional(from.Scope.Peer)
		if f.picks(e, d, from) && f.onNode(e) {
			f.entries = append(f.entries, e)
		}
	}
}

// instance returns the source of an instance, whose name begins with its id and its node. Both may have dots.
func (f *fed) instance(d condition.Detail, name string) (found condition.Source) {
	rest, ok := strings.CutPrefix(name, d.ID+".")
	if !ok || d.ID == "" {
		return found
	}
	parts := strings.Split(rest, ".")
	for n := range parts {
		after := parts[n+1:]
		for _, s := range f.shown[[2]string{d.Group, strings.Join(parts[:n+1], ".")}] {
			fits := func(part string) bool { return part == "" || slices.Contains(after, part) }
			if s.Of == condition.OfService && fits(s.Scope.Datacenter) && fits(s.Scope.Peer) && (s.Node != found.Node || s.Scope.Peer != "") {
				found = s
			}
		}
	}
	return found
}

// onNode reports whether an entry is the selected node, or on it. The name of an instance without a detail
// has its node as a part.
func (f *fed) onNode(e apispec.MapEntry) bool {
	if f.node == "" || e.Node != nil {
		return f.node == "" || *e.Node == f.node
	}
	return e.Kind == condition.ServicesKind.Name && strings.Contains(e.Name+".", "."+f.node+".")
}

// picks reports whether a source that is selected has the entry. Of an entry without a detail that is not
// known: it is shown.
func (f *fed) picks(e apispec.MapEntry, d condition.Detail, from condition.Source) bool {
	return f.picked == nil || slices.ContainsFunc(f.picked, func(feed condition.Feed) bool {
		name := e.Name
		switch feed.Of {
		case condition.OfService:
			name = apispec.Deref(e.Service)
		case condition.OfEntry:
			name = d.Group + "/" + e.Name
		}
		if asked := f.named[feed.Of]; asked != "" && asked != name && d != (condition.Detail{}) {
			return false
		}
		return feed.Kind.Name == e.Kind && (from.Node == "" || from.Scope.Peer == feed.Scope.Peer && from.Scope.Datacenter == feed.Scope.Datacenter) &&
			(feed.Of == "" || d == condition.Detail{} || feed.Has(feed.Of, name))
	})
}
