package tableapi

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// counted is a store that counts its reads.
type counted struct {
	state.Store
	reads int
	fails error
}

func (c *counted) Get(ctx context.Context, key string) (state.Record, error) {
	c.reads++
	if c.fails != nil {
		return state.Record{}, c.fails
	}
	return c.Store.Get(ctx, key)
}

func TestPolicy_IsThatOfTheBundleInForceAndReadsLittle(t *testing.T) {
	store := &counted{Store: statetest.NewMemory()}
	if _, err := store.Apply(t.Context(), state.Create(state.ReconcileKey, state.Encode(state.Reconcile{Bundle: "b"}))); err != nil {
		t.Fatal(err)
	}
	granted := &config.Config{API: config.API{Access: roles.Policy{Grants: []roles.Grant{{Roles: []roles.Role{roles.View}, To: []string{"everyone"}, Labels: map[string]string{"site": "muc"}}}}}, Tasks: []config.Task{{Name: "fw-1", Labels: map[string]string{"site": "muc"}}, {Name: "vpn"}}}
	served := API{inForce: &inForce{store: store, digest: "b", config: granted}}
	for range 10 {
		policy, err := served.Policy(t.Context())
		if err != nil || !policy.Set() {
			t.Fatal(policy.Grants, err)
		}
		if r := policy.Rights(identity.Identity{}); !r.May(roles.View, "fw-1") || r.May(roles.View, "vpn") {
			t.Fatalf("the labels of the bundle do not decide: %s", r)
		}
	}
	if store.reads != 1 {
		t.Errorf("%d reads for 10 requests", store.reads)
	}
	served.inForce.at = time.Now().Add(-policyAge - time.Second)
	if _, err := served.inForce.load(t.Context()); err != nil || store.reads != 2 { // a request for tasks reads it anyway
		t.Fatal(err, store.reads)
	}
	if _, err := served.Policy(t.Context()); err != nil || store.reads != 2 {
		t.Errorf("%d reads, %v", store.reads, err)
	}
	served.inForce.at, store.fails = time.Now().Add(-policyAge-time.Second), errors.New("no answer")
	if policy, err := served.Policy(t.Context()); err == nil || policy.Set() {
		t.Errorf("an old policy is used without an answer of the table: %v", policy.Grants)
	}
}
