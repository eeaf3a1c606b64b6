package consul

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// grow has the catalog's index grow.
func grow(t *testing.T, s *consultest.Server, nodes int) {
	t.Helper()
	for i := range nodes {
		put(t, s, &api.CatalogRegistration{Node: "n" + string(rune('a'+i)), Address: "10.0.0.1", Service: &api.AgentService{Service: "web"}})
	}
}

func identity(t *testing.T, c *Client) state.Identity {
	t.Helper()
	id, err := c.Identify(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestIdentify_EmptyConsulAtTheSameAddressIsAnother(t *testing.T) {
	for _, options := range [][]consultest.Option{nil, {consultest.WithHCL("connect { enabled = false }")}} {
		s := consultest.Start(t, options...)
		grow(t, s, 25)
		c := client(t, s.Addr())
		before := identity(t, c)
		if connect := len(options) == 0; connect != (before.Cluster != "") {
			t.Errorf("with Connect %v: %+v", connect, before)
		}
		s.Restart()
		if now := identity(t, c); before.Replaced(now) == "" {
			t.Errorf("%+v, and after it was started empty %+v", before, now)
		}
	}
}

func TestIdentify_SameConsulStaysTheSame(t *testing.T) {
	s := consultest.Start(t, consultest.WithData(), consultest.WithACLs())
	admin, c := s.Client(), client(t, s.Addr()) // without rights
	snapshot := func() []byte {
		r, _, err := admin.Snapshot().Save(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		all, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := identity(t, c)
	old := snapshot()
	grow(t, s, 5)
	check := func(what string) {
		t.Helper()
		now := identity(t, c)
		if why := before.Replaced(now); why != "" || now.Cluster == "" {
			t.Errorf("%s: %+v, before %+v", what, now, before)
		}
		before = now
	}
	check("services were registered")
	s.Restart()
	check("it was restarted with its data")
	if _, err := admin.Connect().CASetConfig(&api.CAConfig{Provider: "consul", Config: map[string]any{"LeafCertTTL": "36h", "PrivateKeyType": "rsa", "PrivateKeyBits": 2048}}, nil); err != nil {
		t.Fatal(err)
	}
	check("Connect has a new certificate")
	if err := admin.Snapshot().Restore(nil, bytes.NewReader(old)); err != nil {
		t.Fatal(err)
	}
	if now := identity(t, c); now.Cluster != before.Cluster {
		t.Errorf("an older snapshot has cluster %s, want %s", now.Cluster, before.Cluster)
	}
}
