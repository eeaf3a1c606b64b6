package consul

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// client returns a client of a Consul at this address.
func client(t testing.TB, address string) *Client {
	t.Helper()
	return clientOf(t, config.Consul{Address: address})
}

func clientOf(t testing.TB, cfg config.Consul) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.resolved.HttpClient.CloseIdleConnections)
	return c
}

// task returns a task with this condition, which is rendered.
func task(spec condition.Spec) *config.Task {
	return &config.Task{Name: "t", Condition: config.Condition{Spec: spec, UseAsModuleInput: true}}
}

func services(names ...string) condition.Services { return condition.Services{{Names: names}} }

func matching(expression string) condition.Services { return condition.Services{{Regexp: &expression}} }

func query(t testing.TB, spec condition.Spec) Query {
	t.Helper()
	q, ok := ConditionQuery(task(spec))
	if !ok {
		t.Fatalf("%v is no condition", spec)
	}
	return q
}

// nodesOf has the gate of the nodes alone, for services in a namespace.
func nodesOf(t testing.TB, namespace string) GateSet {
	t.Helper()
	all := PollGates([]Query{query(t, condition.Services{{Names: []string{"a", "b"}, Namespace: namespace}})})
	return GateSet{gates: all.gates[:1]}
}

func observe(t testing.TB, c *Client, q Query) Observation {
	t.Helper()
	a := c.Observe(t.Context(), []Query{q})[0]
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return a.Observation
}

func snapshot(t testing.TB, c *Client, task *config.Task) *Snapshot {
	t.Helper()
	s, err := c.Snapshot(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// register puts an instance on a node into the catalog, with a passing check.
func register(t testing.TB, s *consultest.Server, node string, service api.AgentService, checks ...*api.HealthCheck) {
	t.Helper()
	r := &api.CatalogRegistration{Node: node, Address: "10.0.0.1", SkipNodeUpdate: false}
	if service.Service != "" {
		if service.ID == "" {
			service.ID = service.Service
		}
		r.Service = &service
	}
	for _, c := range checks {
		c.Node = node
		r.Checks = append(r.Checks, c)
	}
	put(t, s, r)
}

func put(t testing.TB, s *consultest.Server, r *api.CatalogRegistration) {
	t.Helper()
	if _, err := s.Client().Catalog().Register(r, nil); err != nil {
		t.Fatal(err)
	}
}

func checkOf(service, status string) *api.HealthCheck {
	return &api.HealthCheck{CheckID: "check-" + service, Name: "check", ServiceID: service, Status: status}
}

func putKey(t testing.TB, s *consultest.Server, key, value string) {
	t.Helper()
	if _, err := s.Client().KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
		t.Fatal(err)
	}
}

func putEntry(t testing.TB, s *consultest.Server, e api.ConfigEntry) {
	t.Helper()
	if _, _, err := s.Client().ConfigEntries().Set(e, nil); err != nil {
		t.Fatal(err)
	}
}

// send sends a request as people do with curl.
func send(t testing.TB, s *consultest.Server, method, path, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+path, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Consul-Token", consultest.ManagementToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s", method, path, resp.Status, body)
	}
}

// putResource writes the data of a resource.
func putResource(t testing.TB, s *consultest.Server, name, data string) {
	t.Helper()
	send(t, s, http.MethodPut, "/api/"+name, `{"data": `+data+`}`)
}

func deleteEntry(t testing.TB, s *consultest.Server, kind, name string) {
	t.Helper()
	if _, err := s.Client().ConfigEntries().Delete(kind, name, nil); err != nil {
		t.Fatal(err)
	}
}

// intentions let sources reach a service.
func intentions(service string, sources ...string) *api.ServiceIntentionsConfigEntry {
	e := &api.ServiceIntentionsConfigEntry{Kind: api.ServiceIntentions, Name: service}
	for _, name := range sources {
		e.Sources = append(e.Sources, &api.SourceIntention{Name: name, Action: api.IntentionActionAllow})
	}
	return e
}

func isBadQuery(err error) bool { return errors.Is(err, badQuery) }

// eventually waits until what is asked for is so.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
