package state_test

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestIdentity_OnlyAnotherConsulCountsAsReplaced(t *testing.T) {
	for _, c := range []struct {
		name     string
		was, now state.Identity
		replaced bool
	}{
		{"nothing changed", state.Identity{Cluster: "a", Index: 100}, state.Identity{Cluster: "a", Index: 100}, false},
		{"data changed", state.Identity{Cluster: "a", Index: 100}, state.Identity{Cluster: "a", Index: 5000}, false},
		{"another cluster", state.Identity{Cluster: "a", Index: 100}, state.Identity{Cluster: "b", Index: 5000}, true},
		{"the index is near 0", state.Identity{Index: 100}, state.Identity{Index: 12}, true},
		{"the index is near 0, in the same cluster", state.Identity{Cluster: "a", Index: 100}, state.Identity{Cluster: "a", Index: 12}, true},
		{"the index went back a little", state.Identity{Index: 100}, state.Identity{Index: 50}, false},
		{"Connect was switched off", state.Identity{Cluster: "a", Index: 100}, state.Identity{Index: 120}, false},
		{"Connect was switched on", state.Identity{Index: 100}, state.Identity{Cluster: "a", Index: 120}, false},
		{"nothing is known", state.Identity{}, state.Identity{Cluster: "a", Index: 12}, false},
	} {
		if why := c.was.Replaced(c.now); (why != "") != c.replaced {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

func TestRename_TakesAlongThatALossIsNotConfirmed(t *testing.T) {
	next, left := state.Rename{From: "a", To: "b"}.Take(state.Task{Stops: state.Stops{Unconfirmed: true}}, state.Task{})
	if !next.Unconfirmed || left.Unconfirmed {
		t.Errorf("the new name has %v, the former one %v", next.Unconfirmed, left.Unconfirmed)
	}
}
