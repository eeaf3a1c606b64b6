package consul

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// readings are one condition of each kind that lists something.
var readings = map[string]condition.Spec{
	"services by name":   services("web", "api"),
	"services by regexp": matching("^(web|api)$"),
	"names of services":  condition.CatalogServices{Regexp: "^(web|api)$"},
	"nodes":              condition.Nodes{},
	"some nodes":         condition.Nodes{Filter: `Node matches "^n"`},
	"keys with a prefix": condition.ConsulKV{Path: "app/", Recurse: true},
	"all keys":           condition.ConsulKV{Recurse: true},
	"intentions":         condition.ConfigEntries{Of: "service-intentions"},
	"some intentions":    condition.ConfigEntries{Of: "service-intentions", Regexp: "^web$"},
	"exported services":  condition.ConfigEntries{Of: "exported-services"},
	"artists":            artists,
	"artists by prefix":  condition.Resources{Group: "demo", Version: "v2", Of: "artist", NamePrefix: "k"},
	"exports by name":    exports,
	"exports of all":     condition.Resources{Group: "multicluster", Version: "v2", Of: "namespaceexportedservices"},
}

// fill registers what the readings read.
func fill(t *testing.T, s *consultest.Server) {
	t.Helper()
	for _, node := range []string{"n1", "n2"} {
		put(t, s, &api.CatalogRegistration{Node: node, Address: "10.0.0.1", Service: &api.AgentService{ID: "web-" + node, Service: "web"}})
	}
	put(t, s, &api.CatalogRegistration{Node: "n1", Address: "10.0.0.1", Service: &api.AgentService{Service: "api"}})
	putKey(t, s, "app/a", "1")
	putKey(t, s, "app//b", "1")
	putEntry(t, s, intentions("web", "api"))
	putEntry(t, s, intentions("api", "web"))
	putEntry(t, s, &api.ExportedServicesConfigEntry{Name: "default", Services: []api.ExportedService{{Name: "web", Consumers: []api.ServiceConsumer{{Peer: "p"}}}}})
	putResource(t, s, "demo/v2/artist/korn", `{"name": "Korn"}`)
	putResource(t, s, "demo/v2/artist/kiss", `{"name": "Kiss"}`)
	putResource(t, s, "multicluster/v2/exportedservices/some", `{"services": ["web", "api"], "consumers": [{"peer": "p"}]}`)
	putResource(t, s, "multicluster/v2/namespaceexportedservices/all", `{"consumers": [{"peer": "p"}]}`)
}

// sources are what the reader sees.
func sources(t *testing.T, c *Client, spec condition.Spec) []string {
	t.Helper()
	a := c.Observe(t.Context(), []Query{query(t, spec)})[0]
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if len(a.Visibility.Sources()) == 0 {
		t.Fatalf("%+v shows nothing", spec)
	}
	return a.Visibility.Sources()
}

// confirm reads the spec, once for a tick and once for a run, and returns
// why what is missing does not count as gone.
func confirm(t *testing.T, c *Client, spec condition.Spec, before []string) error {
	t.Helper()
	a := c.Observe(t.Context(), []Query{query(t, spec)})[0]
	err := a.Err
	if err == nil {
		err = a.Visibility.Confirm(t.Context(), before)
	}
	snap, other := c.Snapshot(t.Context(), task(spec))
	if other == nil {
		other = snap.Visibility.Confirm(t.Context(), before)
	}
	if (err == nil) != (other == nil) {
		t.Errorf("%+v: Observe says %v, Snapshot %v", spec, err, other)
	}
	return err
}

// policy makes a policy with these rules.
func policy(t *testing.T, s *consultest.Server, name, rules string) *api.ACLPolicy {
	t.Helper()
	p, _, err := s.Client().ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// reader is a client with a token that may do what the rules say. It returns
// the policy, too, which can be changed.
func reader(t *testing.T, s *consultest.Server, name, rules string) (*Client, *api.ACLPolicy) {
	t.Helper()
	p := policy(t, s, name, rules)
	token, _, err := s.Client().ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: p.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return clientOf(t, config.Consul{Address: s.Addr(), Token: token.SecretID}), p
}

// grant changes what a policy allows.
func grant(t *testing.T, s *consultest.Server, p *api.ACLPolicy, rules string) {
	t.Helper()
	p.Rules = rules
	if _, _, err := s.Client().ACL().PolicyUpdate(p, nil); err != nil {
		t.Fatal(err)
	}
}

const everything = `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" } key_prefix "" { policy = "list" } mesh = "read"`

func TestVisibility_ReaderWithoutRightsProvesNothing(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs())
	fill(t, s)
	admin := clientOf(t, config.Consul{Address: s.Addr(), Token: consultest.ManagementToken})
	anonymous, named := client(t, s.Addr()), clientOf(t, config.Consul{Address: s.Addr(), Token: "anonymous"})
	token, rights := reader(t, s, "token", everything)
	before := map[string][]string{}
	for name, spec := range readings {
		before[name] = sources(t, admin, spec)
		if err := confirm(t, token, spec, before[name]); err != nil {
			t.Errorf("a token with every right, %s: %v", name, err)
		}
	}
	grant(t, s, rights, "")
	for name, spec := range readings {
		for who, c := range map[string]*Client{"no token": anonymous, "the anonymous token": named, "a token that lost its rights": token} {
			for _, known := range [][]string{before[name], nil} {
				err := confirm(t, c, spec, known)
				if !IsForbidden(err) {
					t.Errorf("%s, %s, %d sources before: %v", who, name, len(known), err)
				} else if c == anonymous && !strings.Contains(err.Error(), "there is no token") {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}

	// The anonymous token may have rights of its own.
	open := policy(t, s, "open", everything)
	link := &api.ACLToken{AccessorID: "00000000-0000-0000-0000-000000000002", Policies: []*api.ACLLink{{ID: open.ID}}}
	if _, _, err := s.Client().ACL().TokenUpdate(link, nil); err != nil {
		t.Fatal(err)
	}
	grant(t, s, rights, everything)
	check := func(when string) {
		t.Helper()
		for name, spec := range readings {
			for who, c := range map[string]*Client{"no token": anonymous, "a token": token} {
				if err := confirm(t, c, spec, before[name]); err != nil {
					t.Errorf("%s, %s, %s: %v", when, who, name, err)
				}
			}
		}
	}
	check("with the rights again")
	for _, node := range []string{"n1", "n2"} {
		if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: node}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Client().KV().DeleteTree("app/", nil); err != nil {
		t.Fatal(err)
	}
	deleteEntry(t, s, "service-intentions", "web")
	deleteEntry(t, s, "service-intentions", "api")
	deleteEntry(t, s, "exported-services", "default")
	for _, name := range []string{"demo/v2/artist/korn", "demo/v2/artist/kiss", "multicluster/v2/exportedservices/some", "multicluster/v2/namespaceexportedservices/all"} {
		send(t, s, http.MethodDelete, "/api/"+name, "")
	}
	check("when everything is gone")
	grant(t, s, open, `service_prefix "" { policy = "read" }`)
	if err := confirm(t, anonymous, services("web"), nil); !IsForbidden(err) || !strings.Contains(err.Error(), "node:read") {
		t.Errorf("without the right to read nodes: %v", err)
	}
}

// Between a read and its proof, somebody gives the right: the proof alone says that
// nothing is there.
func TestVisibility_RightThatIsGivenAfterTheRead(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs())
	fill(t, s)
	admin := clientOf(t, config.Consul{Address: s.Addr(), Token: consultest.ManagementToken})
	token, rights := reader(t, s, "token", everything)
	open := policy(t, s, "open", "")
	link := &api.ACLToken{AccessorID: "00000000-0000-0000-0000-000000000002", Policies: []*api.ACLLink{{ID: open.ID}}}
	if _, _, err := s.Client().ACL().TokenUpdate(link, nil); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for name, spec := range readings {
		for who, c := range map[string]*Client{"no token": client(t, s.Addr()), "a token": token} {
			for _, before := range [][]string{sources(t, admin, spec), nil} {
				grant(t, s, rights, "")
				grant(t, s, open, "")
				snap, err := c.Snapshot(t.Context(), task(spec))
				if err != nil {
					continue // Consul says that it hides something
				}
				tried++
				grant(t, s, rights, everything)
				grant(t, s, open, everything)
				if err := snap.Visibility.Confirm(t.Context(), before); !fault.IsTransient(err) || !strings.Contains(err.Error(), "is there now") {
					t.Errorf("%s, %s, %d sources before: %v", who, name, len(before), err)
				}
			}
		}
	}
	if tried < 10 {
		t.Errorf("%d reads have shown nothing", tried)
	}
}

func TestVisibility_TokenThatSeesAPart(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs(), consultest.WithHCL("disable_coordinates = true"))
	fill(t, s)
	admin := clientOf(t, config.Consul{Address: s.Addr(), Token: consultest.ManagementToken})

	// A part of the instances: those on one node.
	before := sources(t, admin, services("web"))
	c, _ := reader(t, s, "one-node", `service "web" { policy = "read" } node "n1" { policy = "read" }`)
	if err := confirm(t, c, services("web"), before); !IsForbidden(err) || !strings.Contains(err.Error(), `node "n2"`) {
		t.Errorf("an instance on a node that may not be read: %v", err)
	}
	if err := confirm(t, c, services("web"), nil); err != nil {
		t.Errorf("nothing is known to be missing: %v", err)
	}
	hidden := c.Observe(t.Context(), []Query{query(t, services("web"))})[0].Visibility.Hidden()
	if !strings.Contains(hidden, `read service "web"`) || !strings.Contains(hidden, "node:read") {
		t.Errorf("Hidden = %q", hidden)
	}

	// A part of the services, of which one goes: it may be read, so it is gone.
	c, rights := reader(t, s, "prefix", `service_prefix "web" { policy = "read" } node_prefix "" { policy = "read" }`)
	put(t, s, &api.CatalogRegistration{Node: "n3", Address: "10.0.0.3", Service: &api.AgentService{Service: "web-late"}})
	conditions := []condition.Spec{matching("^web"), condition.CatalogServices{Regexp: "^web"}}
	var known [2][]string
	for i, spec := range conditions {
		known[i] = sources(t, c, spec)
	}
	if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: "n3"}, nil); err != nil {
		t.Fatal(err)
	}
	for i, spec := range conditions {
		if err := confirm(t, c, spec, known[i]); err != nil {
			t.Errorf("%+v: a service that may be read has gone: %v", spec, err)
		}
	}
	grant(t, s, rights, `service "web" { policy = "read" } node_prefix "" { policy = "read" }`)
	for i, spec := range conditions {
		if err := confirm(t, c, spec, known[i]); !IsForbidden(err) {
			t.Errorf("%+v: the right to a service is lost: %v", spec, err)
		}
		if hidden := c.Observe(t.Context(), []Query{query(t, spec)})[0].Visibility.Hidden(); hidden == "" {
			t.Errorf("%+v: nothing is said to be hidden", spec)
		}
	}
	// What the task no longer selects is not missed.
	if err := confirm(t, c, services("web"), before); err != nil {
		t.Error(err)
	}
}

func TestVisibility_WithoutAccessControl(t *testing.T) {
	for _, hcl := range []string{"", "disable_coordinates = true"} {
		s := consultest.Start(t, consultest.WithHCL(hcl))
		fill(t, s)
		c := client(t, s.Addr())
		for name, spec := range readings {
			before := sources(t, c, spec)
			if err := confirm(t, c, spec, before); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		before := sources(t, c, services("web", "api"))
		for _, node := range []string{"n1", "n2"} {
			if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: node}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := confirm(t, c, services("web", "api"), before); err != nil {
			t.Errorf("%s: when all has gone: %v", hcl, err)
		}
		if err := confirm(t, c, matching("^nothing$"), nil); err != nil {
			t.Errorf("%s: where there was nothing: %v", hcl, err)
		}
	}
}

func TestVisibility_TasksShareWhatIsConfirmed(t *testing.T) {
	s := consultest.Start(t)
	fill(t, s)
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	before := sources(t, c, services("web", "api"))
	for _, node := range []string{"n1", "n2"} {
		if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: node}, nil); err != nil {
			t.Fatal(err)
		}
	}
	queries := make([]Query, 10)
	for i := range queries {
		queries[i] = query(t, services("web", "api"))
	}
	answers := c.Observe(t.Context(), queries)
	proxy.Reset()
	for _, a := range answers {
		if err := a.Visibility.Confirm(t.Context(), before); err != nil {
			t.Fatal(err)
		}
	}
	if got := proxy.Total(); got != 4 { // two services and two nodes
		t.Errorf("%d requests for what %d tasks miss: %v", got, len(queries), proxy.Requests())
	}
}
