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

// Fed returns what a task was applied with, which is in: of the selected sources or, if none is selected,
// of all. It is sorted by kind and name.
func (l *List) Fed(task string, selected selection.Map, in state.Inputs) []apispec.MapEntry {
	f := fed{task: task, details: in.Details, shown: map[[2]string][]condition.Source{}}
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
		case l.effective.Config != nil:
			return l.reader.Known.feedsOf(l.effective.Config)[task]
		}
	}
	return nil
}

// fed collects what a task was applied with.
type fed struct {
	task    string
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
		if f.picks(e, d, from) {
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
