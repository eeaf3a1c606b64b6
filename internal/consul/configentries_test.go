package consul

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// texts are what a module gets of a condition.
func texts(t testing.TB, c *Client, spec condition.Spec) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, _ := snapshot(t, c, task(spec)).Blocks[0].Entries.(condition.Pairs)
	for _, p := range entries {
		all[p.Key] = p.Value
	}
	return all
}

func TestConfigEntries_ModuleGetsWhatPeopleWrote(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	putEntry(t, s, intentions("web", "api", "db"))
	putEntry(t, s, intentions("api", "web"))
	putEntry(t, s, &api.MeshConfigEntry{TransparentProxy: api.TransparentProxyMeshConfig{MeshDestinationsOnly: true}})
	putEntry(t, s, &api.ProxyConfigEntry{Kind: api.ProxyDefaults, Name: api.ProxyConfigGlobal, Config: map[string]any{"protocol": "http", "limit": 65536}})
	putEntry(t, s, &api.IngressGatewayConfigEntry{Kind: api.IngressGateway, Name: "edge",
		Listeners: []api.IngressListener{{Port: 8080, Protocol: "http", Services: []api.IngressService{{Name: "web", Hosts: []string{"a<b>.example"}}}}}})
	const web = `{"Kind":"service-intentions","Name":"web","Sources":[` +
		`{"Action":"allow","Name":"api","Precedence":9,"Type":"consul"},{"Action":"allow","Name":"db","Precedence":9,"Type":"consul"}]}`
	const global = `{"AccessLogs":{},"Config":{"limit":65536,"protocol":"http"},"Expose":{},"Kind":"proxy-defaults","MeshGateway":{},"Name":"global","TransparentProxy":{}}`
	for _, test := range []struct {
		spec condition.ConfigEntries
		want map[string]string
	}{
		{condition.ConfigEntries{Of: "service-intentions", Name: "web"}, map[string]string{"web": web}},
		{condition.ConfigEntries{Of: "service-intentions", Regexp: "^w"}, map[string]string{"web": web}},
		{condition.ConfigEntries{Of: "service-intentions", Name: "none"}, map[string]string{}},
		{condition.ConfigEntries{Of: "mesh"}, map[string]string{"mesh": `{"Kind":"mesh","TransparentProxy":{"MeshDestinationsOnly":true}}`}},
		{condition.ConfigEntries{Of: "proxy-defaults", Name: "global"}, map[string]string{"global": global}},
		{condition.ConfigEntries{Of: "ingress-gateway"}, map[string]string{"edge": `{"Kind":"ingress-gateway","Listeners":[` +
			`{"Port":8080,"Protocol":"http","Services":[{"Hosts":["a<b>.example"],"Name":"web"}]}],"Name":"edge","TLS":{"Enabled":false}}`}},
	} {
		if diff := cmp.Diff(test.want, texts(t, c, test.spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.spec, diff)
		}
	}
	if all := texts(t, c, condition.ConfigEntries{Of: "service-intentions"}); len(all) != 2 {
		t.Errorf("all intentions are %v", all)
	}
}

func TestSnapshot_DocumentsThatOnlyTrigger(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	putEntry(t, s, intentions("web", "api"))
	putResource(t, s, "demo/v2/artist/korn", `{"name": "Korn"}`)
	for _, spec := range []condition.Spec{condition.ConfigEntries{Of: "service-intentions"}, artists} {
		only := task(spec)
		only.Condition.UseAsModuleInput = false
		snap := snapshot(t, c, only)
		for _, b := range snap.Blocks {
			if b.Entries != nil {
				t.Errorf("%s: the module gets %s", spec, b.Variable)
			}
		}
		if len(snap.Condition.Elements) != 1 || len(snap.Inputs) != 1 {
			t.Errorf("%s: the condition shows %v", spec, snap.Condition.Elements)
		}
	}
}

func TestConfigEntries_OnlyContentCounts(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	putEntry(t, s, intentions("web", "api"))
	for _, spec := range []condition.ConfigEntries{{Of: "service-intentions"}, {Of: "service-intentions", Name: "web"}} {
		q := query(t, spec)
		before := observe(t, c, q)
		putEntry(t, s, intentions("web", "db"))
		changed := observe(t, c, q)
		if changed.Digest == before.Digest {
			t.Errorf("%s: another source of an intention is not seen", spec)
		}
		d := Diff("config entries", before.Elements, before.Details, changed)
		if got := d.Entries(); len(got) != 1 || got[0].Group != "service-intentions" || got[0].Name != "web" || !slices.Equal(got[0].Attributes, []string{"Sources"}) {
			t.Errorf("%s: the change is %+v", spec, got)
		}
		putEntry(t, s, intentions("web", "api")) // with other indexes
		if after := observe(t, c, q); after.Digest != before.Digest {
			t.Errorf("%s: the same content has another digest", spec)
		}
	}
}

func TestConfigEntries_StatusOfARouteDoesNotCount(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	for _, entry := range []string{
		`{"Kind": "proxy-defaults", "Name": "global", "Config": {"protocol": "http"}}`,
		`{"Kind": "api-gateway", "Name": "edge", "Listeners": [{"Name": "l", "Port": 8080, "Protocol": "http"}]}`,
		`{"Kind": "http-route", "Name": "r", "Parents": [{"Kind": "api-gateway", "Name": "edge"}], "Rules": [{"Services": [{"Name": "web"}]}]}`,
	} {
		send(t, s, http.MethodPut, "/v1/config", entry)
	}
	bound := func(status string) {
		t.Helper()
		eventually(t, "the route is bound: "+status, func() bool {
			route, _, err := s.Client().ConfigEntries().Get(api.HTTPRoute, "r", nil)
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(route.(*api.HTTPRouteConfigEntry).Status.Conditions, func(c api.Condition) bool {
				return c.Type == "Bound" && string(c.Status) == status
			})
		})
	}
	bound("True")
	q := query(t, condition.ConfigEntries{Of: "http-route"})
	before := observe(t, c, q)
	deleteEntry(t, s, api.APIGateway, "edge")
	bound("False")
	if after := observe(t, c, q); after.Digest != before.Digest {
		t.Error("Consul wrote a status, and the digest is another one")
	}
}

func TestConfigEntries_UnknownKindIsAnErrorOfThePerson(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	for _, name := range []string{"", "web"} {
		a := c.Observe(t.Context(), []Query{query(t, condition.ConfigEntries{Of: "no-such-kind", Name: name})})[0]
		if !isBadQuery(a.Err) || !strings.Contains(a.Err.Error(), "no config entries of this kind") {
			t.Errorf("name %q: %v", name, a.Err)
		}
	}
}

func TestConfigEntries_TokenThatMayReadAPart(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs())
	admin := clientOf(t, config.Consul{Address: s.Addr(), Token: consultest.ManagementToken})
	putEntry(t, s, intentions("web", "api"))
	putEntry(t, s, intentions("api", "web"))
	all, one := condition.ConfigEntries{Of: "service-intentions"}, condition.ConfigEntries{Of: "service-intentions", Name: "api"}
	before := sources(t, admin, all)
	c, rights := reader(t, s, "web", `service "web" { policy = "read" }`)
	if err := confirm(t, c, all, nil); err != nil {
		t.Errorf("nothing is known to be missing: %v", err)
	}
	if hidden := c.Observe(t.Context(), []Query{query(t, all)})[0].Visibility.Hidden(); !strings.Contains(hidden, "intentions:read on all services") {
		t.Errorf("Hidden = %q", hidden)
	}
	if err := confirm(t, c, all, before); !IsForbidden(err) || !strings.Contains(err.Error(), `service-intentions "api", which was applied`) ||
		!strings.Contains(err.Error(), `intentions:read on "api"`) {
		t.Errorf("an entry that may not be read: %v", err)
	}
	if err := confirm(t, c, one, nil); !IsForbidden(err) {
		t.Errorf("the one entry may not be read: %v", err)
	}
	grant(t, s, rights, `service_prefix "" { policy = "read" }`)
	deleteEntry(t, s, "service-intentions", "api")
	for _, spec := range []condition.Spec{all, one} {
		if err := confirm(t, c, spec, before); err != nil {
			t.Errorf("%s: an entry that may be read is gone: %v", spec, err)
		}
	}
}

func TestConfigEntries_OneRequestPollsAll(t *testing.T) {
	s := consultest.Start(t)
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	var queries []Query
	for range 10 { // tasks
		for _, kind := range []string{"service-intentions", "service-defaults", "exported-services"} {
			queries = append(queries, query(t, condition.ConfigEntries{Of: kind}), query(t, condition.ConfigEntries{Of: kind, Regexp: "^web"}))
		}
	}
	for _, of := range [][]Query{queries, queries[:1]} {
		proxy.Reset()
		if _, err := c.Poll(t.Context(), PollGates(of)); err != nil {
			t.Fatal(err)
		}
		// One entry has the index of all: a poll reads no others.
		if got := proxy.Requests(); len(got) != 1 || got["/v1/config/proxy-defaults/global"] != 1 {
			t.Errorf("a poll for %d tasks takes %v", len(of), got)
		}
	}
	proxy.Reset()
	c.Observe(t.Context(), queries)
	if got := proxy.Total(); got != 3 {
		t.Errorf("all tasks read with %d requests: %v", got, proxy.Requests())
	}
	if gates := BlockGates(queries); gates.Len() != 3 {
		t.Errorf("%d gates are held open: %v", gates.Len(), gates.Keys())
	}
}
