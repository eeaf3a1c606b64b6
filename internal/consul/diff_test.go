package consul

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// differs is the difference of two observations.
func differs(before, now Observation) *state.EntryChanges {
	c := &state.EntryChanges{}
	Diff("", before.Elements, before.Details, now).CountIn(c)
	return c
}

// The test changes each thing of an instance that the module gets, and others.
func TestDiff_SaysWhatChangedInWordsOfConsul(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	web := func(change func(*api.AgentService)) *api.AgentService {
		i := &api.AgentService{ID: "web-1", Service: "web", Address: "10.0.0.1", Port: 8080, Tags: []string{"v1"}, Meta: map[string]string{"team": "net", "tier": "1"}}
		change(i)
		return i
	}
	base := web(func(*api.AgentService) {})
	q := query(t, services("web"))
	for _, step := range []struct {
		name string
		now  *api.AgentService
		want string
	}{
		{"nothing", base, ""},
		{"the port", web(func(i *api.AgentService) { i.Port = 8081 }), "web: ~web-1 (10.0.0.1:8080 -> 10.0.0.1:8081)"},
		{"the address", web(func(i *api.AgentService) { i.Address = "fd00::1" }), "web: ~web-1 (10.0.0.1:8080 -> [fd00::1]:8080)"},
		{"a tag", web(func(i *api.AgentService) { i.Tags = []string{"v1", "v2"} }), "web: ~web-1 (tags)"},
		{"a tag that is two", web(func(i *api.AgentService) { i.Tags = []string{"v", "1"} }), "web: ~web-1 (tags)"},
		{"a value of the metadata", web(func(i *api.AgentService) { i.Meta = map[string]string{"team": "net", "tier": "2"} }), "web: ~web-1 (meta)"},
		{"keys and values changed places", web(func(i *api.AgentService) { i.Meta = map[string]string{"team": "1", "tier": "net"} }), "web: ~web-1 (meta)"},
		{"several", web(func(i *api.AgentService) { i.Port, i.Tags, i.Meta = 1, nil, nil }), "web: ~web-1 (10.0.0.1:8080 -> 10.0.0.1:1, meta, tags)"},
		{"no port", web(func(i *api.AgentService) { i.Port = 0 }), "web: ~web-1 (10.0.0.1:8080 -> 10.0.0.1)"},
	} {
		register(t, s, "n1", *base)
		before := observe(t, c, q)
		register(t, s, "n1", *step.now)
		if got := differs(before, observe(t, c, q)).String(); got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}

	register(t, s, "n1", *base)
	register(t, s, "n1", api.AgentService{ID: "web-3", Service: "web", Address: "10.0.0.3", Port: 8080})
	before := observe(t, c, q)
	register(t, s, "n1", api.AgentService{ID: "web-4", Service: "web", Address: "10.0.0.4", Port: 8080})
	if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: "n1", ServiceID: "web-3"}, nil); err != nil {
		t.Fatal(err)
	}
	put(t, s, &api.CatalogRegistration{Node: "n1", Address: "10.0.0.9", NodeMeta: map[string]string{"rack": "2"}})
	got := differs(before, observe(t, c, q))
	want := &state.EntryChanges{Added: 1, Removed: 1, Changed: 1, Entries: []state.EntryChange{
		{Action: state.EntryRemoved, Name: "web-3.n1.dc1", Group: "web", ID: "web-3", Address: "10.0.0.3:8080"},
		{Action: state.EntryChanged, Name: "web-1.n1.dc1", Group: "web", ID: "web-1", Address: "10.0.0.1:8080", Attributes: []string{"node_address", "node_meta"}},
		{Action: state.EntryAdded, Name: "web-4.n1.dc1", Group: "web", ID: "web-4", Address: "10.0.0.4:8080"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, want := got.String(), "web: -web-3 (10.0.0.3:8080), ~web-1 (node_address, node_meta), +web-4 (10.0.0.4:8080)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDiff_NamesKeysAndServices(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	keys, catalog := query(t, condition.ConsulKV{Path: "cfg/", Recurse: true}), query(t, condition.CatalogServices{Regexp: "^web"})
	putKey(t, s, "cfg/a", "1")
	before, none := observe(t, c, keys), observe(t, c, catalog)
	putKey(t, s, "cfg/a", "2")
	putKey(t, s, "cfg/b", "1")
	register(t, s, "n1", api.AgentService{Service: "web"})
	if got := differs(before, observe(t, c, keys)).String(); got != "keys: ~cfg/a, +cfg/b" {
		t.Error(got)
	}
	if got := differs(none, observe(t, c, catalog)).String(); got != "services: +web" {
		t.Error(got)
	}
}

// Of entries that were applied by a version that kept no details, or of too many of
// them, the names are known.
func TestDiff_WithoutDetails(t *testing.T) {
	applied := map[string]string{"web-1.n1.dc1": "1", "web-2.n1.dc1": "1"}
	now := Observation{Elements: map[string]string{"web-1.n1.dc1": "2"}, Details: map[string]string{"web-1.n1.dc1": "web\tweb-1\t10.0.0.1:80"}}
	c := &state.EntryChanges{}
	Diff("service instances", applied, nil, now).CountIn(c)
	if got, want := c.String(), "service instances: -web-2.n1.dc1; web: ~web-1 (10.0.0.1:80)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEntryChanges_AreBounded(t *testing.T) {
	now := Observation{Elements: map[string]string{}}
	for i := range 90 {
		now.Elements[fmt.Sprintf("web-%02d", i)] = "1"
	}
	c := &state.EntryChanges{}
	Diff("keys", map[string]string{"gone": "1"}, nil, now).CountIn(c)
	if c.Added != 90 || c.Removed != 1 || len(c.Entries) != state.KeptEntries+1 {
		t.Errorf("%+v", c)
	}
	if got, want := c.String(), "keys: -gone, +web-00, +web-01, +web-02, +web-03, +web-04 and 85 more added"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
