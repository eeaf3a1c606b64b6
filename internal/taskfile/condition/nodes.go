package condition

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/tfvars"
)

// NodesKind is condition "nodes", and the module input of that name.
var NodesKind = &Kind{
	Name:      "nodes",
	Doc:       "nodes and their health",
	Keys:      func() Keys { return &nodesCondition{} },
	InputDoc:  "nodes, in 'nodes'",
	Entries:   "nodes",
	InputKeys: func() Keys { return &nodes{} },
	Variable: &Variable{
		Name:    "nodes",
		Grouped: true,
		Declaration: func(string) string {
			return `
# Consul nodes by name
variable "nodes" {
  description = "Consul nodes by name"
  type = map(
    object({
      id               = string
      name             = string
      address          = string
      datacenter       = string
      tagged_addresses = map(string)
      meta             = map(string)
      status           = string
    })
  )
}
`
		},
	},
}

type nodes struct {
	block.Origin
	NodeMeta   block.Map     `key:"node_meta" doc:"only nodes with this metadata"`
	Filter     block.String  `key:"filter" example:"Meta.rack != \"r1\"" doc:"[filter](https://developer.hashicorp.com/consul/api-docs/features/filtering) on the nodes: 'Node' (the name), 'ID', 'Address', 'Datacenter', 'TaggedAddresses', 'Meta'"`
	Status     block.Strings `key:"status" unset:"every status" doc:"only nodes with one of these statuses: 'passing', 'warning', 'critical', 'maintenance'"`
	Health     block.Bool    `key:"health" default:"true" doc:"'false': the health of nodes is ignored: its changes trigger nothing, and 'status' is empty"`
	Datacenter block.String  `key:"datacenter" unset:"the agent's" doc:"datacenter to read from"`
}

type nodesCondition struct {
	nodes
	UseAsInput
}

func (k *nodes) Spec(r *block.Report, parent string) Spec {
	where := parent + ` "nodes"`
	for i, status := range k.Status.V {
		if !slices.Contains(statuses[:], status) {
			r.Fail(k.Status.Element(i), where+": "+block.Quoted(status)+" is not a status", "the statuses are "+strings.Join(statuses[:], ", "))
		}
	}
	if len(k.Status.V) > 0 && !k.Health.V {
		r.Fail(k.Status.Origin, where+": status needs the health of nodes, which health = false leaves out", "remove one of them")
	}
	spec := Nodes{NodeMeta: k.NodeMeta.V, Filter: CheckFilter(r, k.Filter), Datacenter: k.Datacenter.V, IgnoreHealth: !k.Health.V}
	if len(k.Status.V) > 0 {
		spec.Status = slices.Compact(slices.Sorted(slices.Values(k.Status.V)))
	}
	return spec
}

// Nodes selects nodes of a datacenter.
type Nodes struct {
	NodeMeta     map[string]string `json:"node_meta,omitempty"`
	Filter       string            `json:"filter,omitempty"` // bexpr
	Status       []string          `json:"status,omitempty"` // sorted, each once; empty for every status
	Datacenter   string            `json:"datacenter,omitempty"`
	IgnoreHealth bool              `json:"ignore_health,omitempty"`
}

// Kind is NodesKind.
func (Nodes) Kind() *Kind { return NodesKind }

// Definition has the keys as people write them.
func (n Nodes) Definition() map[string]any {
	type fields Nodes
	shown := Definition(fields(n))
	delete(shown, "ignore_health")
	shown["health"], shown["status"] = !n.IgnoreHealth, append([]string{}, n.Status...)
	return shown
}

// String says which nodes are selected.
func (n Nodes) String() string {
	text := "every node"
	if len(n.Status) > 0 {
		text = "nodes that are " + strings.Join(n.Status, " or ")
	}
	text += Scope{Datacenter: n.Datacenter}.String()
	if meta := list.Map(slices.Sorted(maps.Keys(n.NodeMeta)), func(key string) string { return key + "=" + n.NodeMeta[key] }); len(meta) > 0 {
		text += " with " + strings.Join(meta, ", ")
	}
	if n.Filter != "" {
		text += " with filter " + n.Filter
	}
	return text
}

// Feeds is the block itself. Which nodes it has, only Consul knows.
func (n Nodes) Feeds() []Feed {
	return []Feed{{Kind: NodesKind, Text: n.String(), Scope: Scope{Datacenter: n.Datacenter}}}
}

// Selections is the block itself.
func (n Nodes) Selections() []Selection {
	query := url.Values{}
	for _, key := range slices.Sorted(maps.Keys(n.NodeMeta)) {
		query.Add("node-meta", key+":"+n.NodeMeta[key])
	}
	if n.Filter != "" {
		query.Set("filter", n.Filter)
	}
	scope := Scope{Datacenter: n.Datacenter}
	return []Selection{&nodeSelection{
		view: nodesView{scope, query.Encode()}, health: nodeHealthView{scope}, status: n.Status, ignoreHealth: n.IgnoreHealth,
	}}
}

// nodeSelection joins two views: no request of Consul shows nodes with their health, and
// their services left out.
type nodeSelection struct {
	view         nodesView
	health       nodeHealthView
	status       []string
	ignoreHealth bool
}

func (s *nodeSelection) ID() string {
	return Encode(NodesKind.Name, s.view.scope.Datacenter, s.view.query, Encode(s.status...), fmt.Sprint(s.ignoreHealth))
}

func (s *nodeSelection) Scope() Scope                       { return s.view.scope }
func (s *nodeSelection) Family() *Family                    { return catalog }
func (s *nodeSelection) Views() []View                      { return []View{s.view, s.health} }
func (s *nodeSelection) Adapt(elements []Element) []Element { return elements }

// Join gives each node its status.
func (s *nodeSelection) Join(views [][]Element) ([]Element, error) {
	if s.ignoreHealth {
		return views[0], nil
	}
	known := map[string]string{}
	for _, e := range views[1] {
		known[e.Name] = e.Detail
	}
	var joined []Element
	for _, e := range views[0] {
		status := s.statusOf(known, e.Name)
		if !s.selects(status) {
			continue
		}
		e.Sum = sha256.Sum256(append(e.Sum[:], status...))
		e.Detail += fmt.Sprintf(",status=%04x", shortSum(&tfvars.Field{Text: status}))
		joined = append(joined, e)
	}
	return joined, nil
}

// statusOf is the status of a node. One without checks is passing, as for Consul.
func (s *nodeSelection) statusOf(known map[string]string, node string) string {
	switch status := known[node]; {
	case s.ignoreHealth:
		return ""
	case status == "":
		return statuses[0]
	default:
		return status
	}
}

func (s *nodeSelection) selects(status string) bool {
	return len(s.status) == 0 || slices.Contains(s.status, status)
}

func (s *nodeSelection) ViewOf(source Source) View {
	if source.Scope != s.view.scope || source.Of != OfNode || source.Node != "" {
		return nil
	}
	return s.view
}

func (s *nodeSelection) Missing(source Source, _ Reader) []Right {
	return []Right{{Scope: source.Scope, Of: OfNode, Name: source.Name}}
}

func (s *nodeSelection) Render(into Entries, read []Contents) (Entries, error) {
	entries, _ := into.(NodeEntries)
	known := map[string]string{}
	for _, got := range read {
		if health, ok := got.(nodeHealth); ok {
			maps.Copy(known, health)
		}
	}
	for _, got := range read {
		all, _ := got.(nodeContents)
		for _, shown := range all {
			n := *shown // other tasks share what was read
			if n.Status = s.statusOf(known, n.Name); s.selects(n.Status) {
				entries = append(entries, &n)
			}
		}
	}
	return entries, nil
}

// nodesView has nodes, without their health.
type nodesView struct {
	scope Scope
	query string // as parameters of a URL
}

func (v nodesView) Gate() Request { return v.Request() }

func (v nodesView) Request() Request {
	query, _ := url.ParseQuery(v.query) // url.Values has encoded it
	return Request{
		Act: "read the nodes" + v.scope.String(), Needs: "node:read on the nodes",
		Path: "/v1/catalog/nodes", Scope: v.scope, Query: query, PartitionOnly: true,
	}
}

func (v nodesView) Decode(d *json.Decoder) (Contents, error) {
	var got nodeContents
	err := DecodeEach(d, func(n *catalogNode) { got = append(got, n.entry()) })
	got.sort()
	return got, err
}

func (v nodesView) Empty(reader Reader) (string, []Right) {
	if !reader.Tokenless && !reader.Filtered {
		return "", nil
	}
	return "every node that the task selects" + v.scope.String(), []Right{{Scope: v.scope, Of: OfNode, Any: true}}
}

// Suppose implements View.
func (v nodesView) Suppose(s *Supposition, c Contents) Contents {
	was, _ := c.(nodeContents)
	now := slices.DeleteFunc(slices.Clone(was), func(n *Node) bool { return s.goneNode(n.Name, n.Datacenter) })
	for _, w := range s.entriesIn(v.scope, "") {
		of := catalogNode(w.atHome(s.Home).Node)
		n := of.entry()
		there := slices.ContainsFunc(now, func(other *Node) bool { return other.Name == n.Name })
		if v.selects(s, w) {
			if s.used[w.at] = true; !there {
				now = append(now, n)
			}
		}
	}
	now.sort()
	return now
}

// selects reports whether the view would show the node of an entry.
func (v nodesView) selects(s *Supposition, w *withInstance) bool {
	query, _ := url.ParseQuery(v.query)
	if !hasMeta(query["node-meta"], w.Node.Meta) {
		return false
	}
	filter := query.Get("filter")
	if filter == "" {
		return true
	}
	var entry struct{ Node json.RawMessage }
	_ = json.Unmarshal(w.raw, &entry) // it was decoded before
	matches, err := filterMatches(filter, entry.Node)
	if err != nil {
		s.fail(fmt.Errorf("with: element %d: the filter %q of a task cannot be evaluated for its node: %w", w.at+1, filter, err))
	}
	return matches
}

// hasMeta reports whether metadata has pairs that are written as KEY:VALUE.
func hasMeta(pairs []string, meta map[string]string) bool {
	return !slices.ContainsFunc(pairs, func(pair string) bool {
		key, value, _ := strings.Cut(pair, ":")
		return meta[key] != value
	})
}

// goneNode reports whether a node is gone with everything on it.
func (s *Supposition) goneNode(name, datacenter string) bool {
	gone := false
	for i, g := range s.Without {
		if g.Service == "" && g.Instance == "" && g.Peer == "" && fits(g.Node, name) && fits(g.Datacenter, s.datacenter(datacenter)) {
			s.found[i], gone = true, true
		}
	}
	return gone
}

// catalogNode is what matters of an element of /v1/catalog/nodes, or of the node of an instance.
type catalogNode struct {
	ID, Node, Address, Datacenter string
	TaggedAddresses, Meta         map[string]string
}

func (n *catalogNode) entry() *Node {
	return &Node{ID: n.ID, Name: n.Node, Address: n.Address, Datacenter: n.Datacenter, TaggedAddresses: notNil(n.TaggedAddresses), Meta: notNil(n.Meta)}
}

// nodeContents are sorted by name.
type nodeContents []*Node

func (c nodeContents) sort() {
	slices.SortFunc(c, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
}

func (c nodeContents) Elements(v View) []Element {
	return list.Map(c, func(n *Node) Element {
		text, _ := json.Marshal(n) // texts
		detail := Detail{Group: NodesKind.Entries, Address: n.Address, attributes: n.sums()}
		return Element{Source: Source{Scope: v.(nodesView).scope, Of: OfNode, Name: n.Name}, Name: n.Name, Sum: sha256.Sum256(text), Detail: detail.String()}
	})
}

// sums are short digests of the attributes, for the details of a change.
func (n *Node) sums() string {
	var sums []string
	for _, f := range n.fields() {
		if f.Name != "name" && f.Name != "status" { // Join adds the status
			sums = append(sums, fmt.Sprintf("%s=%04x", f.Name, shortSum(&f)))
		}
	}
	return strings.Join(sums, ",")
}

// nodeHealthView has the nodes that are not passing: few of many.
type nodeHealthView struct{ scope Scope }

func (v nodeHealthView) Gate() Request { return v.Request() }

func (v nodeHealthView) Request() Request {
	return Request{
		Act: "read the health of the nodes" + v.scope.String(), Needs: "node:read on the nodes",
		Path: "/v1/health/state/any", Scope: v.scope, PartitionOnly: true, Unfiltered: true, // by checks of services
		Query: url.Values{"filter": {`ServiceID == "" and Status != "passing"`}},
	}
}

func (v nodeHealthView) Decode(d *json.Decoder) (Contents, error) {
	checks := map[string][]check{}
	err := DecodeEach(d, func(c *nodeCheck) { checks[c.Node] = append(checks[c.Node], c.check) })
	got := make(nodeHealth, len(checks))
	for node, of := range checks {
		got[node] = worst(of)
	}
	return got, err
}

// Auxiliary implements condition.Auxiliary.
func (v nodeHealthView) Auxiliary() {}

// Empty needs no proof: a node that may be read shows its checks.
func (v nodeHealthView) Empty(Reader) (string, []Right) { return "", nil }

// Suppose implements View: an entry that is there besides may have checks of its node.
func (v nodeHealthView) Suppose(s *Supposition, c Contents) Contents {
	was, _ := c.(nodeHealth)
	now := maps.Clone(was)
	for _, w := range s.entriesIn(v.scope, "") {
		var of []check
		for _, c := range w.Checks {
			if c.ServiceID == "" {
				of = append(of, c)
			}
		}
		if _, known := was[w.Node.Node]; !known && len(of) > 0 {
			if now == nil {
				now = nodeHealth{}
			}
			now[w.Node.Node] = worst(of)
		}
	}
	return now
}

type nodeCheck struct {
	Node string
	check
}

// nodeHealth is the status of each node that is not passing.
type nodeHealth map[string]string

// Elements are the statuses, which nodeSelection joins with the nodes.
func (h nodeHealth) Elements(v View) []Element {
	return list.Map(slices.Sorted(maps.Keys(h)), func(node string) Element {
		return Element{Source: Source{Scope: v.(nodeHealthView).scope, Of: "node health", Name: node}, Name: node, Sum: sha256.Sum256([]byte(h[node])), Detail: h[node]}
	})
}

// NodeEntries are the entries of nodes.
type NodeEntries []*Node

// Node is a node as modules see it. Maps are never nil.
type Node struct {
	ID, Name, Address, Datacenter string
	TaggedAddresses, Meta         map[string]string
	Status                        string `json:"-"` // the worst of the checks of the node itself
}

// Len is the number of nodes.
func (all NodeEntries) Len() int { return len(all) }

// Write writes the attributes of each node.
func (all NodeEntries) Write(w *tfvars.Writer, attributes map[string]bool) {
	for _, n := range all {
		w.Entry(n.Name)
		var fields []tfvars.Field
		for _, f := range n.fields() {
			if attributes[f.Name] {
				fields = append(fields, f)
			}
		}
		w.Object(fields)
	}
}

// fields are the attributes in the order in which they are written.
func (n *Node) fields() []tfvars.Field {
	return []tfvars.Field{
		{Name: "id", Text: n.ID},
		{Name: "name", Text: n.Name},
		{Name: "address", Text: n.Address},
		{Name: "datacenter", Text: n.Datacenter},
		{Name: "tagged_addresses", Kind: tfvars.Table, Table: n.TaggedAddresses},
		{Name: "meta", Kind: tfvars.Table, Table: n.Meta},
		{Name: "status", Text: n.Status},
	}
}
