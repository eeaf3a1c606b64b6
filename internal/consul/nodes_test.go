package consul

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// check sets a check of a node, or of a service on it.
func check(t *testing.T, s *consultest.Server, node, service, id, status string) {
	t.Helper()
	put(t, s, &api.CatalogRegistration{Node: node, SkipNodeUpdate: true, Check: &api.AgentCheck{Node: node, ServiceID: service, CheckID: id, Status: status}})
}

func shownNodes(t *testing.T, c *Client, spec condition.Spec) map[string]condition.Node {
	t.Helper()
	snap, err := c.Snapshot(t.Context(), task(spec))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]condition.Node{}
	for _, b := range snap.Blocks {
		if entries, ok := b.Entries.(condition.NodeEntries); ok {
			for _, n := range entries {
				all[n.Name] = *n
			}
		}
	}
	return all
}

func TestNodes_HaveTheStatusOfTheirOwnChecks(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	for i, node := range []string{"n1", "n2", "n3", "switch"} {
		put(t, s, &api.CatalogRegistration{Node: node, Address: fmt.Sprintf("10.0.0.%d", i+1), NodeMeta: map[string]string{"role": "edge"},
			TaggedAddresses: map[string]string{"lan": "10.0.0.9"}, Service: &api.AgentService{ID: "web", Service: "web"}})
	}
	check(t, s, "n1", "", "disk", "warning")
	check(t, s, "n1", "", "fan", "passing")
	check(t, s, "n2", "", "disk", "critical")
	check(t, s, "n3", "web", "web", "critical")
	edges := condition.Nodes{NodeMeta: map[string]string{"role": "edge"}}
	status := func(spec condition.Nodes) map[string]string {
		all := map[string]string{}
		for name, n := range shownNodes(t, c, spec) {
			all[name] = n.Status
		}
		return all
	}
	want := map[string]string{"n1": "warning", "n2": "critical", "n3": "passing", "switch": "passing"}
	if diff := cmp.Diff(want, status(edges)); diff != "" {
		t.Errorf("the statuses (-want +got):\n%s", diff)
	}
	n1 := shownNodes(t, c, edges)["n1"]
	if diff := cmp.Diff(condition.Node{Name: "n1", Address: "10.0.0.1", Datacenter: "dc1", Meta: edges.NodeMeta, TaggedAddresses: map[string]string{"lan": "10.0.0.9"}, Status: "warning"}, n1); diff != "" {
		t.Errorf("n1 (-want +got):\n%s", diff)
	}
	check(t, s, "n1", "", "_node_maintenance", "critical")
	if got := status(edges)["n1"]; got != "maintenance" {
		t.Errorf("n1 in maintenance is %s", got)
	}
	few := edges
	few.Status, few.Filter = []string{"maintenance", "passing"}, `Node != "switch"`
	if diff := cmp.Diff(map[string]string{"n1": "maintenance", "n3": "passing"}, status(few)); diff != "" {
		t.Errorf("with a status and a filter (-want +got):\n%s", diff)
	}
	blind := edges
	blind.IgnoreHealth = true
	if diff := cmp.Diff(map[string]string{"n1": "", "n2": "", "n3": "", "switch": ""}, status(blind)); diff != "" {
		t.Errorf("without health (-want +got):\n%s", diff)
	}
}

func TestNodes_DifferenceNamesWhatHasChanged(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	register := func(node, address, rack string) {
		put(t, s, &api.CatalogRegistration{Node: node, Address: address, NodeMeta: map[string]string{"rack": rack}})
	}
	register("n1", "10.0.0.1", "1")
	register("n2", "10.0.0.2", "1")
	all := condition.Nodes{Filter: `Node matches "^n"`}
	observe := func() Observation {
		a := c.Observe(t.Context(), []Query{query(t, all)})[0]
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		return a.Observation
	}
	before := observe()
	check(t, s, "n1", "", "disk", "critical")
	register("n1", "10.0.0.1", "2")
	register("n2", "10.0.0.3", "1")
	register("n3", "10.0.0.4", "1")
	var got []string
	for _, e := range Diff("", before.Elements, before.Details, observe()).Entries() {
		got = append(got, fmt.Sprintf("%s %s %s %s %s<-%s", e.Action, e.Group, e.Name, strings.Join(e.Attributes, "+"), e.Address, e.Before))
	}
	want := []string{"changed nodes n1 meta+status 10.0.0.1<-", "changed nodes n2 address 10.0.0.3<-10.0.0.2", "added nodes n3  10.0.0.4<-"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the difference (-want +got):\n%s", diff)
	}
}

// The gates of services serve nodes, too, and what passes costs nothing.
func TestNodes_IdlePollCostsTheGatesOfTheCatalog(t *testing.T) {
	all := []Query{query(t, condition.Nodes{}), query(t, condition.Nodes{Filter: `Node == "n"`}), query(t, condition.Nodes{IgnoreHealth: true})}
	for _, queries := range [][]Query{all[:1], all[2:], all, append(all, query(t, services("a", "b")))} {
		keys := PollGates(queries).Keys()
		if want := []string{"nodes", "checks-critical"}; !slices.Equal(keys, want) {
			t.Errorf("the gates of %d queries are %q, want %q", len(queries), keys, want)
		}
	}
}

func TestNodes_NeedNoRightOnServices(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs())
	put(t, s, &api.CatalogRegistration{Node: "n1", Address: "10.0.0.1", Service: &api.AgentService{Service: "web"}})
	check(t, s, "n1", "web", "web", "critical")
	some, rights := reader(t, s, "some", `node_prefix "n" { policy = "read" }`)
	if got := shownNodes(t, some, condition.Nodes{}); len(got) != 1 || got["n1"].Status != "passing" {
		t.Errorf("a reader of some nodes sees %+v", got)
	}
	before := sources(t, some, condition.Nodes{})
	grant(t, s, rights, "")
	if err := confirm(t, some, condition.Nodes{}, before); !IsForbidden(err) {
		t.Errorf("without the right, nodes are gone: %v", err)
	}
	// Consul looks at rights before it applies the filter: what matches is not known to be nothing.
	grant(t, s, rights, `node_prefix "n" { policy = "read" }`)
	if err := confirm(t, some, condition.Nodes{Filter: `Node == "other"`}, nil); !IsForbidden(err) {
		t.Errorf("a node that no answer shows is taken for one that does not exist: %v", err)
	}
}
