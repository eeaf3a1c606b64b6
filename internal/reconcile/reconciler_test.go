package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/sqlite"
	"github.com/terrapulse/terrapulse/internal/state/statetest"
)

// catalog is a Consul whose answers a test chooses.
type catalog struct {
	mu     sync.Mutex
	digest string
	err    error
	reads  int
}

func (c *catalog) set(digest string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.digest, c.err = digest, err
}

func (c *catalog) Observe(_ context.Context, queries []consul.Query) []consul.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := make([]consul.Answer, len(queries))
	for i := range answers {
		c.reads++
		answers[i].Err = c.err
		if c.err == nil {
			answers[i].Digest = c.digest
			answers[i].Elements = map[string]string{c.digest: "1"}
		}
	}
	return answers
}

// Poll shows one mark for all gates.
func (c *catalog) Poll(_ context.Context, gates consul.GateSet) (consul.Marks, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	marks := consul.Marks{}
	for _, key := range gates.Keys() {
		marks[key] = c.digest
	}
	return marks, nil
}

// launcher remembers what it was asked to start. Tests that run beside a loop
// use its methods.
type launcher struct {
	mu      sync.Mutex
	started []state.Launch
	fail    error
	status  map[string]LaunchStatus
}

// refuse makes Start fail, or no longer with nil.
func (l *launcher) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// launches returns what was started since forget.
func (l *launcher) launches() []state.Launch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.started)
}

func (l *launcher) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = nil
}

func (l *launcher) Start(_ context.Context, launch state.Launch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	l.started = append(l.started, launch)
	return nil
}

func (l *launcher) Status(_ context.Context, ids []string) (map[string]LaunchStatus, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	statuses := map[string]LaunchStatus{}
	for _, launch := range l.started {
		statuses[launch.ID] = LaunchStatus{Running: true}
	}
	maps.Copy(statuses, l.status)
	return statuses, nil
}

// bench is a reconciler with everything around it.
type bench struct {
	*Reconciler
	t        testing.TB
	catalog  *catalog
	launcher *launcher
	store    *statetest.Counted
	now      time.Time
}

func newBench(t testing.TB, tasks ...config.Task) *bench {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b := &bench{t: t, catalog: &catalog{digest: "A"}, launcher: &launcher{}, store: &statetest.Counted{Store: store}, now: noon}
	b.Reconciler = b.another(tasks)
	return b
}

// another returns one more reconciler on the same store, as of another process.
func (b *bench) another(tasks []config.Task) *Reconciler {
	return &Reconciler{
		Config: &config.Config{Tasks: tasks}, Store: b.store, Consul: b.catalog, Launcher: b.launcher,
		Owner: lease.NewOwner(), LeaseTTL: 10 * time.Second, Now: func() time.Time { return b.now },
		Log: slog.New(slog.DiscardHandler),
	}
}

// tasks are n tasks that watch the service web, without buffer period.
func tasks(n int) []config.Task {
	all := make([]config.Task, n)
	for i := range all {
		all[i] = *webTask()
		all[i].Name = fmt.Sprintf("task-%d", i)
		all[i].BufferPeriod = config.BufferPeriod{}
	}
	return all
}

func (b *bench) tick() Report {
	b.t.Helper()
	report, err := b.Tick(b.t.Context(), TickOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return report
}

// end ends every run that is under way, as a runner would.
func (b *bench) end(outcome state.RunState, digest string) {
	b.t.Helper()
	all, _, err := state.ReadEach[state.Task](b.t.Context(), b.store, state.TaskPrefix)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, task := range all {
		if task.Data.Run == nil {
			continue
		}
		name := state.TaskName(task.Key)
		run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey(name, task.Data.Run.ID))
		if errors.As(err, new(*state.CorruptError)) {
			continue
		}
		if err != nil || !run.Exists() {
			b.t.Fatalf("the run of %s: %v", name, err)
		}
		run.Data.State, run.Data.Ended, run.Data.Digest = outcome, b.now, digest
		definition := b.definitions[name]
		if t, ok := b.Config.Task(name); ok && definition == "" { // another reconciler decided
			definition = t.Digest(b.Config)
		}
		next, _ := task.Data.Conclude(run.Data, definition)
		if _, err := b.store.Apply(b.t.Context(), run.Write(run.Data), task.Write(next)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// settle has everything run and applied.
func (b *bench) settle() {
	b.t.Helper()
	b.tick()
	b.end(state.RunSucceeded, b.catalog.digest)
	b.now = b.now.Add(liveCheck)
	b.tick()
}

func (b *bench) task(name string) state.Task {
	b.t.Helper()
	task, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return task.Data
}

func TestAChangeBecomesOneRunOfEachTaskConcerned(t *testing.T) {
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

func TestAnIdleTickOnlyReads(t *testing.T) {
	for _, n := range []int{1, 1000} {
		t.Run(fmt.Sprintf("%d tasks", n), func(t *testing.T) {
			b := newBench(t, tasks(n)...)
			b.settle()
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

func TestEveryFiveMinutesEverythingIsRead(t *testing.T) {
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

func TestACrashBetweenIntentAndLaunchIsHealedWithTheSameLaunch(t *testing.T) {
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

func TestARunWhoseRunnerDiedIsRunAgain(t *testing.T) {
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
	if got := b.task("task-0"); len(got.History) != 1 || got.Last.State != state.RunLost {
		t.Errorf("its task does not remember it: %+v", got)
	}
}

func TestARunWithoutSignOfLifeIsLostOnlyAfterItsClaim(t *testing.T) {
	running := state.Run{ID: "r", Kind: state.KindApply, Owner: "host", State: state.RunRunning, Created: noon, Expires: noon.Add(10 * time.Second)}
	intended := state.Run{ID: "r", Kind: state.KindApply, State: state.RunIntended, Created: noon}
	for _, tt := range []struct {
		name    string
		run     state.Run
		stopped string
		at      time.Time
		lost    string
	}{
		{"not while its claim lasts", running, "", noon.Add(9 * time.Second), ""},
		{"when its claim has expired", running, "", noon.Add(10 * time.Second), "its runner host has given no sign of life since 12:00:10Z"},
		{"as soon as its launcher saw it stop", running, "Spot reclaim", noon, "Spot reclaim"},
		{"an intent is asked for again", intended, "", noon.Add(time.Minute), ""},
		{"but not for ever", intended, "", noon.Add(time.Hour), "no runner claimed it"},
		{"without a record it is lost", state.Run{}, "", noon, "its record is gone"},
		{"one that ended behind its task's back is made good", state.Run{ID: "r", Kind: state.KindApply, State: state.RunSucceeded}, "", noon, "without its task being told"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost := lifeless(tt.run, tt.stopped, tt.at, 0)
			if (tt.lost == "") != (lost == "") || !strings.Contains(lost, tt.lost) {
				t.Errorf("lost %q, want %q", lost, tt.lost)
			}
		})
	}
}

func TestARunWaitsForItsTurnAsLongAsItsRunnerLives(t *testing.T) {
	b := newBench(t, tasks(30)...)
	b.tick()
	launched := len(b.launcher.started)
	for range 5 { // the launcher says that all are running
		b.now = b.now.Add(time.Hour)
		b.tick()
	}
	if n := len(b.launcher.started); n != launched || len(b.task("task-29").History) != 0 {
		t.Errorf("%d launches after %d: %+v", n, launched, b.task("task-29"))
	}
}

func TestNothingRunsWhileConsulDoesNotAnswer(t *testing.T) {
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

func TestOneDatacenterThatIsAwayIsNotAllOfConsul(t *testing.T) {
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

func TestWhoDoesNotLeadDoesNothing(t *testing.T) {
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

func TestALeaderThatWasOvertakenWritesNothing(t *testing.T) {
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

func TestARecordChangedMeanwhileIsDecidedAnew(t *testing.T) {
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

func TestAnIdleTickIsTwoRequestsWhateverIsWatched(t *testing.T) {
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

// applied ends a task's run with what was observed.
func (b *bench) applied(task state.Stored[state.Task]) {
	b.t.Helper()
	name := state.TaskName(task.Key)
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey(name, task.Data.Run.ID))
	if err != nil {
		b.t.Fatal(err)
	}
	run.Data.State, run.Data.Ended, run.Data.Digest = state.RunSucceeded, b.now, task.Data.Observed
	def, _ := b.Config.Task(name)
	next, _ := task.Data.Conclude(run.Data, def.Digest(b.Config))
	if _, err := b.store.Apply(b.t.Context(), run.Write(run.Data), task.Write(next)); err != nil {
		b.t.Fatal(err)
	}
}

func TestATaskThatIsNoLongerConfiguredIsSaidToBeRemoved(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.settle()
	b.Reconciler = b.another(tasks(1))
	b.tick()
	if got := b.task("task-1"); got.Reason.Code != state.ReasonRemoved || got.Applied == "" {
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

func TestARunThatEndsWhileATickLooksIsNotLost(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	b.launcher.status = map[string]LaunchStatus{b.launcher.started[0].ID: {}} // another process has it
	b.Reconciler.Store = &ender{Store: b.store, end: func() { b.end(state.RunSucceeded, "A") }}
	b.now = b.now.Add(liveCheck)
	if report := b.tick(); report.Decisions[0].Lost != nil || len(report.Dropped) > 0 {
		t.Errorf("it was taken for lost: %+v", report.Decisions[0])
	}
	if task := b.task("task-0"); task.Failures != 0 || task.Run != nil || task.Last.State != state.RunSucceeded {
		t.Errorf("the task reads %+v", task)
	}
	if n := len(b.launcher.started); n != 1 {
		t.Errorf("%d launches, want the first one only", n)
	}
}

// ender has something happen just after the tasks were first read.
type ender struct {
	state.Store
	end func()
}

func (e *ender) List(ctx context.Context, prefix string) ([]state.Record, error) {
	recs, err := e.Store.List(ctx, prefix)
	if prefix == state.TaskPrefix && e.end != nil {
		end := e.end
		e.end = nil
		end()
	}
	return recs, err
}

func TestAfterAnOutageEverythingIsReadWhateverTheGatesShow(t *testing.T) {
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
