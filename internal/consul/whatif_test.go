package consul

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// twoDatacenters are two real Consuls that know of each other, with web and api on two
// nodes in the first, and web in the second.
func twoDatacenters(t *testing.T) *Client {
	t.Helper()
	ports := [2]int{testtools.FreePort(t), testtools.FreePort(t)}
	first := consultest.Start(t, consultest.WithHCL(fmt.Sprintf("ports { serf_wan = %d }", ports[0])))
	second := consultest.Start(t, consultest.WithHCL(fmt.Sprintf("datacenter = \"dc2\", ports { serf_wan = %d }", ports[1])))
	register := func(s *consultest.Server, node, address string, services ...*api.AgentService) {
		for _, service := range services {
			if _, err := s.Client().Catalog().Register(&api.CatalogRegistration{Node: node, Address: address, Service: service}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	register(first, "n1", "10.0.0.1", &api.AgentService{ID: "web-1", Service: "web", Port: 80, Tags: []string{"v1"}}, &api.AgentService{ID: "api-1", Service: "api", Port: 81})
	register(first, "n2", "10.0.0.2", &api.AgentService{ID: "web-2", Service: "web", Port: 80, Tags: []string{"v2"}})
	register(second, "far", "10.1.0.1", &api.AgentService{ID: "web-9", Service: "web", Port: 80})
	if _, err := first.Client().KV().Put(&api.KVPair{Key: "config/a", Value: []byte("1")}, nil); err != nil {
		t.Fatal(err)
	}
	if err := first.Client().Agent().Join(fmt.Sprintf("127.0.0.1:%d", ports[1]), true); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if known, err := first.Client().Catalog().Datacenters(); err == nil && len(known) == 2 {
			if _, _, err := first.Client().Catalog().Services(&api.QueryOptions{Datacenter: "dc2"}); err == nil {
				return client(t, first.Addr())
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the datacenters do not know of each other")
	return nil
}

func TestSuppose_OnlyTasksThatReadItAreConcerned(t *testing.T) {
	c := twoDatacenters(t)
	specs := []condition.Spec{
		services("web"), matching("^api"), condition.CatalogServices{Regexp: ".*b$|api"},
		condition.ConsulKV{Path: "config/", Recurse: true}, condition.Services{{Names: []string{"web"}, Datacenter: "dc2"}},
	}
	var tasks []*config.Task
	for _, spec := range specs {
		tasks = append(tasks, task(spec))
	}
	const web, apis, names, keys, far = 0, 1, 2, 3, 4
	for gone, want := range map[condition.Gone][]int{
		{Node: "n1"}:                         {web, apis, names},
		{Node: "n2"}:                         {web}, // tags of names trigger nothing
		{Node: "n*"}:                         {web, apis, names},
		{Service: "web"}:                     {web, names, far},
		{Service: "web", Datacenter: "dc2"}:  {far},
		{Instance: "web-1"}:                  {web},
		{Instance: "web-1", Node: "n2"}:      nil,
		{Datacenter: "dc2"}:                  {far},
		{Datacenter: "dc1"}:                  {web, apis, names, keys},
		{Node: "n7"}:                         nil,
		{Service: "api", Node: "n1"}:         {apis, names},
		{Instance: "api-1", Service: "web*"}: nil,
	} {
		s, err := c.Suppose(t.Context(), tasks, condition.WhatIf{Without: []condition.Gone{gone}})
		if err != nil {
			t.Fatal(err)
		}
		var concerned []int
		for i := range tasks {
			is, err := s.Concerned(i)
			if err != nil {
				t.Fatal(err)
			}
			if is {
				concerned = append(concerned, i)
			}
		}
		if !slices.Equal(concerned, want) || (len(s.Unmatched) > 0) != (len(want) == 0) {
			t.Errorf("without %s: concerned %v, want %v; %q", gone, concerned, want, s.Unmatched)
		}
	}
}

func TestSuppose_NamesAndTagsAreThoseOfTheInstancesThatAreLeft(t *testing.T) {
	c := twoDatacenters(t)
	named := task(condition.CatalogServices{Regexp: "web|api"})
	names := func(w condition.WhatIf) string {
		s, err := c.Suppose(t.Context(), []*config.Task{named}, w)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := s.Snapshot(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := snap.Visibility.Confirm(t.Context(), nil); err != nil {
			t.Error(err)
		}
		var all []string
		for _, e := range snap.Blocks[0].Entries.(condition.CatalogEntries) {
			all = append(all, e.Name+"="+strings.Join(e.Tags, "+"))
		}
		return strings.Join(all, " ")
	}
	with := func(entry string) condition.WhatIf {
		return condition.WhatIf{With: []json.RawMessage{json.RawMessage(entry)}}
	}
	for want, w := range map[string]condition.WhatIf{
		"web=v2":               {Without: []condition.Gone{{Node: "n1"}}},
		"api= web=v1":          {Without: []condition.Gone{{Instance: "web-2"}}},
		"api=":                 {Without: []condition.Gone{{Service: "web"}}},
		"":                     {Without: []condition.Gone{{Node: "n1"}, {Node: "n2"}}},
		"api= web=v1+v2":       {Without: []condition.Gone{{Node: "nobody"}}},
		"api= web=v1+v2+v3":    with(`{"Node": {"Node": "n3", "Address": "10.0.0.3"}, "Service": {"Service": "web", "Tags": ["v3"]}}`),
		"api= web=v2+v3":       with(`{"Node": {"Node": "n1", "Address": "10.0.0.1"}, "Service": {"ID": "web-1", "Service": "web", "Tags": ["v3"]}}`),
		"api= web=v1+v2 web2=": with(`{"Node": {"Node": "n3", "Address": "10.0.0.3"}, "Service": {"Service": "web2"}}`),
	} {
		if got := names(w); got != want {
			t.Errorf("%s: names %q, want %q", w, got, want)
		}
	}
}

func TestSuppose_AServiceThatIsNotThereYetIsChosenByItsName(t *testing.T) {
	c := twoDatacenters(t)
	w := condition.WhatIf{With: []json.RawMessage{json.RawMessage(`{"Node": {"Node": "n3", "Address": "10.0.0.3"}, "Service": {"Service": "api-new", "Port": 9}}`)}}
	s, err := c.Suppose(t.Context(), []*config.Task{task(matching("^api"))}, w)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := s.Snapshot(0)
	if err != nil || len(s.Unmatched) > 0 {
		t.Fatal(err, s.Unmatched)
	}
	var keys []string
	for _, e := range snap.Blocks[0].Entries.(condition.Instances) {
		keys = append(keys, e.Key())
	}
	if want := []string{"api-1.n1.dc1", "api-new.n3.dc1"}; !slices.Equal(keys, want) {
		t.Errorf("the module gets %v, want %v", keys, want)
	}
}
