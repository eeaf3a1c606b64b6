package consulkv_test

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

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

func TestStore_AwaitReturnsWhenARecordBelowThePrefixChanges(t *testing.T) {
	s := open(t, consultest.Start(t).Addr(), "terrapulse/network")
	ctx := t.Context()
	if _, err := s.Apply(ctx, state.Create("runner/first", []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	mark, err := s.Await(ctx, "runner/", "")
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		mark string
		err  error
	}
	changed := make(chan result, 1)
	wait := func(mark string) {
		go func() {
			mark, err := s.Await(ctx, "runner/", mark)
			changed <- result{mark, err}
		}()
	}
	for n := range 3 {
		wait(mark)
		if _, err := s.Apply(ctx, state.Create(fmt.Sprintf("task/t%d", n), []byte("{}"))); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-changed:
			t.Fatalf("a record elsewhere ends the wait with %+v", got)
		case <-time.After(300 * time.Millisecond):
		}
		if _, err := s.Apply(ctx, state.Create(fmt.Sprintf("runner/r%d", n), []byte("{}"))); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-changed:
			if got.err != nil || got.mark == mark {
				t.Fatalf("it returned %+v after %s", got, mark)
			}
			mark = got.mark
		case <-time.After(10 * time.Second):
			t.Fatal("the change of a record is not reported")
		}
	}
}
