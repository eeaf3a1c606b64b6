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
		condition.Nodes{}, condition.Nodes{Filter: `Node == "n2"`, IgnoreHealth: true},
	}
	var tasks []*config.Task
	for _, spec := range specs {
		tasks = append(tasks, task(spec))
	}
	const web, apis, names, keys, far, nodes, second = 0, 1, 2, 3, 4, 5, 6
	for gone, want := range map[condition.Gone][]int{
		{Node: "n1"}:                         {web, apis, names, nodes},
		{Node: "n2"}:                         {web, nodes, second}, // tags of names trigger nothing
		{Node: "n*"}:                         {web, apis, names, nodes, second},
		{Service: "web"}:                     {web, names, far},
		{Service: "web", Datacenter: "dc2"}:  {far},
		{Instance: "web-1"}:                  {web},
		{Instance: "web-1", Node: "n2"}:      nil,
		{Datacenter: "dc2"}:                  {far},
		{Datacenter: "dc1"}:                  {web, apis, names, keys, nodes, second},
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

func TestSuppose_AFilterSelectsAnEntryAsConsulDoes(t *testing.T) {
	server := consultest.Start(t)
	c := client(t, server.Addr())
	for id, status := range map[string]string{"web-1": "passing", "web-2": "critical", "web-3": "warning"} {
		_, err := server.Client().Catalog().Register(&api.CatalogRegistration{Node: "n1", Address: "10.0.0.1", NodeMeta: map[string]string{"rack": "7"},
			Service: &api.AgentService{ID: id, Service: "web", Port: 8000 + len(status), Tags: []string{"v1", id}, Meta: map[string]string{"zone": "a", "only-" + id: "yes"}},
			Checks:  api.HealthChecks{{Node: "n1", CheckID: "node", Name: "node", Status: "passing"}, {Node: "n1", CheckID: id, Name: "own", Status: status, ServiceID: id}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	var raw []json.RawMessage
	if _, err := server.Client().Raw().Query("/v1/health/service/web", &raw, nil); err != nil || len(raw) != 3 {
		t.Fatal(err, len(raw))
	}
	nowhere := condition.WhatIf{Without: []condition.Gone{{Service: "web"}}, With: raw}
	for _, filter := range []string{
		`"v1" in Service.Tags`, `"web-2" in Service.Tags`, `"web-1" not in Service.Tags`, `Service.Tags contains "v1"`, `Service.Tags is not empty`, `Service.Tags is empty`,
		`Checks.Status == "passing"`, `Checks.Status != "passing"`, `Checks.Status == "critical"`, `not Checks.Status == "critical"`, `"crit" in Checks.Status`,
		`Service.Meta.zone == "a"`, `Service.Meta.none == "a"`, `Service.Meta.none != "a"`, `"only-web-1" in Service.Meta`, `Service.Meta["only-web-2"] == yes`, `Service.Meta is empty`,
		`Service.Port == 8007`, `Service.Port != 8007`, `Service.ID matches "^web-[12]$"`, `Service.ID not matches "1$"`, `Node.Meta.rack == 7 and Service.ID == "web-3"`,
		`Service.ID == "web-1" or Checks.CheckID == "web-2"`, `Service.Connect.Native == false`, `Node.Node == "n1" and not (Service.ID == "web-1")`,
	} {
		of := task(condition.Services{{Names: []string{"web"}, Filter: filter}})
		is, err := c.Snapshot(t.Context(), of)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		s, err := c.Suppose(t.Context(), []*config.Task{of}, nowhere)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if would, err := s.Snapshot(0); err != nil || would.Digest() != is.Digest() {
			t.Errorf("%s: Consul selects %v, and with the same entries supposed, there would be %v; %v", filter, is.Condition.Elements, would.Condition.Elements, err)
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
