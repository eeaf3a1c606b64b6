package condition

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// catalogOf draws the instances of a small Consul.
func catalogOf(t *rapid.T) instances {
	var all instances
	names := []string{"n1", "n2", "rack7-1", "rack7-2"}
	for n := range rapid.IntRange(0, 12).Draw(t, "instances") {
		i := &instance{}
		i.Node.Node, i.Node.Address = rapid.SampledFrom(names).Draw(t, "node"), "10.0.0.1"
		i.Node.Datacenter = rapid.SampledFrom([]string{"dc1", "dc2"}).Draw(t, "datacenter")
		i.Service.Service = rapid.SampledFrom([]string{"web", "api", "web-admin"}).Draw(t, "service")
		i.Service.ID, i.Service.Port = fmt.Sprintf("%s-%d", i.Service.Service, n), n
		all = append(all, i)
	}
	slices.SortFunc(all, compareInstances)
	return all
}

func goneOf(t *rapid.T) Gone {
	pick := func(what string, values ...string) string {
		return rapid.SampledFrom(append(values, "")).Draw(t, what)
	}
	return Gone{Node: pick("gone node", "n1", "rack7-*", "nobody"), Service: pick("gone service", "web", "web*"),
		Instance: pick("gone instance", "web-1", "*-3"), Datacenter: pick("gone datacenter", "dc2")}
}

// matches is what a Gone means, said once more in another way.
func matches(g Gone, i *instance) bool {
	for pattern, value := range map[*string]string{&g.Node: i.Node.Node, &g.Service: i.Service.Service, &g.Instance: i.Service.ID, &g.Datacenter: i.Node.Datacenter} {
		prefix, suffix, star := strings.Cut(*pattern, "*")
		if *pattern != "" && value != *pattern && !(star && strings.HasPrefix(value, prefix) && strings.HasSuffix(value, suffix)) {
			return false
		}
	}
	return true
}

func TestSuppose_TakesAwayWhatMatchesAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := goneOf(t)
		if g == (Gone{}) {
			t.Skip()
		}
		was := catalogOf(t)
		before := slices.Clone(was)
		s, err := NewSupposition(WhatIf{Without: []Gone{g}})
		if err != nil {
			t.Fatal(err)
		}
		s.Home = "dc1"
		now := instancesView{}.Suppose(s, was).(instances)
		want := slices.DeleteFunc(slices.Clone(was), func(i *instance) bool { return matches(g, i) })
		if !slices.Equal(now, want) {
			t.Fatalf("without %s, %d of %d instances are left, want %d", g, len(now), len(was), len(want))
		}
		if !reflect.DeepEqual(was, before) {
			t.Fatal("what was read has changed")
		}
		if found := len(s.Unmatched()) == 0; found != (len(want) < len(was)) {
			t.Fatalf("without %s: %d of %d are gone, and it says %q", g, len(was)-len(want), len(was), s.Unmatched())
		}
	})
}

func TestSuppose_KeysAndConfigEntriesStayUnlessTheirDatacenterIsGone(t *testing.T) {
	keys := keyContents{{"config/a", []byte("1")}}
	for gone, stay := range map[Gone]bool{
		{Node: "n1"}: true, {Service: "web"}: true, {Instance: "*"}: true, {Datacenter: "dc2"}: true, {Datacenter: "dc1"}: false, {Datacenter: "dc1", Node: "n1"}: true,
	} {
		s, err := NewSupposition(WhatIf{Without: []Gone{gone}})
		if err != nil {
			t.Fatal(err)
		}
		s.Home = "dc1"
		if left := (kvSelection{Path: "config/", Recurse: true}).Suppose(s, keys).(keyContents); (len(left) == 1) != stay {
			t.Errorf("without %s, the keys are %v", gone, left)
		}
		if left := (entriesView{kind: "mesh"}).Suppose(s, documents{{name: "mesh"}}).(documents); (len(left) == 1) != stay {
			t.Errorf("without %s, the config entries are %v", gone, left)
		}
	}
}

// web9 is an instance as /v1/health/service shows it, shortened.
const web9 = `{"Node": {"Node": "n9", "Address": "10.0.0.9"}, "Service": {"ID": "web-9", "Service": "web", "Port": 80, "Tags": ["v1"]}, "Checks": [{"CheckID": "http", "Status": "passing", "ServiceID": "web-9"}]}`

func TestSuppose_AnEntryIsAddedOrReplacesTheOneOfItsIdentity(t *testing.T) {
	was := instances{{}}
	was[0].Node.Node, was[0].Node.Datacenter, was[0].Service.Service, was[0].Service.ID, was[0].Service.Port = "n9", "dc1", "web", "web-9", 8080
	for name, c := range map[string]struct {
		filter, entry string
		ports         []int
	}{
		"it replaces":                       {"", web9, []int{80}},
		"it is another":                     {"", strings.ReplaceAll(web9, "web-9", "web-10"), []int{80, 8080}},
		"the filter selects it":             {`"v1" in Service.Tags`, web9, []int{80}},
		"the filter does not":               {`"v2" in Service.Tags`, web9, []int{}},
		"it is critical":                    {"", strings.ReplaceAll(web9, "passing", "critical"), []int{}},
		"it is critical, and that is asked": {`Checks.Status != "passing"`, strings.ReplaceAll(web9, "passing", "critical"), []int{80}},
		"of another service":                {"", strings.ReplaceAll(web9, `"web"`, `"api"`), []int{}},
	} {
		s, err := NewSupposition(WhatIf{With: []json.RawMessage{json.RawMessage(c.entry)}})
		if err != nil {
			t.Fatal(err)
		}
		s.Home = "dc1"
		ports := []int{}
		for _, i := range (instancesView{name: "web", filter: c.filter}).Suppose(s, was).(instances) {
			ports = append(ports, i.Service.Port)
		}
		if slices.Sort(ports); !slices.Equal(ports, c.ports) || s.Err() != nil {
			t.Errorf("%s: ports %v, want %v; %v", name, ports, c.ports, s.Err())
		}
	}
}

func TestWhatIf_ErrorsNameTheElementAndTheKey(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                          "nothing is supposed",
		`{"without": [{}]}`:           "without: element 1 says nothing: it has one or more of node, service, instance, datacenter and peer",
		`{"without": [{"nod": "n"}]}`: `unknown field "nod"`,
		`{"with": [` + web9 + `, {"Service": {"Service": "web"}}]}`:                        "with: element 2: Node.Node is missing",
		`{"with": [{"Node": {"Node": "n"}, "Service": {"Service": "web"}}]}`:               "with: element 1: Service.Address, or Node.Address, is missing",
		`{"with": [{"Node": {"Node": "n"}, "Service": {"Service": "web", "Port": "80"}}]}`: "with: element 1: Service.Port must be a whole number, and is string",
		`{"with": [{"Key": "a", "Value": "no base64!"}]}`:                                  "Value is encoded in base64",
		`{"with": [{"ServiceName": "web", "Node": "n"}]}`:                                  "this is the format of /v1/catalog/service",
		`{"with": [{"Servce": {}}]}`:                                                       "with: element 1: it is no instance as /v1/health/service shows it",
		`{"with": [3]}`:                                                                    "with: element 1: it is no object",
	} {
		if _, err := ParseWhatIf([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestParseGone_ReadsTheValueOfAFlag(t *testing.T) {
	for text, want := range map[string]Gone{"node=n7": {Node: "n7"}, "service=web,datacenter=dc2": {Service: "web", Datacenter: "dc2"}, "instance=web-3,node=n1": {Instance: "web-3", Node: "n1"}} {
		if got, err := ParseGone(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"n7": `"n7" is none of node, service, instance, datacenter and peer`, "node=": "node has no value", "node=a,node=b": "node is there twice"} {
		if _, err := ParseGone(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
