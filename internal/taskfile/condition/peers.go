package condition

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
)

// Cluster peering: services that another cluster exports to this one. Consul keeps copies of
// their instances, and shows these copies also while the other cluster does not answer.
// An answer without instances has many meanings: there are none, there is no such peering, it was
// just deleted, or not everything is there yet. So a selection of a peer also reads the peering,
// and a loss counts only if it is confirmed there (package consul, peers.go).

var peerForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// checkPeer checks the key peer of a block.
func checkPeer(r *block.Report, where string, peer, datacenter block.String) string {
	switch {
	case peer.V == "":
		return ""
	case !peerForm.MatchString(peer.V):
		r.Fail(peer.Origin, where+": "+block.Quoted(peer.V)+" is not the name of a peer", "`consul peering list` shows the names")
	case datacenter.V != "":
		r.Fail(peer.Origin, where+": peer and datacenter cannot both be configured", "remove datacenter: peerings are those of the agent's datacenter")
	}
	return peer.V
}

// withoutPeer leaves an empty peer out of a definition: Consul-Terraform-Sync does not show it.
func withoutPeer(shown map[string]any) map[string]any {
	if shown["peer"] == "" {
		delete(shown, "peer")
	}
	return shown
}

// ofPeer is the part of the ID of a selection that it has only for a peer.
func ofPeer(s Scope) string {
	if s.Peer == "" {
		return ""
	}
	return Encode("peer", s.Peer)
}

// Place is where the identity of a Consul is recorded: a datacenter, "" for that of the agent, or
// a peer.
func (s Scope) Place() string {
	if s.Peer != "" {
		return peerPlace + s.Peer
	}
	return s.Datacenter
}

// peerPlace cannot be the beginning of the name of a datacenter.
const peerPlace = "peer:"

// ScopeAt is the scope of a place.
func ScopeAt(place string) Scope {
	if peer, ok := strings.CutPrefix(place, peerPlace); ok {
		return Scope{Peer: peer}
	}
	return Scope{Datacenter: place}
}

// ImportedNeeds are the rights to anything that a peer exports. Rules for single names do not count.
const ImportedNeeds = "service:read on all services and node:read on all nodes, or service:write on any service,"

// imported has what peers export. Measured: no gate of the catalog moves with it, and the endpoint of a
// service that does not exist stops moving after the first service has gone for good. The index of
// internal/ui/nodes moves with everything of the peer, and with the catalog of this cluster. The state of
// a peering moves no index.
var imported = &Family{Name: "peer", Poll: importedGates, Block: importedGates, CheapPoll: true}

func importedGates(s Scope, views []View) []Gate {
	instances := catalogGate(s, "imported", "imported instances", "no right", "/v1/internal/ui/nodes", "Node")
	instances.Instead = slices.DeleteFunc(slices.Clone(views), func(v View) bool { _, aux := v.(Auxiliary); return aux })
	return append([]Gate{instances}, peeringGates(s, nil)...)
}

// peering is only the state of a peering.
var peering = &Family{Name: "peering", Poll: peeringGates, Block: peeringGates, CheapPoll: true}

func peeringGates(s Scope, _ []View) []Gate {
	all, of := Scope{Peer: s.Peer}, peeringView{s.Peer}
	return []Gate{{
		Key: "peering" + all.String(), State: of, Only: true, Instead: []View{of},
		Request: Request{Act: "watch the peering" + all.String(), Scope: all},
	}}
}

// Peering selects nothing, and can be read only if the peering with a peer is in order: a task whose
// module inputs are of the peer waits for that, though they do not trigger it.
type Peering struct{ Peer string }

// ID implements Selection.
func (p Peering) ID() string { return Encode(peering.Name, p.Peer) }

// Scope implements Selection.
func (p Peering) Scope() Scope { return Scope{Peer: p.Peer} }

// Family implements Selection.
func (p Peering) Family() *Family { return peering }

// Views implements Selection.
func (p Peering) Views() []View { return []View{peeringView{p.Peer}} }

// Adapt implements Selection.
func (p Peering) Adapt([]Element) []Element { return nil }

// ViewOf implements Selection.
func (p Peering) ViewOf(Source) View { return nil }

// Missing implements Selection.
func (p Peering) Missing(Source, Reader) []Right { return nil }

// Render implements Selection.
func (p Peering) Render(into Entries, _ []Contents) (Entries, error) { return into, nil }

func familyOf(s Scope) *Family {
	if s.Peer != "" {
		return imported
	}
	return catalog
}

// listOf is the view of the names of services.
func listOf(s Scope) View {
	if s.Peer != "" {
		return peeringView{s.Peer}
	}
	return namesView{scope: s}
}

// peeringView has the state of a peering, and the names of the services that the peer exports to
// this cluster.
type peeringView struct{ peer string }

func (v peeringView) Gate() Request { return v.Request() }

func (v peeringView) Request() Request { return PeeringRequest(v.peer) }

// PeeringRequest reads the peering with a peer.
func PeeringRequest(peer string) Request {
	return Request{Act: fmt.Sprintf("read the peering with %q", peer), Needs: "peering:read", Path: "/v1/peering/" + peer,
		PartitionOnly: true, Missing: true, SlowDenial: "peering"}
}

// PeeringState is what matters of /v1/peering/NAME.
type PeeringState struct {
	ID             string // another one whenever the peering is established anew
	State          string
	PeerServerName string // ends with the other cluster's trust domain
	StreamStatus   struct{ ImportedServices []string }
}

// Cluster identifies the other cluster, and this peering with it: after a peering was established
// anew, instances come one by one. It is "" if that is not known.
func (p *PeeringState) Cluster() string {
	_, domain, ok := strings.Cut(p.PeerServerName, ".peering.")
	if !ok || p.ID == "" {
		return ""
	}
	return domain + " by peering " + p.ID
}

func (v peeringView) Decode(d *json.Decoder) (Contents, error) {
	p := &PeeringState{}
	if err := d.Decode(p); err != nil {
		return nil, err
	}
	return p, nil
}

// Doubt implements Doubtful. Only an active peering with services shows what the peer exports:
// the list of services comes in one message, and is empty until then.
func (v peeringView) Doubt(c Contents) *Doubt {
	p, _ := c.(*PeeringState)
	doubt := func(person bool, advice, problem string, a ...any) *Doubt {
		return &Doubt{Act: v.Request().Act, Problem: fmt.Sprintf(problem, a...), Advice: advice, Person: person}
	}
	const stays = "what was applied stays as it is"
	switch {
	case p == nil:
		return doubt(true, stays+"; establish the peering (`consul peering establish`), or correct the name of the peer", "there is no peering with this name")
	case p.State == "TERMINATED", p.State == "DELETING":
		return doubt(true, stays+"; establish the peering anew", "the peering is %s: it was deleted on one side", p.State)
	case p.State == "FAILING":
		return doubt(false, stays+" until it answers; `consul peering read -name "+v.peer+"` has details", "the peer does not answer (the peering is FAILING), and Consul shows old data of it")
	case p.State != "ACTIVE":
		return doubt(false, stays+" until the peering is ACTIVE", "the peering is %s: nothing is known of the peer", orUnknown(p.State))
	case len(p.StreamStatus.ImportedServices) == 0:
		return doubt(false, stays+"; let the peer export a service to this cluster (config entry exported-services)", "the peer exports no service to this cluster, or has not yet said which")
	}
	return nil
}

func orUnknown(state string) string {
	if state == "" {
		return "in an unknown state"
	}
	return state
}

// DoubtOf is why a peering proves nothing; nil if it does.
func DoubtOf(peer string, p *PeeringState) *Doubt {
	if p == nil {
		return peeringView{peer}.Doubt(nil)
	}
	return peeringView{peer}.Doubt(p)
}

// Exports reports whether the peer exports a service to this cluster.
func (p *PeeringState) Exports(name string) bool {
	return slices.Contains(p.StreamStatus.ImportedServices, name)
}

// State implements Stated.
func (v peeringView) State(c Contents) string {
	p, _ := c.(*PeeringState)
	if p == nil {
		return "none"
	}
	return Encode(append([]string{p.State, p.ID, p.PeerServerName}, p.StreamStatus.ImportedServices...)...)
}

// Auxiliary implements condition.Auxiliary.
func (v peeringView) Auxiliary() {}

// Empty implements View: of a selection by expression.
func (v peeringView) Empty(Reader) (string, []Right) {
	s := Scope{Peer: v.peer}
	return "every service that the task selects" + s.String(), []Right{{Scope: s, Of: OfPeer, Any: true}}
}

// Suppose implements View. The names stay: an exported service may have no instances.
func (v peeringView) Suppose(_ *Supposition, c Contents) Contents { return c }

// Elements are the names of the exported services.
func (p *PeeringState) Elements(v View) []Element {
	names := slices.Sorted(slices.Values(p.StreamStatus.ImportedServices))
	return list.Map(names, func(name string) Element {
		return Element{Source: Source{Scope: Scope{Peer: v.(peeringView).peer}, Of: OfService, Name: name}, Name: name, Detail: CatalogServicesKind.Entries}
	})
}

// peerSelection selects services of a peer by name.
type peerSelection struct{ serviceSelection }

func (s *peerSelection) Views() []View {
	return append([]View{listOf(s.scope)}, s.views...)
}

// Join refuses a service that the peer does not export: without instances, it looks like one that
// has none.
func (s *peerSelection) Join(views [][]Element) ([]Element, error) {
	exported := map[string]bool{}
	for _, e := range views[0] {
		exported[e.Name] = true
	}
	var all []Element
	for i, name := range s.names {
		if !exported[name] {
			return nil, &Doubt{Act: fmt.Sprintf("read service %q%s", name, s.scope), Problem: "the peer does not export it to this cluster", Person: true,
				Advice: "what was applied stays as it is; let the peer export it (config entry exported-services), or remove it from names"}
		}
		all = append(all, s.Adapt(views[i+1])...)
	}
	return all, nil
}

// peerCatalogSelection selects names of services of a peer. Their tags are those of the instances.
type peerCatalogSelection struct{ catalogSelection }

func (s *peerCatalogSelection) Views() []View { return []View{listOf(s.scope)} }

func (s *peerCatalogSelection) Choose(names []Element) (views []View, leftOut []string) {
	for _, e := range names {
		switch {
		case !s.MatchString(e.Name):
		case Addressable(instancesPath + e.Name):
			views = append(views, tagsView{s.scope, e.Name, s.nodeMeta})
		default:
			leftOut = append(leftOut, e.Name)
		}
	}
	return views, leftOut
}

func (s *peerCatalogSelection) ViewOf(source Source) View {
	if source.Scope != s.scope || source.Of != OfService || source.Node != "" || !s.MatchString(source.Name) {
		return nil
	}
	return s.Views()[0]
}

func (s *peerCatalogSelection) Missing(source Source, _ Reader) []Right {
	return []Right{{Scope: s.scope, Of: OfPeer, Name: source.Name}}
}

func (s *peerCatalogSelection) Render(into Entries, read []Contents) (Entries, error) {
	names := nameContents{}
	for _, got := range read {
		for _, i := range got.(serviceTags) {
			names[i.Service.Service] = union(names[i.Service.Service], i.Service.Tags)
		}
	}
	return s.catalogSelection.Render(into, []Contents{names})
}

// tagsView has a service with the tags of all its instances.
type tagsView struct {
	scope          Scope
	name, nodeMeta string
}

func (v tagsView) Gate() Request { return v.Request() }

func (v tagsView) Request() Request { return detailsView(v).Request() }

func (v tagsView) Decode(d *json.Decoder) (Contents, error) {
	got, err := instancesView{scope: v.scope, name: v.name}.Decode(d)
	all, _ := got.(instances)
	return serviceTags(all), err
}

func (v tagsView) Empty(reader Reader) (string, []Right) {
	return instancesView{scope: v.scope, name: v.name}.Empty(reader)
}

// Suppose implements View.
func (v tagsView) Suppose(s *Supposition, c Contents) Contents {
	was, _ := c.(serviceTags)
	now := slices.DeleteFunc(slices.Clone(was), s.goneInstance)
	query, _ := url.ParseQuery(v.nodeMeta)
	for _, w := range s.entriesIn(v.scope, v.name) {
		if s.used[w.at] = true; hasMeta(query["node-meta"], w.Node.Meta) {
			now = append(now, w.instance)
		}
	}
	return now
}

// serviceTags are instances of a service, of which only the tags matter.
type serviceTags []*instance

// Elements is the service, if it has instances: tags trigger nothing.
func (all serviceTags) Elements(v View) []Element {
	if len(all) == 0 {
		return nil
	}
	of := v.(tagsView)
	return []Element{{Source: Source{Scope: of.scope, Of: OfService, Name: of.name}, Name: of.name, Detail: CatalogServicesKind.Entries}}
}
