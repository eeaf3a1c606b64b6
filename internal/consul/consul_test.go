package consul

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
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
	return GateSet{all.gates[:1]}
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
