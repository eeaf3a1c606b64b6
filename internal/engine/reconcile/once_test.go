package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// ttl is how long leases and claims last.
const ttl = 10 * time.Second

// task returns a task that watches the service of its own name.
func task(name string) config.Task {
	return config.Task{Name: name, Enabled: true,
		Condition: config.Condition{Spec: condition.Services{{Names: []string{name}}}}}
}

func tasks(names ...string) []config.Task {
	var all []config.Task
	for _, name := range names {
		all = append(all, task(name))
	}
	return all
}

// machine is what processes on one machine share: a store, Consul and what
// Terraform would do.
type machine struct {
	t     *testing.T
	store state.Store

	mu      sync.Mutex
	closed  map[string]bool  // services that Consul does not tell of
	broken  map[string]error // tasks whose module fails
	applied []string
	took    time.Duration // of each apply
	digest  string        // of every condition
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	return &machine{t: t, store: summary.Keep(store), closed: map[string]bool{}, broken: map[string]error{}, digest: "A"}
}

func (m *machine) Observe(_ context.Context, queries []consul.Query) []consul.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	answers := make([]consul.Answer, len(queries))
	for i, q := range queries {
		answers[i].Digest = m.digest
		for name := range m.closed {
			closed := task(name)
			if query, _ := consul.ConditionQuery(&closed); query.ID() == q.ID() {
				answers[i] = consul.Answer{Err: fmt.Errorf("read service %s: permission denied", name)}
			}
		}
	}
	return answers
}

func (m *machine) Poll(_ context.Context, gates consul.GateSet) (consul.Marks, error) {
	marks := consul.Marks{}
	for _, key := range gates.Keys() {
		marks[key] = "1"
	}
	return marks, nil
}

func (*machine) Identify(context.Context, string) (state.Identity, error) {
	return state.Identity{}, nil
}

func (m *machine) Snapshot(context.Context, *config.Task) (*consul.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &consul.Snapshot{Condition: consul.Observation{Digest: m.digest}}, nil
}

// terraform is the driver of a machine.
type terraform struct {
	driver.Driver
	*machine
}

// Apply implements driver.Driver.
func (m terraform) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	t := job.Task
	select {
	case <-time.After(m.took):
	case <-ctx.Done():
		return driver.Outcome{}, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = append(m.applied, t.Name)
	return driver.Outcome{Changes: &state.Changes{Add: 1}}, m.broken[t.Name]
}

// process is one Terrapulse on the machine.
type process struct {
	*reconcile.Reconciler
	launcher *launch.Local
	runner   *runner.Runner
}

func (m *machine) process(ctx context.Context, tasks []config.Task) *process {
	cfg := &config.Config{KeepRemoved: month, Tasks: tasks}
	log := slog.New(slog.DiscardHandler)
	owner := lease.NewOwner()
	run := &runner.Runner{Config: func() *config.Config { return cfg }, Store: m.store, Consul: m, Driver: terraform{machine: m},
		Owner: owner, Claim: ttl, Now: time.Now, Log: log}
	launcher := launch.NewLocal(ctx, 2, log, run.Run)
	return &process{launcher: launcher, runner: run, Reconciler: &reconcile.Reconciler{
		Config: cfg, Store: m.store, Consul: m, Launcher: launcher, Owner: owner, LeaseTTL: ttl, Now: time.Now, Log: log}}
}

// once runs the tasks one time in a process of their own.
func (m *machine) once(tasks []config.Task) []reconcile.Outcome {
	m.t.Helper()
	p := m.process(m.t.Context(), tasks)
	outcomes, err := p.Once(m.t.Context(), p.launcher.Wait)
	if err != nil {
		m.t.Fatal(err)
	}
	return outcomes
}

// said is what came of each task, in short.
func said(outcomes []reconcile.Outcome) []string {
	var all []string
	for _, o := range outcomes {
		line := o.Task + ": " + string(o.Reason.Code)
		if o.Run != nil {
			line = o.Task + ": " + string(o.Run.State)
		}
		if o.Failed() {
			line += " (failed)"
		}
		all = append(all, line)
	}
	return all
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestOnce_FailedTaskStopsNoOther(t *testing.T) {
	m := newMachine(t)
	all := tasks("e", "d", "c", "b", "a")
	all[1].Enabled = false
	m.broken["c"] = errors.New("module is broken")
	m.closed["b"] = true
	for range 2 { // the same again, although two have just been applied
		outcomes := m.once(all)
		expect(t, "outcomes", said(outcomes), "e: succeeded", "d: disabled", "c: failed (failed)", "b: unreadable (failed)", "a: succeeded")
		if text := outcomes[3].Reason.Text; !strings.Contains(text, "read service b: permission denied") {
			t.Errorf("why b was not run: %q", text)
		}
		if text := outcomes[2].Run.Error; text != "module is broken" {
			t.Errorf("why c failed: %q", text)
		}
	}
}

func TestOnce_WaitsForTheLeaseOfADeadProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		if _, err := lease.Acquire(t.Context(), m.store, state.LeaderLease, "dead", lease.Options{TTL: ttl, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		expect(t, "outcomes", said(m.once(tasks("web"))), "web: succeeded")
	})
}

func TestOnce_RefusesBesideALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		held, err := lease.Acquire(t.Context(), m.store, state.LeaderLease, "host-1", lease.Options{TTL: ttl, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		renewed := make(chan struct{})
		go func() {
			defer close(renewed)
			for ctx.Err() == nil {
				if err := held.Renew(t.Context(), time.Now()); err != nil {
					t.Error(err)
				}
				time.Sleep(ttl / 3)
			}
		}()
		began := time.Now()
		p := m.process(t.Context(), tasks("web"))
		_, err = p.Once(t.Context(), p.launcher.Wait)
		var other *lease.HeldError
		if !errors.As(err, &other) || other.Owner != "host-1" || !strings.Contains(err.Error(), "stop it first") {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited > 3*ttl {
			t.Errorf("it waited %s", waited)
		}
		stop()
		<-renewed
		expect(t, "applied", m.applied)
	})
}

// leave has a process take the tasks up to their runs, and then be killed
// before it starts them. It returns the launch.
func (m *machine) leave(tasks []config.Task) state.Launch {
	m.t.Helper()
	p := m.process(m.t.Context(), tasks)
	killed := &deadLauncher{}
	p.Launcher = killed
	if report, err := p.Tick(m.t.Context(), reconcile.TickOptions{}); err != nil || report.Stalled == nil || len(killed.asked) != 1 {
		m.t.Fatalf("tick: %+v, %v; asked for %v", report, err, killed.asked)
	}
	return killed.asked[0]
}

// deadLauncher is that of a process which dies when it is asked.
type deadLauncher struct{ asked []state.Launch }

func (d *deadLauncher) Start(_ context.Context, l state.Launch) error {
	d.asked = append(d.asked, l)
	return errors.New("killed")
}

func (d *deadLauncher) Status(context.Context, []string) (map[string]reconcile.LaunchStatus, error) {
	return nil, nil
}

func TestOnce_CarriesOutIntentsOfAnotherProcess(t *testing.T) {
	m := newMachine(t)
	left := m.leave(tasks("web", "api"))
	outcomes := m.once(tasks("web", "api"))
	expect(t, "outcomes", said(outcomes), "web: succeeded", "api: succeeded")
	for i, o := range outcomes {
		if o.Run.ID != left.Runs[i].ID {
			t.Errorf("%s: run %s, want that which was decided, %s", o.Task, o.Run.ID, left.Runs[i].ID)
		}
	}
	if len(m.applied) != 2 {
		t.Errorf("applied: %v", m.applied)
	}
}

// promptLauncher returns from Start when the runs have ended.
type promptLauncher struct{ *launch.Local }

// Start implements reconcile.Launcher.
func (p promptLauncher) Start(ctx context.Context, l state.Launch) error {
	defer p.Wait()
	return p.Local.Start(ctx, l)
}

func TestOnce_RunsOfAnotherProcessThatEndAtOnceAreNotRepeated(t *testing.T) {
	m := newMachine(t)
	m.leave(tasks("web", "api"))
	p := m.process(t.Context(), tasks("web", "api"))
	p.Launcher = promptLauncher{p.launcher}
	if _, err := p.Once(t.Context(), p.launcher.Wait); err != nil {
		t.Fatal(err)
	}
	slices.Sort(m.applied)
	expect(t, "applied", m.applied, "api", "web")
}

func TestOnce_IntentOnAnotherDefinitionIsDecidedAnew(t *testing.T) {
	m := newMachine(t)
	left := m.leave(tasks("web"))
	changed := tasks("web")
	changed[0].Description = "edited"
	changed[0].Module = "./other"
	outcomes := m.once(changed)
	expect(t, "outcomes", said(outcomes), "web: succeeded")
	expect(t, "applied", m.applied, "web")
	old, err := state.Read[state.Run](t.Context(), m.store, state.RunKey("web", left.Runs[0].ID))
	if err != nil || old.Data.State != state.RunLost || !strings.Contains(old.Data.Error, "another definition") {
		t.Errorf("the run decided before reads %+v (%v)", old.Data, err)
	}
}

func TestOnce_WaitsForARunOfAnotherProcess(t *testing.T) {
	for _, tt := range []struct {
		name   string
		killed bool
		states []state.RunState // of the two runs
	}{
		{"and was killed", true, []state.RunState{state.RunLost, state.RunSucceeded}},
		{"and carries on", false, []state.RunState{state.RunSucceeded, state.RunSucceeded}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				m.took = 3 * ttl
				first := m.leave(tasks("web"))
				other := m.process(t.Context(), tasks("web"))
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				if tt.killed {
					other.runner.Store = &mortal{Store: m.store, dead: ctx}
					other.runner.Patience = time.Second
				}
				if err := other.launcher.Start(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(2 * ttl) // it renews its claim; the lease is long over
				kill()

				outcomes := m.once(tasks("web"))
				expect(t, "outcomes", said(outcomes), "web: succeeded")
				other.launcher.Wait()
				for i, id := range []string{first.Runs[0].ID, outcomes[0].Run.ID} {
					run, err := state.Read[state.Run](t.Context(), m.store, state.RunKey("web", id))
					if err != nil || run.Data.State != tt.states[i] {
						t.Errorf("run %d reads %+v (%v), want that it %s", i+1, run.Data, err, tt.states[i])
					}
				}
			})
		})
	}
}

// mortal is the store as a process sees it that dies.
type mortal struct {
	state.Store
	dead context.Context
}

func (m *mortal) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if m.dead.Err() != nil {
		return nil, errors.New("killed")
	}
	return m.Store.Apply(ctx, changes...)
}

func TestOnce_TasksFollowTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.leave(tasks("old", "web")) // both have runs under way
		expect(t, "without the first", said(m.once(tasks("web"))), "web: succeeded")
		expect(t, "renamed", said(m.once(tasks("site"))), "site: succeeded")
		expect(t, "back again", said(m.once(tasks("old", "web", "site"))), "old: succeeded", "web: succeeded", "site: succeeded")
		all, err := state.ReadAll[state.Task](t.Context(), m.store, state.TaskPrefix)
		if err != nil || len(all) != 3 {
			t.Fatalf("%d records (%v)", len(all), err)
		}
		for _, record := range all {
			if record.Data.Run != nil || record.Data.Applied.Digest != "A" {
				t.Errorf("%s reads %+v", record.Key, record.Data)
			}
		}
	})
}

func TestOnce_QueuedRunsDoNotStartAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.took = time.Minute
		ctx, stop := context.WithCancel(t.Context())
		p := m.process(ctx, tasks("a", "b", "c", "d"))
		go func() {
			time.Sleep(time.Second)
			stop()
		}()
		outcomes, err := p.Once(ctx, p.launcher.Wait)
		if err != nil {
			t.Fatal(err)
		}
		count := map[state.RunState]int{}
		for _, o := range outcomes {
			if !o.Failed() {
				t.Errorf("%s counts as applied: %+v", o.Task, o.Run)
			}
			count[o.Run.State]++
		}
		if count[state.RunInterrupted] != 2 || count[state.RunIntended] != 2 {
			t.Errorf("the runs ended so: %v; want the two under way interrupted, the others not begun", count)
		}
		if held, err := lease.Read(t.Context(), m.store, state.LeaderLease); err != nil || held.Owner != "" {
			t.Errorf("the lease was not given back: %+v (%v)", held, err)
		}
		m.took = 0
		expect(t, "the next", said(m.once(tasks("a", "b", "c", "d"))), "a: succeeded", "b: succeeded", "c: succeeded", "d: succeeded")
	})
}

func TestOnce_ThousandTasksAreLaunchedInBatches(t *testing.T) {
	m := newMachine(t)
	m.store = summary.Keep(statetest.NewMemory())
	var all []config.Task
	for i := range 1000 {
		all = append(all, task(fmt.Sprintf("task-%03d", i)))
	}
	p := m.process(t.Context(), all)
	batches := &recording{Launcher: p.launcher, store: m.store}
	p.Launcher = batches
	outcomes, err := p.Once(t.Context(), p.launcher.Wait)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Failed() {
			t.Fatalf("%s: %+v", o.Task, o.Run)
		}
	}
	if len(outcomes) != 1000 || len(m.applied) != 1000 {
		t.Errorf("%d outcomes, %d applied", len(outcomes), len(m.applied))
	}
	for _, l := range batches.started {
		if len(l.Runs) > 25 {
			t.Errorf("a launch of %d runs", len(l.Runs))
		}
	}
	if n := len(batches.started); n != 40 {
		t.Errorf("%d launches", n)
	}
	if batches.unwritten != "" {
		t.Errorf("%s was launched before its intent was written", batches.unwritten)
	}
}

// recording remembers what was launched, and whether it had been written.
type recording struct {
	reconcile.Launcher
	store     state.Store
	mu        sync.Mutex
	started   []state.Launch
	unwritten string
}

func (r *recording) Start(ctx context.Context, l state.Launch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, l)
	for _, run := range l.Runs {
		if rec, err := state.Read[state.Run](ctx, r.store, state.RunKey(run.Task, run.ID)); err != nil || !rec.Exists() {
			r.unwritten = run.Task
		}
	}
	return r.Launcher.Start(ctx, l)
}

func TestOnce_AStoreThatIsNotWrittenIsTheReasonOfEachTaskThatWasNotRun(t *testing.T) {
	full := errors.New("no space left on the disk")
	for what, refuses := range map[string]func(changes []state.Change) bool{
		"from the start": func([]state.Change) bool { return true },
		"when the runs are decided": func(changes []state.Change) bool {
			return slices.ContainsFunc(changes, func(c state.Change) bool { return strings.HasPrefix(c.Key, "launch/") })
		},
	} {
		t.Run(what, func(t *testing.T) {
			m := newMachine(t)
			i := m.process(t.Context(), append(tasks("a", "b"), config.Task{Name: "off"}))
			i.Store = &statetest.Faulty{Store: i.Store, Before: func(changes []state.Change) error {
				if refuses(changes) {
					return full
				}
				return nil
			}}
			outcomes, err := i.Once(t.Context(), func() {})
			if !errors.Is(err, full) || len(outcomes) != 3 {
				t.Fatalf("%d outcomes, %v", len(outcomes), err)
			}
			for _, o := range outcomes {
				if o.Task == "off" {
					if o.Failed() || o.Err != nil {
						t.Errorf("the disabled task: %+v", o)
					}
				} else if !o.Failed() || o.Run != nil || !errors.Is(o.Err, full) {
					t.Errorf("%s: %+v", o.Task, o)
				}
			}
		})
	}
}

func TestOnce_FollowsTheOrder(t *testing.T) {
	for _, fails := range []string{"", "firewall", "lb"} {
		t.Run(fails, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				all := tasks("dns", "lb", "firewall", "other")
				all[0].After, all[1].After = []string{"l*"}, []string{"firewall"}
				m.broken[fails] = errors.New("exit code 1")
				outcomes := m.once(all)
				order := slices.DeleteFunc(slices.Clone(m.applied), func(name string) bool { return name == "other" })
				want := map[string]string{"": "firewall lb dns", "firewall": "firewall", "lb": "firewall lb"}[fails]
				if got := strings.Join(order, " "); got != want {
					t.Errorf("applied %s, want %s", got, want)
				}
				dns := outcomes[0]
				if ran := dns.Run != nil; ran != (fails == "") || dns.Failed() || dns.Waits() == ran {
					t.Errorf("dns: %+v", dns)
				}
				if fails != "" && (dns.Reason.Code != state.ReasonAfter || !strings.Contains(dns.Reason.Text, fails)) {
					t.Errorf("dns: %+v", dns.Reason)
				}
			})
		})
	}
}
