package condition

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Supposition applies a WhatIf to what views showed. It counts what it finds, so that a
// name that nothing has does not look like one without effect.
type Supposition struct {
	WhatIf
	// Home is the datacenter of the agent; "" if it is not known.
	Home string
	// Details returns what one of the views showed that Detailed.Details has named.
	Details func(View) (Contents, bool)

	with  withEntries
	found []bool // by Without: something of it was there
	used  []bool // by With: a view shows it
	err   error
}

// NewSupposition returns a supposition for a WhatIf that was checked.
func NewSupposition(w WhatIf) (*Supposition, error) {
	with, err := w.entries()
	return &Supposition{WhatIf: w, with: with, found: make([]bool, len(w.Without)), used: make([]bool, len(w.With)),
		Details: func(View) (Contents, bool) { return nil, false }}, err
}

// Detailed is a Selection that needs further views to say what its view shows if single
// instances are gone.
type Detailed interface {
	Selection
	Details(*Supposition, Contents) []View
}

// NeedsHome reports whether it has to be known in which datacenter the agent is.
func (s *Supposition) NeedsHome() bool {
	return len(s.With) > 0 || slices.ContainsFunc(s.Without, func(g Gone) bool { return g.Datacenter != "" })
}

// Unmatched says of what is supposed to be gone that it was nowhere, and of entries
// that no view shows them, in words.
func (s *Supposition) Unmatched() []string {
	var all []string
	for i, g := range s.Without {
		if !s.found[i] {
			all = append(all, unmatched(g))
		}
	}
	for i := range s.With {
		if !s.used[i] {
			all = append(all, fmt.Sprintf("no task reads element %d of what is there besides", i+1))
		}
	}
	return all
}

func unmatched(g Gone) string {
	where := ""
	if !g.everything() {
		where = Scope{Datacenter: g.Datacenter, Peer: g.Peer}.String()
	}
	switch {
	case g.Instance != "" && g.Node != "":
		return fmt.Sprintf("no watched service has an instance %s on node %s%s", g.Instance, g.Node, where)
	case g.Instance != "":
		return fmt.Sprintf("no watched service has an instance %s%s", g.Instance, where)
	case g.Node != "" && g.Service != "":
		return fmt.Sprintf("no watched service %s has an instance on node %s%s", g.Service, g.Node, where)
	case g.Node != "":
		return fmt.Sprintf("no task reads node %s or an instance on it%s", g.Node, where)
	case g.Service != "":
		return fmt.Sprintf("no task reads anything of a service %s%s", g.Service, where)
	}
	return "no task reads anything" + Scope{Datacenter: g.Datacenter, Peer: g.Peer}.String()
}

// Err is why an entry cannot be supposed; nil if there is no reason.
func (s *Supposition) Err() error { return s.err }

func (s *Supposition) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// datacenter is the datacenter of a scope, or of an entry.
func (s *Supposition) datacenter(of string) string {
	if of == "" {
		return s.Home
	}
	return of
}

// goneInstance reports whether an instance is gone, or replaced by an entry.
func (s *Supposition) goneInstance(i *instance) bool {
	gone := false
	for n, g := range s.Without {
		if fits(g.Node, i.Node.Node) && fits(g.Service, i.Service.Service) && fits(g.Instance, i.Service.ID) && fits(g.Datacenter, s.datacenter(i.Node.Datacenter)) && fits(g.Peer, i.Service.PeerName) {
			s.found[n], gone = true, true
		}
	}
	return gone || slices.ContainsFunc(s.with.instances, func(w *withInstance) bool {
		return w.Node.Node == i.Node.Node && w.Service.ID == i.Service.ID && s.datacenter(w.Node.Datacenter) == s.datacenter(i.Node.Datacenter) && w.Service.PeerName == i.Service.PeerName &&
			(w.Service.Namespace == i.Service.Namespace || w.Service.Namespace == "")
	})
}

// goneEntries reports whether everything of a scope is gone. some reports whether there
// is something in the scope.
func (s *Supposition) goneEntries(scope Scope, some bool) bool {
	gone := false
	for n, g := range s.Without {
		if g.everything() && fits(g.Datacenter, s.datacenter(scope.Datacenter)) && fits(g.Peer, scope.Peer) {
			s.found[n], gone = s.found[n] || some, true
		}
	}
	return gone
}

// entriesIn are the instances besides of a service in a scope.
func (s *Supposition) entriesIn(scope Scope, service string) []*withInstance {
	return slices.DeleteFunc(slices.Clone(s.with.instances), func(w *withInstance) bool {
		ns := w.Service.Namespace
		elsewhere := w.Service.PeerName != scope.Peer || scope.Peer == "" && s.datacenter(w.Node.Datacenter) != s.datacenter(scope.Datacenter)
		return service != "" && w.Service.Service != service || elsewhere || ns != "" && scope.Namespace != "" && ns != scope.Namespace
	})
}

// Suppose implements View.
func (v instancesView) Suppose(s *Supposition, c Contents) Contents {
	was, _ := c.(instances)
	now := slices.DeleteFunc(slices.Clone(was), s.goneInstance)
	for _, w := range s.entriesIn(v.scope, v.name) {
		s.used[w.at] = true
		if v.selects(s, w) {
			now = append(now, w.atHome(s.Home))
		}
	}
	slices.SortFunc(now, compareInstances)
	return now
}

// atHome is the entry with the datacenter of the agent unless it names one.
func (w *withInstance) atHome(home string) *instance {
	i := *w.instance
	if i.Node.Datacenter == "" {
		i.Node.Datacenter = home
	}
	return &i
}

// selects reports whether Consul would show the entry in the view: it is passing, and
// matches the filter.
func (v instancesView) selects(s *Supposition, w *withInstance) bool {
	if !strings.Contains(v.filter, "Checks.Status") && w.status() != "passing" {
		return false
	}
	if v.filter == "" {
		return true
	}
	matches, err := filterMatches(v.filter, w.raw)
	if err != nil {
		s.fail(fmt.Errorf("with: element %d: the filter %q of a task cannot be evaluated for it: %w", w.at+1, v.filter, err))
	}
	return matches
}

// Suppose implements View. Without the details, the names of services of which single
// instances are gone stay.
func (v namesView) Suppose(s *Supposition, c Contents) Contents {
	was, _ := c.(nameContents)
	now := maps.Clone(was)
	if now == nil {
		now = nameContents{}
	}
	if s.goneEntries(v.scope, len(was) > 0) {
		clear(now)
	}
	maps.DeleteFunc(now, func(name string, _ []string) bool { return s.goneName(v.scope, name) })
	for _, w := range s.entriesIn(v.scope, "") {
		if name := w.Service.Service; v.onNode(w) {
			now[name] = union(now[name], w.Service.Tags)
		}
	}
	for name := range now {
		if got, ok := s.Details(detailsView{v.scope, name, v.nodeMeta}); ok {
			now[name] = nil
			left := slices.DeleteFunc(slices.Clone(got.(details).instances), s.goneInstance)
			for _, w := range s.entriesIn(v.scope, name) {
				if v.onNode(w) {
					left = append(left, w.instance)
				}
			}
			for _, i := range left {
				now[name] = union(now[name], i.Service.Tags)
			}
			if len(left) == 0 {
				delete(now, name)
			}
		}
	}
	return now
}

// goneName reports whether all instances of a service are gone, whatever their nodes.
func (s *Supposition) goneName(scope Scope, name string) bool {
	gone := false
	for n, g := range s.Without {
		if !g.ofInstances() && g.Service != "" && fits(g.Service, name) && fits(g.Datacenter, s.datacenter(scope.Datacenter)) && fits(g.Peer, scope.Peer) {
			s.found[n], gone = true, true
		}
	}
	return gone
}

// onNode reports whether the node of an entry has the metadata of the view.
func (v namesView) onNode(w *withInstance) bool {
	query, _ := url.ParseQuery(v.nodeMeta) // url.Values has encoded it
	return hasMeta(query["node-meta"], w.Node.Meta)
}

func union(a, b []string) []string {
	all := slices.Concat([]string{}, a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Details implements Detailed: which services are left if single instances are gone is
// only known from their instances.
func (s *catalogSelection) Details(sup *Supposition, c Contents) []View {
	names, _ := c.(nameContents)
	for _, w := range sup.entriesIn(s.scope, "") {
		sup.used[w.at] = sup.used[w.at] || s.MatchString(w.Service.Service)
	}
	var views []View
	for name := range names {
		// Consul has no address for some names: they stay.
		if s.MatchString(name) && Addressable(instancesPath+name) && sup.concernsInstances(s.scope, name) {
			views = append(views, detailsView{s.scope, name, s.nodeMeta})
		}
	}
	return views
}

// concernsInstances reports whether single instances of a service may be gone, or others.
func (s *Supposition) concernsInstances(scope Scope, name string) bool {
	return len(s.with.instances) > 0 || slices.ContainsFunc(s.Without, func(g Gone) bool {
		return g.ofInstances() && fits(g.Service, name) && fits(g.Datacenter, s.datacenter(scope.Datacenter)) && fits(g.Peer, scope.Peer)
	})
}

// detailsView has all instances of a service, whatever their health.
type detailsView struct {
	scope          Scope
	name, nodeMeta string
}

func (v detailsView) Request() Request {
	query, _ := url.ParseQuery(v.nodeMeta)
	r := instancesView{scope: v.scope, name: v.name}.Request()
	r.Query = query
	return r
}

func (v detailsView) Gate() Request                               { return v.Request() }
func (v detailsView) Empty(Reader) (string, []Right)              { return "", nil }
func (v detailsView) Suppose(_ *Supposition, c Contents) Contents { return c }
func (v detailsView) Decode(d *json.Decoder) (Contents, error) {
	got, err := instancesView{scope: v.scope, name: v.name}.Decode(d)
	all, _ := got.(instances)
	return details{all}, err
}

// details are the contents of a detailsView.
type details struct{ instances }

// Elements implements Contents.
func (all details) Elements(v View) []Element {
	of := v.(detailsView)
	return all.instances.Elements(instancesView{scope: of.scope, name: of.name})
}

// Suppose implements View. Keys stay if nodes and services are gone.
func (c kvSelection) Suppose(s *Supposition, contents Contents) Contents {
	was, _ := contents.(keyContents)
	now := slices.Clone(was)
	if s.goneEntries(c.Scope(), len(was) > 0) {
		now = nil
	}
	for _, w := range s.with.keys {
		if s.datacenter(w.Datacenter) != s.datacenter(c.Datacenter) || w.Key != c.Path && !(c.Recurse && strings.HasPrefix(w.Key, c.Path)) {
			continue
		}
		s.used[w.at] = true
		now = slices.DeleteFunc(now, func(p keyPair) bool { return p.Key == w.Key })
		now = append(now, keyPair{w.Key, w.Value})
	}
	slices.SortStableFunc(now, func(a, b keyPair) int { return strings.Compare(a.Key, b.Key) })
	return now
}

// Suppose implements View. Config entries stay if the services are gone that they are about.
func (v entriesView) Suppose(s *Supposition, c Contents) Contents {
	was, _ := c.(documents)
	now := slices.Clone(was)
	if s.goneEntries(v.scope, len(was) > 0) {
		now = nil
	}
	for _, w := range s.with.documents {
		if w.Kind != v.kind || v.name != "" && w.Name != v.name || s.datacenter(w.Datacenter) != s.datacenter(v.scope.Datacenter) {
			continue
		}
		fields, err := decodeDocument(w.fields)
		if err != nil {
			s.fail(fmt.Errorf("with: element %d: %w", w.at+1, err))
			continue
		}
		delete(fields, "Datacenter")
		s.used[w.at] = true
		d := v.document(fields)
		now = append(slices.DeleteFunc(now, func(old document) bool { return old.name == d.name }), d)
	}
	now.sort()
	return now
}

// Suppose implements View. Resources are those of the agent's datacenter.
func (v resourcesView) Suppose(s *Supposition, c Contents) Contents {
	was, _ := c.(documents)
	if s.goneEntries(v.scope, len(was) > 0) {
		return documents(nil)
	}
	return was
}

// HomeOf is the datacenter of the agent, as far as what a view showed says that; else "".
func HomeOf(v View, c Contents) string {
	switch of := v.(type) {
	case instancesView:
		if all, _ := c.(instances); of.scope.Datacenter == "" && of.scope.Peer == "" && len(all) > 0 {
			return all[0].Node.Datacenter
		}
	case nodesView:
		if all, _ := c.(nodeContents); of.scope.Datacenter == "" && len(all) > 0 {
			return all[0].Datacenter
		}
	}
	return ""
}
