package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/stores/consulkv"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// busyTicks counts the ticks that were not idle.
type busyTicks struct{ atomic.Int64 }

func (*busyTicks) Leads(bool) {}

func (n *busyTicks) Ticked(r Report, _ error) {
	if !r.Idle {
		n.Add(1)
	}
}

func TestLoop_ClusterWithManyKVConditionsIsIdle(t *testing.T) {
	t.Parallel()
	server := consultest.Start(t)
	put := func(key, value string) {
		if _, err := server.Client().KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var all []config.Task
	for i := range 5 {
		task := *webTask()
		task.Name, task.BufferPeriod = fmt.Sprintf("kv-%d", i), config.BufferPeriod{}
		task.Condition = config.Condition{Spec: condition.ConsulKV{Path: fmt.Sprintf("app/%d", i), Recurse: true}}
		all = append(all, task)
		put(fmt.Sprintf("app/%d/a", i), "1")
	}
	missing := all[0]
	missing.Name, missing.Condition.Spec = "kv-missing", condition.ConsulKV{Path: "other/key"}
	all = append(all, missing)
	cfg := config.Consul{Address: server.Addr()}
	kv, err := consulkv.Open(cfg, "consul-terraform-sync/ha", "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := consul.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, all...)
	b.store.Store = summary.Keep(kv)
	b.Reconciler.Consul, b.Reconciler.Now, b.Reconciler.LeaseTTL = client, time.Now, 600*time.Millisecond // renewed every 200 ms
	busy, ended := new(busyTicks), make(chan struct{}, 1)
	l := &Loop{Reconciler: b.Reconciler, Ended: ended, Observer: busy,
		Watch: func(ctx context.Context, set consul.GateSet, since consul.Marks) Watch {
			return client.Watch(ctx, set, since)
		}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	defer func() { stop(); <-done }()
	// atRest waits until no tick was busy for so long.
	atRest := func(long time.Duration) {
		t.Helper()
		before, since := busy.Load(), time.Now()
		for began := since; time.Since(since) < long; time.Sleep(20 * time.Millisecond) {
			if n := busy.Load(); n != before {
				before, since = n, time.Now()
			}
			if time.Since(began) > time.Minute {
				t.Fatal("ticks are busy all the time, though nothing has changed")
			}
		}
	}
	launched := func(n int) []string {
		t.Helper()
		for began := time.Now(); len(b.launchedRuns()) < n && time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		}
		atRest(300 * time.Millisecond)
		names := slices.Sorted(maps.Keys(b.launchedRuns()))
		for _, name := range names {
			b.now = time.Now()
			b.applied(b.taskRecord(name))
		}
		b.launcher.forget()
		ended <- struct{}{}
		return names
	}
	if got := launched(6); len(got) != 6 {
		t.Fatalf("%v", got)
	}
	atRest(3 * time.Second) // the lease is renewed 15 times
	put("app/3/b", "1")
	put("other/key", "1")
	if got := launched(2); !slices.Equal(got, []string{"kv-3", "kv-missing"}) {
		t.Errorf("launched %v", got)
	}
}
