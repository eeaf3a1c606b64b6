package consulkv_test

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/stores/consulkv"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func open(t testing.TB, address, path string) *consulkv.Store {
	t.Helper()
	s, err := consulkv.Open(config.Consul{Address: address}, path, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	checks := "30" // a history takes some 200 requests
	if testing.Short() {
		checks = "5"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		t.Fatal(err)
	}
	server := consultest.Start(t)
	var n atomic.Int64
	statetest.Test(t, func(t *testing.T) func() state.Store {
		path := fmt.Sprintf("consul-terraform-sync/cluster-%d", n.Add(1))
		return func() state.Store { return open(t, server.Addr(), path) }
	})
}
