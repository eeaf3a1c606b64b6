package runner

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestRun_TokenThatLostItsRightsAppliesNothing(t *testing.T) {
	server := consultest.Start(t, consultest.WithACLs())
	put := func(nodes ...string) {
		for _, node := range nodes {
			if _, err := server.Client().Catalog().Register(&api.CatalogRegistration{Node: node, Address: "10.0.0.1",
				Service: &api.AgentService{ID: "web-" + node, Service: "web"}}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("n1", "n2")
	applied := 0
	b := newFixture(t, func(context.Context, io.Writer) (*state.Changes, error) {
		applied++
		return &state.Changes{Change: 1}, nil
	})
	reads := func(token string) {
		client, err := consul.New(config.Consul{Address: server.Addr(), Token: token})
		if err != nil {
			t.Fatal(err)
		}
		b.Consul = client
	}
	reads(consultest.ManagementToken)
	if err := b.run(t.Context()); err != nil || applied != 1 || b.stored("r1").State != state.RunSucceeded {
		t.Fatalf("%v, %d applies: %+v", err, applied, b.stored("r1"))
	}
	// Consul answers this reader that there are no instances, and does not say that it hides them.
	reads("anonymous")
	b.intendNext("r2")
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run := b.stored("r2"); applied != 1 || run.State != state.RunFailed || !strings.Contains(run.Error, "gone and not hidden") {
		t.Errorf("%d applies; the run %s: %s", applied, run.State, run.Error)
	}
	if in, err := state.LoadInputs(t.Context(), b.store, "web"); err != nil || len(in.Elements) != 2 {
		t.Errorf("%d entries count as applied, %v", len(in.Elements), err)
	}
}
