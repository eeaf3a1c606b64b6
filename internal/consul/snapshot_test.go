package consul

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestSnapshot_HasEveryFieldThatModulesSee(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	put(t, s, &api.CatalogRegistration{
		ID: "39e5a7f5-2834-e16d-6925-78167c9f50d8", Node: "worker-01", Address: "10.0.0.1",
		TaggedAddresses: map[string]string{"lan": "10.0.0.1"}, NodeMeta: map[string]string{"rack": "7"},
		Service: &api.AgentService{ID: "api-1", Service: "api", Address: "1.2.3.4", Port: 8080, Kind: api.ServiceKindConnectProxy,
			Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "x"},
			Tags:  []string{"z", "a\nb", "${x}"}, Meta: map[string]string{"k": "%{v}"}},
		Checks: api.HealthChecks{{Node: "worker-01", CheckID: "c", Status: "warning", ServiceID: "api-1"}},
	})
	put(t, s, &api.CatalogRegistration{Node: "worker-00", Address: "10.0.0.2", Service: &api.AgentService{Service: "api"}})

	selection := services("api")
	selection[0].Filter = "\nChecks.Status != nothing\n"
	selection[0].CTSUserDefinedMeta = map[string]string{"mine": "1"}
	blocks := snapshot(t, c, task(selection)).Blocks
	got := blocks[0].Entries.(condition.Instances)
	empty := map[string]string{}
	want := condition.Instances{
		{ID: "api", Name: "api", Address: "10.0.0.2", Meta: empty, Tags: []string{}, Status: "passing",
			Node: "worker-00", NodeAddress: "10.0.0.2", NodeDatacenter: "dc1", NodeTaggedAddresses: empty, NodeMeta: empty,
			CTSUserDefinedMeta: selection[0].CTSUserDefinedMeta},
		{ID: "api-1", Name: "api", Kind: "connect-proxy", Address: "1.2.3.4", Port: 8080, Meta: map[string]string{"k": "%{v}"},
			Tags: []string{"${x}", "a\nb", "z"}, Status: "warning", Node: "worker-01",
			NodeID: "39e5a7f5-2834-e16d-6925-78167c9f50d8", NodeAddress: "10.0.0.1", NodeDatacenter: "dc1",
			NodeTaggedAddresses: map[string]string{"lan": "10.0.0.1"}, NodeMeta: map[string]string{"rack": "7"},
			CTSUserDefinedMeta: selection[0].CTSUserDefinedMeta},
	}
	// An instance without checks has no status to filter by.
	want = want[len(want)-len(got):]
	if diff := cmp.Diff(want, got); diff != "" || len(blocks) != 1 || blocks[0].Variable != "services" {
		t.Errorf("%d blocks: %s", len(blocks), diff)
	}
	if len(got) == 0 || got[len(got)-1].Key() != "api-1.worker-01.dc1" {
		t.Errorf("services = %+v", got)
	}
	selection[0].Filter = ""
	if got := snapshot(t, c, task(selection)).Blocks[0].Entries.(condition.Instances); len(got) != 1 || got[0].ID != "api" {
		t.Errorf("without a filter on checks, only passing instances are rendered: %+v", got)
	}
}

func TestSnapshot_OrderOfBlocks(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	register(t, s, "b", api.AgentService{Service: "web"})
	register(t, s, "a", api.AgentService{Service: "web"})
	register(t, s, "c", api.AgentService{Service: "api"})
	putKey(t, s, "cfg/a", "1")
	putKey(t, s, "cfg/b/", "")
	putKey(t, s, "cfg2", "2")

	servicesInput := services("web", "api")
	kvInput := condition.ConsulKV{Path: "cfg", Recurse: true}
	with := func(t *config.Task, inputs ...condition.Spec) *config.Task {
		t.ModuleInputs = inputs
		return t
	}
	hidden := func(t *config.Task) *config.Task {
		t.Condition.UseAsModuleInput = false
		return t
	}
	deprecated := with(task(condition.ConsulKV{Path: "cfg/a"}), servicesInput)
	deprecated.DeprecatedServices = []string{"web", "api"}
	list := task(services("web"))
	list.Condition.Spec = condition.Services{{Names: []string{"web"}}, {Names: []string{"api"}}}

	for _, test := range []struct {
		name string
		task *config.Task
		want string
	}{
		{"services, then keys", with(task(services("web", "api")), kvInput), "services[api.c.dc1 web.a.dc1 web.b.dc1] consul_kv[cfg/a cfg/b/ cfg2]"},
		{"by regexp, sorted by node", task(matching("web|api")), "services[web.a.dc1 web.b.dc1 api.c.dc1]"},
		{"keys, then services", with(task(condition.ConsulKV{Path: "cfg/a"}), servicesInput), "consul_kv[cfg/a] services[api.c.dc1 web.a.dc1 web.b.dc1]"},
		{"the deprecated list first", deprecated, "services[api.c.dc1 web.a.dc1 web.b.dc1] consul_kv[cfg/a]"},
		{"a list of services is one block", list, "services[api.c.dc1 web.a.dc1 web.b.dc1]"},
		{"the catalog", task(condition.CatalogServices{Regexp: "^(web|consul)$"}), "catalog_services[consul web] services[]"},
		{"not rendered", hidden(task(services("web"))), "services[]"},
		{"not rendered, with keys", hidden(with(task(services("web")), kvInput)), "consul_kv[cfg/a cfg/b/ cfg2] services[]"},
		{"a missing key", task(condition.ConsulKV{Path: "none"}), "consul_kv[] services[]"},
		{"a missing service", task(services("none")), "services[]"},
		{"no condition", with(&config.Task{}, kvInput), "consul_kv[cfg/a cfg/b/ cfg2] services[]"},
		{"a schedule", with(task(condition.Schedule{}), servicesInput), "services[api.c.dc1 web.a.dc1 web.b.dc1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := snapshot(t, c, test.task)
			var blocks []string
			for _, b := range snapshot.Blocks {
				var names []string
				switch entries := b.Entries.(type) {
				case condition.Instances:
					for _, s := range entries {
						names = append(names, s.Key())
					}
				case condition.CatalogEntries:
					for _, s := range entries {
						names = append(names, s.Name)
					}
				case condition.Pairs:
					for _, p := range entries {
						names = append(names, p.Key)
					}
				}
				blocks = append(blocks, fmt.Sprintf("%s%s", b.Variable, names))
			}
			if got := strings.Join(blocks, " "); got != test.want {
				t.Errorf("blocks = %s\nwant %s", got, test.want)
			}
			if q, ok := ConditionQuery(test.task); ok && observe(t, c, q).Digest != snapshot.Condition.Digest {
				t.Error("the snapshot does not hold the condition's digest")
			}
		})
	}
}

func TestSnapshot_RendersOrNamesEveryKVValue(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	text := "\"quotes\"\nlines\\ ${x} %{y} \t ü" + strings.Repeat("x", 400<<10)
	putKey(t, s, "text", text)
	if got := snapshot(t, c, task(condition.ConsulKV{Path: "text"})).Blocks[0].Entries.(condition.Pairs)[0].Value; got != text {
		t.Errorf("%d bytes arrived of %d", len(got), len(text))
	}
	putKey(t, s, "binary/a", "fine")
	for name, value := range map[string]string{"bytes": string(bytes.Repeat([]byte{0xff, 0xfe}, 256<<10)), "nul": "a\x00b"} {
		key := "binary/" + name
		putKey(t, s, key, value)
		binary := task(condition.ConsulKV{Path: "binary/", Recurse: true})
		_, err := c.Snapshot(t.Context(), binary)
		if err == nil || !strings.Contains(err.Error(), key) || fault.IsTransient(err) || len(err.Error()) > 300 {
			t.Errorf("error = %.300v", err)
		}
		if o := observe(t, c, query(t, condition.ConsulKV{Path: key})); o.Digest == "" {
			t.Error("no digest")
		}
		binary.Condition.UseAsModuleInput = false
		if _, err := c.Snapshot(t.Context(), binary); err != nil {
			t.Errorf("what is not rendered may be of any sort: %v", err)
		}
		if _, err := s.Client().KV().Delete(key, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSnapshot_ReadsServicesOfAnyName(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	names := []string{`quo"te`, "a/b", "per%20cent", "ü", "a b", "x?y=z&passing=0", "a=b", `back\slash`}
	for _, name := range names {
		register(t, s, "n", api.AgentService{Service: name})
	}
	for _, cond := range []condition.Spec{services(names...), matching(`quo"te|^a[/ =]b$|%|ü|\?|back\\slash`)} {
		if got := snapshot(t, c, task(cond)).Blocks[0].Entries.(condition.Instances); len(got) != len(names) {
			t.Errorf("%d of %d services arrived", len(got), len(names))
		}
	}
}

func TestSnapshot_ServiceWith5000Instances(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	const n = 5000
	for start := 0; start < n; start += 64 {
		var ops api.TxnOps
		for i := start; i < min(n, start+64); i++ {
			node := api.Node{Node: fmt.Sprintf("node-%d", i/100), Address: "10.0.0.1"}
			if i%100 == 0 {
				put(t, s, &api.CatalogRegistration{Node: node.Node, Address: node.Address})
			}
			ops = append(ops, &api.TxnOp{Service: &api.ServiceTxnOp{Verb: api.ServiceSet, Node: node.Node,
				Service: api.AgentService{ID: fmt.Sprintf("web-%d", i), Service: "web", Port: i}}})
		}
		if ok, response, _, err := s.Client().Txn().Txn(ops, nil); err != nil || !ok {
			t.Fatal(err, response)
		}
	}
	if got := snapshot(t, c, task(services("web"))); len(got.Blocks[0].Entries.(condition.Instances)) != n || len(got.Condition.Elements) != n {
		t.Errorf("%d services, %d elements", len(got.Blocks[0].Entries.(condition.Instances)), len(got.Condition.Elements))
	}
}

func TestSnapshot_ServiceWithSeveralPorts(t *testing.T) {
	s := consultest.Start(t)
	if !s.AtLeast("1.22") {
		t.Skip("this Consul refuses a service with several ports")
	}
	c := client(t, s.Addr())
	register(t, s, "n1", api.AgentService{ID: "web-1", Service: "web",
		Ports: api.ServicePorts{{Name: "http", Port: 8080}, {Name: "grpc", Port: 9090, Default: true}}})
	register(t, s, "n1", api.AgentService{ID: "web-2", Service: "web", Port: 80})
	q := query(t, services("web"))
	before := observe(t, c, q)
	snap := snapshot(t, c, task(services("web")))
	got := snap.Blocks[0].Entries.(condition.Instances)
	if len(got) != 2 || got[0].Port != 9090 || !maps.Equal(got[0].Ports, map[string]int{"http": 8080, "grpc": 9090}) {
		t.Errorf("the service with several ports is %+v", got)
	}
	if got[1].Port != 80 || got[1].Ports != nil || snap.Warning() != "" {
		t.Errorf("the service with one port is %+v; %s", got[1], snap.Warning())
	}
	register(t, s, "n1", api.AgentService{ID: "web-1", Service: "web",
		Ports: api.ServicePorts{{Name: "http", Port: 8081}, {Name: "grpc", Port: 9090, Default: true}}})
	if observe(t, c, q).Digest == before.Digest {
		t.Error("another port that changes is not seen")
	}
}

// The agent at consul.address and its servers may have different versions.
func TestSnapshot_SeveralPortsThroughOtherAgents(t *testing.T) {
	programs := testtools.OtherConsuls(t)
	if len(programs) == 0 {
		t.Skip("`make test-consul` installs other versions of Consul")
	}
	s := consultest.Start(t)
	if !s.AtLeast("1.22") {
		t.Skip("this Consul refuses a service with several ports")
	}
	register(t, s, "n1", api.AgentService{ID: "web-1", Service: "web",
		Ports: api.ServicePorts{{Name: "http", Port: 8080}, {Name: "grpc", Port: 9090, Default: true}}}, checkOf("web-1", "passing"))
	for _, program := range programs {
		t.Run(filepath.Base(filepath.Dir(program)), func(t *testing.T) {
			t.Parallel()
			agent := consultest.StartAgent(t, s, consultest.WithProgram(program))
			snap := snapshot(t, client(t, agent.Addr()), task(services("web")))
			got := snap.Blocks[0].Entries.(condition.Instances)[0]
			if agent.AtLeast("1.22") {
				if got.Port != 9090 || len(got.Ports) != 2 || snap.Warning() != "" {
					t.Errorf("port %d, ports %v, warning %q", got.Port, got.Ports, snap.Warning())
				}
			} else if got.Port != 0 || len(got.Ports) != 0 || !strings.HasPrefix(snap.Warning(), "port 0 is rendered") {
				t.Errorf("port %d, ports %v, warning %q", got.Port, got.Ports, snap.Warning())
			}
		})
	}
}

func TestSnapshot_ServicesOfOtherAgents(t *testing.T) {
	for answer, want := range map[string]string{
		`"Port": 0, "Ports": [{"Name": "a", "Port": 1}, {"Name": "b", "Port": 2, "Default": true}]`: "2 ",
		`"Port": 0, "Ports": [{"Name": "a", "Port": 1}, {"Name": "b", "Port": 2}]`:                  "1 ",
		`"Port": 0`:  "0 port 0 is rendered for services that have health checks: web; Consul before 1.22",
		`"Port": 80`: "80 ",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Consul-Index", "7")
			fmt.Fprintf(w, `[{"Node": {"Node": "n"}, "Service": {"ID": "web-1", "Service": "web", %s}, "Checks": [{"CheckID": "c", "Status": "passing", "ServiceID": "web-1"}]}]`, answer)
		}))
		defer server.Close()
		snap := snapshot(t, client(t, server.URL), task(services("web")))
		if got := fmt.Sprint(snap.Blocks[0].Entries.(condition.Instances)[0].Port, " ", snap.Warning()); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}
