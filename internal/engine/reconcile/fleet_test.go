package reconcile_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// fleet is a reconciler with a task for each switch, and with real runners whose driver applies nothing.
// Its catalog is in memory, and each task watches a service of its own.
type fleet struct {
	*reconcile.Reconciler
	driver.Driver
	b      *testing.B // the bench that uses it now
	store  *statetest.Faulty
	runner *runner.Runner
	held   *lease.Lease // nil: each tick takes the lease, as in AWS
	now    time.Time

	versions map[string]int // of services, by task; 0 until the first change
	queries  map[string]string
	mark     int // of all gates

	starting sync.Mutex
	queue    map[string]state.Launch // launches that have not run
}

// month is the keep_removed of most configurations.
const month = 30 * 24 * time.Hour

// fleetLease is how long leases and claims last: the clock of a bench makes leaps.
const fleetLease = 1000 * time.Hour

func newFleet(b *testing.B, store state.Store, cfg *config.Config) *fleet {
	b.Helper()
	f := &fleet{b: b, store: &statetest.Faulty{Store: store}, now: time.Now(), versions: map[string]int{}, queries: map[string]string{}, queue: map[string]state.Launch{}}
	for i := range cfg.Tasks {
		query, _ := consul.ConditionQuery(&cfg.Tasks[i])
		f.queries[query.ID()] = cfg.Tasks[i].Name
	}
	clock, log, source := func() time.Time { return f.now }, slog.New(slog.DiscardHandler), new(overlay.Source)
	kept := summary.Keep(f.store)
	f.Reconciler = &reconcile.Reconciler{Config: cfg, Source: source, Store: kept, Consul: f, Launcher: f, Owner: lease.NewOwner(), LeaseTTL: fleetLease, Now: clock, Log: log}
	f.runner = &runner.Runner{Config: func() *config.Config { return cfg }, Source: source, Store: kept, Consul: f, Driver: f, Owner: f.Owner, Claim: fleetLease, Now: clock, Log: log}
	return f
}

// fleetOf is a configuration with n tasks, each on a service of its own.
func fleetOf(n int) *config.Config {
	cfg := &config.Config{KeepRemoved: month, Tasks: make([]config.Task, n)}
	for i := range cfg.Tasks {
		name := fmt.Sprintf("switch-%05d", i)
		cfg.Tasks[i] = config.Task{Name: name, Enabled: true, Condition: config.Condition{Spec: condition.Services{{Names: []string{name}}}}}
	}
	cfg, _ = cfg.With([]config.Change{{Task: "another"}}) // finds tasks by their names, as one that was loaded
	return cfg
}

// lead makes the fleet hold the lease, as `start` does.
func (f *fleet) lead() {
	var err error
	if f.held, err = lease.Acquire(f.b.Context(), f.Store, state.LeaderLease, f.Owner, lease.Options{TTL: fleetLease, Now: f.Now}); err != nil {
		f.b.Fatal(err)
	}
}

func (f *fleet) tick(o reconcile.TickOptions) reconcile.Report {
	f.b.Helper()
	o.Lease = f.held
	report, err := f.Tick(f.b.Context(), o)
	if err != nil {
		f.b.Fatal(err)
	}
	return report
}

// settle runs everything that is due, until a tick is idle. It returns how many ticks were not.
func (f *fleet) settle() (ticks int) {
	f.b.Helper()
	for range 1000 {
		ended := f.run()
		f.now = f.now.Add(time.Minute)
		if f.tick(reconcile.TickOptions{Ended: ended}).Idle {
			return ticks
		}
		ticks++
	}
	f.b.Fatal("no tick is idle")
	return 0
}

// run runs the launches, several runs at a time as containers do, and reports whether there were any.
func (f *fleet) run() bool {
	f.b.Helper()
	launched := len(f.queue) > 0
	var work sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, launch := range f.queue {
		for _, run := range launch.Runs {
			slots <- struct{}{}
			work.Go(func() {
				defer func() { <-slots }()
				if err := f.runner.Run(f.b.Context(), launch, run); err != nil {
					f.b.Error(err)
				}
			})
		}
	}
	work.Wait()
	clear(f.queue)
	return launched
}

// change changes the service of one task.
func (f *fleet) change(task string) {
	f.versions[task]++
	f.mark++
}

// digest is that of the service of a task.
func (f *fleet) digest(task string) string { return fmt.Sprintf("%s/%d", task, f.versions[task]) }

func (f *fleet) elements(task string) map[string]string {
	return map[string]string{task: fmt.Sprint(f.versions[task])}
}

// Observe implements reconcile.Consul.
func (f *fleet) Observe(_ context.Context, queries []consul.Query) []consul.Answer {
	answers := make([]consul.Answer, len(queries))
	for i, q := range queries {
		task := f.queries[q.ID()]
		answers[i].Digest, answers[i].Elements = f.digest(task), f.elements(task)
	}
	return answers
}

// Poll implements reconcile.Consul.
func (f *fleet) Poll(_ context.Context, gates consul.GateSet) (consul.Marks, error) {
	marks := consul.Marks{}
	for _, key := range gates.Keys() {
		marks[key] = fmt.Sprint(f.mark)
	}
	return marks, nil
}

// Identify implements reconcile.Consul.
func (*fleet) Identify(context.Context, string) (state.Identity, error) { return state.Identity{}, nil }

// Snapshot implements runner.Consul.
func (f *fleet) Snapshot(_ context.Context, t *config.Task) (*consul.Snapshot, error) {
	return &consul.Snapshot{Condition: consul.Observation{Digest: f.digest(t.Name), Elements: f.elements(t.Name)}}, nil
}

// Apply implements driver.Driver.
func (*fleet) Apply(context.Context, driver.Job) (driver.Outcome, error) {
	return driver.Outcome{Changes: &state.Changes{Add: 1}}, nil
}

// Start implements reconcile.Launcher. Launches of a tick start in parallel.
func (f *fleet) Start(_ context.Context, launch state.Launch) error {
	f.starting.Lock()
	defer f.starting.Unlock()
	f.queue[launch.ID] = launch
	return nil
}

// Status implements reconcile.Launcher.
func (f *fleet) Status(_ context.Context, ids []string) (map[string]reconcile.LaunchStatus, error) {
	all := map[string]reconcile.LaunchStatus{}
	for _, id := range ids {
		_, queued := f.queue[id]
		all[id] = reconcile.LaunchStatus{Running: queued}
	}
	return all, nil
}
