package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

const mapped = `
task { name = "edge" 
  module = "./m" 
  condition "services" { names = ["web", "api"] }
  module_input "consul-kv" {
    path = "net/edge"
    recurse = true
  }
}
task { name = "east" 
  module = "./m" 
  condition "services" { 
    regexp = "^web" 
    peer = "east"
  }
}
task { name = "all" 
  module = "./m" 
  condition "catalog-services" { regexp = ".*" }
  module_input "config-entries" {
    kind = "service-intentions"
    name = "web"
  }
}
task { name = "hosts" 
  module = "./m" 
  condition "nodes" { filter = "Meta.rack == \"7\"" }
  module_input "consul-kv" { path = "net/ntp" }
}
task { name = "nightly" 
  module = "./m" 
  condition "schedule" { cron = "0 4 * * *" }
  module_input "services" { names = ["web"] }
}
`

// made gives a task a run after which it has these resources.
func (e *engine) made(task string, addresses ...string) {
	e.t.Helper()
	var changes []state.Change
	known := e.conclude(task, state.Task{}, state.RunSucceeded, &changes)
	made, text := state.NewMade("r-"+task, addresses)
	made.Addresses.Name = "r-" + task + "-resources"
	known.Applied.Made = made
	if _, err := e.store.Apply(e.t.Context(), append(changes, state.Create(state.TaskKey(task), state.Encode(known)))...); err != nil {
		e.t.Fatal(err)
	}
	if err := state.SaveLog(e.t.Context(), e.store, task, made.Addresses.Name, []byte(text), time.Time{}); err != nil {
		e.t.Fatal(err)
	}
}

// mapOf is the map that a query selects, with the names of its tasks.
func (e *engine) mapOf(query string) (got apispec.MapResponse, names []string) {
	e.t.Helper()
	decode(e.t, e.get("/v1/map?"+query), &got)
	for _, task := range got.Tasks {
		names = append(names, task.Name)
	}
	return got, names
}

func TestMap_EachParameterSelectsTasks(t *testing.T) {
	e := newEngine(t, mapped).serve()
	e.made("edge", "module.edge.aws_lb.front", `module.edge.aws_subnet.s["a.b"]`, "module.edge.aws_subnet.s[0]")
	e.made("east", "module.east.aws_subnet.s")
	e.made("hosts")
	for query, want := range map[string]string{
		"":                                      "all east edge hosts nightly",
		"service=web":                           "all edge nightly east",
		"service=api":                           "all edge",
		"service=web&peer=east":                 "east",
		"peer=east":                             "east",
		"key=net/edge/dns":                      "edge",
		"key=/net/ntp":                          "hosts",
		"key=net":                               "",
		"entry=service-intentions/web":          "all",
		"entry=service-intentions/other":        "",
		"source=service+web":                    "edge nightly",
		"task=hosts":                            "hosts",
		"type=aws_subnet":                       "east edge",
		"type=aws_subnet&service=api":           "edge",
		"search=RACK":                           "hosts",
		"search=aws_lb":                         "edge",
		"search=services+match+peer":            "east",
		"source=keys+that+begin+with+net/edge":  "edge",
		"source=service+web+in+datacenter+none": "",
	} {
		got, names := e.mapOf(query)
		wanted := strings.Fields(want)
		slices.Sort(wanted)
		if !slices.Equal(names, wanted) || got.Counts.Tasks != len(wanted) {
			t.Errorf("%s selects %q (%d), want %q", query, names, got.Counts.Tasks, wanted)
		}
	}
}

func TestMap_HasWhatFeedsTasksAndWhatTheyHave(t *testing.T) {
	e := newEngine(t, mapped).serve()
	e.made("edge", "module.edge.aws_lb.front", `module.edge.aws_subnet.s["a.b"]`, "module.edge.aws_subnet.s[0]")
	e.made("hosts")
	got, _ := e.mapOf("type=aws_subnet")
	var addresses []string
	for _, a := range *got.Addresses {
		addresses = append(addresses, a.Task+" "+a.Address+" "+a.Run)
	}
	if want := []string{`edge module.edge.aws_subnet.s["a.b"] r-edge`, "edge module.edge.aws_subnet.s[0] r-edge"}; !slices.Equal(addresses, want) {
		t.Errorf("the addresses are %q", addresses)
	}
	got, _ = e.mapOf("")
	if got.Counts != (apispec.MapCounts{Sources: 8, Tasks: 5, Unknown: 3, Types: 2, Resources: 3}) {
		t.Errorf("%+v", got.Counts)
	}
	if first := got.Sources[0]; first.Text != "service web" || first.Tasks != 2 || *first.Name != "web" || first.Kind != "services" {
		t.Errorf("the first source is %+v", first)
	}
	if of := got.Tasks[2]; of.Name != "edge" || *of.Resources != 3 || fmt.Sprint(of.Sources) != "[service web service api keys that begin with net/edge]" || len(of.Types) != 2 {
		t.Errorf("%+v", of)
	}
	if hosts, nightly := got.Tasks[3], got.Tasks[4]; hosts.Resources == nil || *hosts.Resources != 0 || nightly.Resources != nil {
		t.Errorf("a task without resources, and one of which none are known: %+v, %+v", hosts, nightly)
	}
	got, _ = e.mapOf("limit=1")
	if len(got.Tasks)+len(got.Sources)+len(got.Types) != 3 || got.Counts.Tasks != 5 {
		t.Errorf("with a limit of 1: %+v", got)
	}
	status(t, e.get("/v1/map?limit=0"), 400)
}

// appliedWith says what a task was applied with.
func (e *engine) appliedWith(task, kind string, elements map[string]condition.Detail, sources ...condition.Source) {
	e.t.Helper()
	in := state.Inputs{Kind: kind, Elements: map[string]string{}, Details: map[string]string{}}
	for name, d := range elements {
		in.Elements[name], in.Details[name] = "x", d.String()
	}
	for _, s := range sources {
		in.Sources = append(in.Sources, s.String())
	}
	if err := state.SaveInputs(e.t.Context(), e.store, task, in); err != nil {
		e.t.Fatal(err)
	}
}

func TestMap_HasTheEntriesThatTasksWereAppliedWith(t *testing.T) {
	e := newEngine(t, mapped).serve()
	on := func(service, node, peer string) condition.Source {
		return condition.Source{Scope: condition.Scope{Peer: peer}, Of: condition.OfService, Name: service, Node: node}
	}
	e.appliedWith("edge", "services", map[string]condition.Detail{
		"web-1.rack7.n1.dc1": {Group: "web", ID: "web-1", Address: "10.0.0.1:80"}, "web.v2.n2.dc1": {Group: "web", ID: "web.v2", Address: "10.0.0.2:80"},
		"api-1.n1.dc1": {Group: "api", ID: "api-1", Address: "10.0.0.3:80"}}, on("web", "rack7.n1", ""), on("web", "n2", ""), on("api", "n1", ""))
	e.appliedWith("east", "services", map[string]condition.Detail{"web-1.n1.dc2.east": {Group: "web", ID: "web-1", Address: "10.1.0.1:80"}}, on("web", "n1", "east"))
	e.appliedWith("hosts", "nodes", map[string]condition.Detail{"n7": {Group: "nodes", Address: "10.0.0.7"}}, condition.Source{Of: condition.OfNode, Name: "n7"})
	e.appliedWith("all", "catalog-services", map[string]condition.Detail{"dns": {Group: "services"}, "web": {Group: "services"}})
	for query, want := range map[string]string{
		"task=edge":           "edge:api-1.n1.dc1@n1 edge:web-1.rack7.n1.dc1@rack7.n1 edge:web.v2.n2.dc1@n2",
		"task=hosts":          "hosts:n7@n7",
		"service=web":         "all:web@ east:web-1.n1.dc2.east@n1 edge:web-1.rack7.n1.dc1@rack7.n1 edge:web.v2.n2.dc1@n2",
		"service=api":         "edge:api-1.n1.dc1@n1",
		"peer=east":           "east:web-1.n1.dc2.east@n1",
		"source=service+web":  "edge:web-1.rack7.n1.dc1@rack7.n1 edge:web.v2.n2.dc1@n2",
		"task=nightly":        "",
		"node=n1":             "east:web-1.n1.dc2.east@n1 edge:api-1.n1.dc1@n1",
		"node=n1&service=web": "east:web-1.n1.dc2.east@n1",
		"node=n2":             "edge:web.v2.n2.dc1@n2",
		"node=n7":             "hosts:n7@n7",
	} {
		got, _ := e.mapOf(query)
		shown := []string{}
		for _, entry := range *got.Entries {
			shown = append(shown, entry.Task+":"+entry.Name+"@"+apispec.Deref(entry.Node))
		}
		if text := strings.Join(shown, " "); text != want {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
	}
	got, _ := e.mapOf("task=east")
	if first := (*got.Entries)[0]; *first.Service != "web" || *first.ID != "web-1" || *first.Address != "10.1.0.1:80" || *first.Peer != "east" || first.Kind != "services" {
		t.Errorf("%+v", first)
	}
}

func TestMap_ANodeSelectsTheTasksThatDependOnIt(t *testing.T) {
	e := newEngine(t, mapped).serve()
	on := func(service, node, peer string) condition.Source {
		return condition.Source{Scope: condition.Scope{Peer: peer}, Of: condition.OfService, Name: service, Node: node}
	}
	detail := condition.Detail{Group: "web", ID: "web-1"}
	e.appliedWith("edge", "services", map[string]condition.Detail{"web-1.rack7.n1.dc1": detail}, on("web", "rack7.n1", ""), on("api", "n2", ""))
	e.appliedWith("east", "services", map[string]condition.Detail{"web-1.n1.dc2.east": detail}, on("web", "n1", "east"))
	e.appliedWith("hosts", "nodes", map[string]condition.Detail{"n1": {Group: "nodes"}}, condition.Source{Of: condition.OfNode, Name: "n1"})
	e.appliedWith("all", "catalog-services", map[string]condition.Detail{"n1": {Group: "services"}}, on("n1", "", ""))
	e.made("edge", "module.edge.aws_lb.front")
	for query, want := range map[string]string{
		"node=n1":                 "east hosts",
		"node=rack7.n1":           "edge",
		"node=n2":                 "edge",
		"node=n2&service=web":     "", // the service runs on other nodes
		"node=n1&service=web":     "east",
		"node=n1&peer=east":       "east",
		"node=rack7.n1&peer=east": "",
		"node=rack7.n1&task=edge": "edge",
		"node=n1&type=aws_lb":     "",
		"node=n9":                 "",
	} {
		got, names := e.mapOf(query)
		if strings.Join(names, " ") != want || got.Counts.Tasks != len(names) {
			t.Errorf("%s selects %q (%d), want %q", query, names, got.Counts.Tasks, want)
		}
	}
	got, _ := e.mapOf("node=rack7.n1")
	if first := (*got.Addresses)[0]; first.Address != "module.edge.aws_lb.front" || got.Counts.Resources != 1 || got.Counts.Sources != 3 {
		t.Errorf("the resources that depend on the node: %+v of %+v", first, got.Counts)
	}
	if unknown := apispec.Deref(got.Counts.UnknownNodes); unknown != 1 { // nightly reads services, but was never applied
		t.Errorf("of %d tasks it is said that their nodes are not known", unknown)
	}
	one, _ := e.mapOf("node=n1&task=hosts")
	if one.Counts.UnknownNodes != nil {
		t.Errorf("of the selected task, the nodes are known: %+v", one.Counts)
	}
}

func TestMap_HasABoundedNumberOfEntries(t *testing.T) {
	e := newEngine(t, mapped).serve()
	many := map[string]condition.Detail{}
	for i := range 20_000 {
		many[fmt.Sprintf("web-%05d.n%d.dc1", i, i)] = condition.Detail{Group: "web", ID: fmt.Sprintf("web-%05d", i)}
	}
	e.appliedWith("edge", "services", many)
	got, _ := e.mapOf("task=edge")
	if len(*got.Entries) != 500 || apispec.Deref(got.MoreEntries) != 19_500 || (*got.Entries)[0].Name != "web-00000.n0.dc1" {
		t.Errorf("%d entries and %d more", len(*got.Entries), apispec.Deref(got.MoreEntries))
	}
	in := state.Inputs{Kind: "services", Elements: map[string]string{}, Sources: []string{condition.Source{Of: condition.OfService, Name: "web", Node: "n7"}.String()}}
	for i := range 20_001 {
		in.Elements[fmt.Sprintf("web-%05d.n%d.dc1", i, i)] = "x"
	}
	if err := state.SaveInputs(t.Context(), e.store, "edge", in); err != nil {
		t.Fatal(err)
	}
	got, _ = e.mapOf("node=n7")
	if len(*got.Entries) != 1 || (*got.Entries)[0].Name != "web-00007.n7.dc1" {
		t.Errorf("of entries without details, these are on the node: %+v", *got.Entries)
	}
}
