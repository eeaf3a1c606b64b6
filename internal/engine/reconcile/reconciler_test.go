package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestTick_ChangeRunsEachConcernedTaskOnce(t *testing.T) {
	b := newBench(t, tasks(45)...)
	b.settle()
	b.launcher.started = nil

	b.catalog.set("B", nil)
	b.tick()
	b.tick() // the runs are under way: nothing is doubled
	seen := map[string]int{}
	for _, launch := range b.launcher.started {
		if len(launch.Runs) > runsPerLaunch {
			t.Errorf("a launch of %d runs", len(launch.Runs))
		}
		for _, run := range launch.Runs {
			seen[run.Task]++
		}
	}
	for _, task := range b.Config.Tasks {
		if seen[task.Name] != 1 {
			t.Errorf("%s was launched %d times", task.Name, seen[task.Name])
		}
	}
	if got := b.task("task-3"); got.Reason.Code != state.ReasonRunning && got.Reason.Code != state.ReasonChanged {
		t.Errorf("the reason is %+v", got.Reason)
	}
}

func TestTick_IdleTickOnlyReads(t *testing.T) {
	for _, n := range []int{1, 1000} {
		t.Run(fmt.Sprintf("%d tasks", n), func(t *testing.T) {
			b := newBench(t, tasks(n)...)
			b.settle()
			for b.tick(); !b.deliverAt.IsZero(); b.tick() { // a busy machine delivers a part of the events in a tick
				b.now = b.deliverAt
			}
			for range 3 {
				b.store.Reset()
				b.catalog.reads = 0
				report := b.tick()
				if !report.Idle || b.store.Reads.Load() != 1 || b.store.Writes.Load() != 0 || b.catalog.reads != 0 {
					t.Fatalf("idle %v, %d reads and %d writes of the store, %d conditions read; due %s",
						report.Idle, b.store.Reads.Load(), b.store.Writes.Load(), b.catalog.reads, report.Due)
				}
				b.now = b.now.Add(time.Minute)
			}
		})
	}
}

func TestTick_EveryViewIsReadEvery5Minutes(t *testing.T) {
	b := newBench(t, tasks(3)...)
	b.settle()
	b.catalog.reads = 0
	b.now = b.now.Add(refreshEvery)
	if b.tick(); b.catalog.reads != 3 {
		t.Errorf("%d conditions were read, want all 3", b.catalog.reads)
	}
	if !b.tick().Idle {
		t.Error("the next tick is not idle")
	}
}

func TestTick_IntentWithoutLaunchIsStartedUnderTheSameID(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.launcher.fail = errors.New("no answer")
	report, err := b.Tick(t.Context(), TickOptions{})
	if err != nil || report.Stalled == nil || !report.Again {
		t.Fatalf("a launch that fails is not reported: %+v, %v", report, err)
	}
	intended := b.task("task-0").Run
	if intended == nil {
		t.Fatal("there is no intent")
	}
	b.launcher.fail = nil
	b.now = b.now.Add(liveCheck)
	b.tick()
	if n := len(b.launcher.started); n != 1 || b.launcher.started[0].ID != intended.Launch {
		t.Fatalf("started %+v, want launch %s once", b.launcher.started, intended.Launch)
	}
	if got := b.task("task-0").Run; got == nil || got.ID != intended.ID {
		t.Errorf("the run is %+v, want %s", got, intended.ID)
	}
}

func TestTick_RunOfADeadRunnerIsRepeated(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	launch := b.launcher.started[0]
	b.launcher.status = map[string]LaunchStatus{launch.ID: {Stopped: "out of memory"}}
	b.now = b.now.Add(liveCheck)
	b.tick()
	if len(b.launcher.started) != 2 || b.task("task-0").Run.ID == launch.Runs[0].ID {
		t.Fatalf("the lost run was not made good: %+v", b.launcher.started)
	}
	lost, err := state.Read[state.Run](t.Context(), b.store, state.RunKey("task-0", launch.Runs[0].ID))
	if err != nil || lost.Data.State != state.RunLost || lost.Data.Error != "out of memory" {
		t.Errorf("the lost run reads %+v (%v)", lost.Data, err)
	}
	if got := b.task("task-0"); len(got.Ended.IDs) != 1 || got.Ended.Last.State != state.RunLost {
		t.Errorf("its task does not remember it: %+v", got)
	}
}

func TestTick_SilentRunIsLostOnlyAfterItsClaim(t *testing.T) {
	running := state.Run{ID: "r", Kind: state.KindApply, Claimed: state.Claimed{Owner: "host", Expires: noon.Add(10 * time.Second)}, State: state.RunRunning, Created: noon}
	intended := state.Run{ID: "r", Kind: state.KindApply, State: state.RunIntended, Created: noon}
	for _, tt := range []struct {
		name    string
		run     state.Run
		stopped string
		at      time.Time
		lost    string
	}{
		{"not while its claim lasts", running, "", noon.Add(9 * time.Second), ""},
		{"when its claim has expired", running, "", noon.Add(10 * time.Second), "its runner host should have reported by 2086-03-14T12:00:10Z and has not"},
		{"as soon as its launcher saw it stop", running, "Spot reclaim", noon, "Spot reclaim"},
		{"an intent is started again", intended, "", noon.Add(time.Minute), ""},
		{"but not for ever", intended, "", noon.Add(time.Hour), "no runner began it"},
		{"without a record it is lost", state.Run{}, "", noon, "its record is gone"},
		{"ended without an update of its task", state.Run{ID: "r", Kind: state.KindApply, State: state.RunSucceeded}, "", noon, "its task was not updated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost := whyLost(tt.run, tt.stopped, tt.at, 0)
			if (tt.lost == "") != (lost == "") || !strings.Contains(lost, tt.lost) {
				t.Errorf("lost %q, want %q", lost, tt.lost)
			}
		})
	}
}

func TestTick_QueuedRunIsNotLostWhileItsRunnerLives(t *testing.T) {
	b := newBench(t, tasks(30)...)
	b.tick()
	launched := len(b.launcher.started)
	for range 5 { // the launcher says that all are running
		b.now = b.now.Add(time.Hour)
		b.tick()
	}
	if n := len(b.launcher.started); n != launched || len(b.task("task-29").Ended.IDs) != 0 {
		t.Errorf("%d launches after %d: %+v", n, launched, b.task("task-29"))
	}
}

func TestTick_NothingRunsDuringAConsulOutage(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.settle()
	b.launcher.started = nil
	b.catalog.set("B", errors.New("no cluster leader"))
	for range 3 {
		b.tick()
		b.now = b.now.Add(time.Minute)
	}
	b.now = b.now.Add(refreshEvery)
	b.tick()
	rec, _ := state.Read[state.Reconcile](t.Context(), b.store, state.ReconcileKey)
	if !strings.Contains(rec.Data.ConsulError, "no cluster leader") || len(b.launcher.started) > 0 {
		t.Fatalf("problem %q, started %d", rec.Data.ConsulError, len(b.launcher.started))
	}
	b.catalog.set("B", nil)
	b.tick()
	rec, _ = state.Read[state.Reconcile](t.Context(), b.store, state.ReconcileKey)
	if rec.Data.ConsulError != "" || len(b.launcher.started) != 1 {
		t.Fatalf("after the outage: problem %q, %d launches", rec.Data.ConsulError, len(b.launcher.started))
	}
}

// withoutOne is a Consul of which one datacenter cannot be reached.
type withoutOne struct {
	*catalog
	lost string
}

func (p withoutOne) Poll(ctx context.Context, gates consul.GateSet) (consul.Marks, error) {
	marks, err := p.catalog.Poll(ctx, gates)
	for key := range marks {
		if strings.Contains(key, p.lost) {
			delete(marks, key)
			err = fmt.Errorf("no path to datacenter %s", p.lost)
		}
	}
	return marks, err
}

func TestTick_UnreachableDatacenterStopsOnlyItsTasks(t *testing.T) {
	all := tasks(2)
	all[1].Condition.Spec = condition.Services{{Names: []string{"web"}, Datacenter: "far"}}
	b := newBench(t, all...)
	b.settle()
	record := func() state.Reconcile {
		b.tick()
		rec, err := state.Read[state.Reconcile](t.Context(), b.store, state.ReconcileKey)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Data
	}
	began := b.now.Add(time.Minute)
	b.now = began
	b.Consul = withoutOne{b.catalog, "far"}
	for range 3 {
		if rec := record(); rec.ConsulError == "" || rec.ConsulUnreachable || !rec.Since.Equal(began) || b.now.Sub(rec.Refreshed) >= refreshEvery {
			t.Errorf("with one away: %+v", rec)
		}
		b.now = b.now.Add(refreshEvery)
	}
	gone := b.now
	b.catalog.set("A", errors.New("connection refused"))
	for range 2 {
		if rec := record(); !rec.ConsulUnreachable || !rec.Since.Equal(gone) {
			t.Errorf("with all of Consul away: %+v", rec)
		}
		b.now = b.now.Add(time.Minute)
	}
	b.catalog.set("A", nil)
	if rec := record(); rec.ConsulError == "" || rec.ConsulUnreachable {
		t.Errorf("with one away again: %+v", rec)
	}
	b.Consul = b.catalog
	if rec := record(); rec.ConsulError != "" || rec.ConsulUnreachable || !rec.LastSuccess.Equal(b.now) {
		t.Errorf("with all there: %+v", rec)
	}
}

func TestTick_WithoutTheLeaseNothingIsDone(t *testing.T) {
	b := newBench(t, tasks(2)...)
	held, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "another", lease.Options{TTL: time.Hour, Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Tick(t.Context(), TickOptions{})
	var other *lease.HeldError
	if !errors.As(err, &other) || other.Owner != "another" || len(b.launcher.started) > 0 {
		t.Fatalf("got %v and %d launches", err, len(b.launcher.started))
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.tick(); len(b.launcher.started) != 1 {
		t.Error("the released lease was not taken")
	}
}

func TestTick_OvertakenLeaderWritesNothing(t *testing.T) {
	b := newBench(t, tasks(1)...)
	old, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "old", lease.Options{TTL: time.Second, Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Minute)
	if _, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "new", lease.Options{TTL: time.Hour, Now: b.Now}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Tick(t.Context(), TickOptions{Lease: old}); !errors.Is(err, lease.ErrLost) {
		t.Fatalf("got %v, want that the lease is lost", err)
	}
	if len(b.launcher.started) > 0 || b.task("task-0").Run != nil {
		t.Error("it has decided a run")
	}
}

func TestTick_TaskChangedMeanwhileIsDecidedAnew(t *testing.T) {
	b := newBench(t, tasks(3)...)
	b.settle()
	b.launcher.started = nil
	b.catalog.set("B", nil)
	// Someone changes one task between this tick's reading and its writing.
	b.Reconciler.Store = &meddler{Store: b.store, key: state.TaskKey("task-1")}
	b.tick()
	if n := len(b.launcher.started); n != 1 || len(b.launcher.started[0].Runs) != 2 {
		t.Fatalf("launched %+v, want the two others", b.launcher.started)
	}
	b.tick()
	if n := len(b.launcher.started); n != 2 || b.launcher.started[1].Runs[0].Task != "task-1" {
		t.Fatalf("launched %+v, want task-1 in the next tick", b.launcher.started)
	}
}

// meddler writes to a record just before the first Apply that holds it.
type meddler struct {
	state.Store
	key  string
	done bool
}

func (m *meddler) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	for _, c := range changes {
		if c.Key == m.key && !m.done {
			m.done = true
			rec, err := m.Store.Get(ctx, m.key)
			if err != nil {
				return nil, err
			}
			if _, err := m.Store.Apply(ctx, state.Replace(rec, rec.Value)); err != nil {
				return nil, err
			}
		}
	}
	return m.Store.Apply(ctx, changes...)
}

func TestTick_IdleTickIsTwoRequests(t *testing.T) {
	server := consultest.Start(t)
	proxy := consultest.NewProxy(t, server.Addr())
	client, err := consul.New(config.Consul{Address: proxy.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", Port: 80}); err != nil {
		t.Fatal(err)
	}
	kv := *webTask()
	kv.Name = "kv"
	kv.Condition = config.Condition{Spec: condition.ConsulKV{Path: "app", Recurse: true}}
	many := *webTask()
	many.Name = "many"
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("web-%d", i))
	}
	many.Condition.Spec = condition.Services{{Names: names}}
	for _, tt := range []struct {
		name  string
		tasks []config.Task
		most  int
	}{
		{"one service, one task", tasks(1), 2},
		{"100 services, one task", []config.Task{many}, 2},
		{"1,000 tasks", tasks(1000), 2},
		{"with KV", append(tasks(10), kv, many), 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.tasks...)
			b.Reconciler.Consul = client
			b.tick()
			all, err := state.ReadAll[state.Task](t.Context(), b.store, state.TaskPrefix)
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range all { // each was applied as it was observed
				b.applied(task)
			}
			b.now = b.now.Add(liveCheck)
			b.tick()
			proxy.Reset()
			b.store.Reset()
			if report := b.tick(); !report.Idle {
				t.Fatalf("the tick is not idle: %+v", report.Decisions[0])
			}
			if n := proxy.Total(); n > tt.most || b.store.Reads.Load() != 1 || b.store.Writes.Load() != 0 {
				t.Errorf("%d requests (%v), %d reads and %d writes of the store; want at most %d, 1 and 0",
					n, proxy.Requests(), b.store.Reads.Load(), b.store.Writes.Load(), tt.most)
			}
		})
	}
}

func TestTick_UnconfiguredTaskIsRemoved(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.settle()
	b.Reconciler = b.another(tasks(1))
	b.tick()
	if got := b.task("task-1"); got.Reason.Code != state.ReasonRemoved || got.Applied.Digest == "" {
		t.Errorf("the removed task reads %+v", got)
	}
	if !b.tick().Idle {
		t.Error("the next tick is not idle")
	}
	b.Reconciler = b.another(tasks(2))
	b.tick()
	if got := b.task("task-1"); got.Reason.Code != state.ReasonUnchanged {
		t.Errorf("the task that is configured again reads %+v", got.Reason)
	}
}

func TestTick_RunThatEndsMeanwhileIsNotLost(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	b.launcher.status = map[string]LaunchStatus{b.launcher.started[0].ID: {}} // another process has it
	b.Reconciler.Store = &ender{Store: b.store, end: func() { b.end(state.RunSucceeded, "A") }}
	b.now = b.now.Add(liveCheck)
	if report := b.tick(); report.Decisions[0].Lost != nil || len(report.Left) > 0 {
		t.Errorf("it was taken for lost: %+v", report.Decisions[0])
	}
	if task := b.task("task-0"); task.Failing.Count != 0 || task.Run != nil || task.Ended.Last.State != state.RunSucceeded {
		t.Errorf("the task reads %+v", task)
	}
	if n := len(b.launcher.started); n != 1 {
		t.Errorf("%d launches, want the first one only", n)
	}
}

// ender has something happen just after a task was first read.
type ender struct {
	state.Store
	end func()
}

func (e *ender) Get(ctx context.Context, key string) (state.Record, error) {
	rec, err := e.Store.Get(ctx, key)
	if strings.HasPrefix(key, state.TaskPrefix) && e.end != nil {
		end := e.end
		e.end = nil
		end()
	}
	return rec, err
}

func TestTick_RecordsWhenGatesMoved(t *testing.T) {
	b := newBench(t, tasks(3)...)
	var seen map[string]state.Gate
	b.Gates = func(gates map[string]state.Gate) { seen = gates }
	b.settle()
	recorded := func() state.Gate {
		rec, err := state.ReadReconcile(t.Context(), b.store)
		if err != nil || len(rec.Data.Gates) != 1 {
			t.Fatalf("the gates in the record are %v, %v", rec.Data.Gates, err)
		}
		for key, gate := range rec.Data.Gates {
			if gate != seen[key] {
				t.Errorf("gate %s is recorded as %+v, and was seen as %+v", key, gate, seen[key])
			}
			return gate
		}
		panic("unreachable")
	}
	if g := recorded(); g.Mark != "A" || g.Name != `service "web"` || !g.Moved.IsZero() {
		t.Errorf("before it moved, the gate is %+v", g)
	}
	b.now = b.now.Add(time.Minute)
	moved := b.now
	b.catalog.set("B", nil)
	b.tick()
	if g := recorded(); g.Mark != "B" || !g.Moved.Equal(moved) {
		t.Errorf("after it moved, the gate is %+v", g)
	}
	b.now = b.now.Add(time.Minute)
	b.catalog.set("B", errors.New("connection refused"))
	b.tick()
	b.now = b.now.Add(refreshEvery)
	b.catalog.set("B", nil)
	b.tick()
	if g := recorded(); g.Mark != "B" || !g.Moved.Equal(moved) {
		t.Errorf("after an outage, the gate is %+v", g)
	}
}

func TestTick_EveryViewIsReadAfterAnOutage(t *testing.T) {
	b := newBench(t, tasks(3)...)
	b.settle()
	b.catalog.set("A", errors.New("connection refused"))
	b.tick()
	b.catalog.set("A", nil) // the gates show what they showed before
	b.catalog.reads = 0
	if b.tick(); b.catalog.reads != 3 {
		t.Errorf("%d conditions were read, want all 3", b.catalog.reads)
	}
}
