package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// gates is a watch whose gates move when a test says so.
type gates struct {
	c  chan struct{}
	n  atomic.Int64
	mu sync.Mutex
	of []string
}

func (g *gates) C() <-chan struct{} { return g.c }

func (g *gates) Marks() (consul.Marks, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	marks := consul.Marks{}
	for _, key := range g.of {
		marks[key] = string(rune('a' + g.n.Load()))
	}
	return marks, nil
}

// instance is a Terrapulse that loops, with what people ask it through.
type instance struct {
	*machine
	gates  *gates
	reload chan reconcile.Reload
	base   atomic.Pointer[config.Config]
	stop   func()
	*control.Control
}

// start starts an instance with the tasks of a file.
func (m *machine) start(tasks []config.Task, change ...func(*process)) *instance {
	m.t.Helper()
	ctx, cancel := context.WithCancel(m.t.Context())
	p := m.process(ctx, tasks)
	for _, c := range change {
		c(p)
	}
	i := &instance{machine: m, gates: &gates{c: make(chan struct{}, 1)}, reload: make(chan reconcile.Reload)}
	i.base.Store(p.Config)
	p.runner.Config = i.base.Load
	asked := make(chan struct{}, 1)
	loop := &reconcile.Loop{Reconciler: p.Reconciler, Ended: p.launcher.Ended(), Asked: asked, Reload: i.reload,
		Watch: func(_ context.Context, set consul.GateSet, _ consul.Marks) reconcile.Watch {
			i.gates.mu.Lock()
			defer i.gates.mu.Unlock()
			i.gates.of = set.Keys()
			select {
			case i.gates.c <- struct{}{}:
			default:
			}
			return i.gates
		}}
	i.Control = &control.Control{
		Store: m.store, Now: time.Now, Poll: 5 * time.Millisecond,
		Base: func(context.Context) (*config.Config, error) { return i.base.Load(), nil },
		Wake: func(context.Context) {
			select {
			case asked <- struct{}{}:
			default:
			}
		},
		Plan: func(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error) {
			planner := reconcile.Planner{Store: m.store, Launcher: p.launcher, Config: i.base.Load(), Now: time.Now}
			return planner.Plan(ctx, task, draft, "a test")
		},
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = loop.Run(ctx)
		p.launcher.Wait()
	}()
	i.stop = func() { cancel(); <-ended }
	m.t.Cleanup(i.stop)
	return i
}

// change changes what every condition shows.
func (i *instance) change(digest string) {
	i.mu.Lock()
	i.digest = digest
	i.mu.Unlock()
	i.gates.n.Add(1)
	i.gates.c <- struct{}{}
}

// runs is how often a task was applied.
func (m *machine) runs(task string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, name := range m.applied {
		if name == task {
			n++
		}
	}
	return n
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if so() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

// stays checks for a while that something is so. What it is to find happens
// within milliseconds where the rule is broken.
func stays(t *testing.T, what string, so func() bool) {
	t.Helper()
	for range 40 {
		if !so() {
			t.Fatalf("not so any more: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (i *instance) reason(task string) state.ReasonCode {
	i.t.Helper()
	record, err := state.Read[state.Task](i.t.Context(), i.Store, state.TaskKey(task))
	if err != nil {
		i.t.Fatal(err)
	}
	return record.Data.Reason.Code
}

const api = `{"name":"api","module":"./api","condition":{"services":{"names":["api"]}}}`

func names(t *testing.T, c *control.Control) []string {
	t.Helper()
	e, err := c.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, task := range e.Config.Tasks {
		name := task.Name
		if !task.Enabled {
			name += " (disabled)"
		}
		all = append(all, name)
	}
	return all
}

func TestLoop_InvalidFilesAreRefusedAndReported(t *testing.T) {
	m := newMachine(t)
	i := m.start(tasks("web"))
	eventually(t, "web ran", func() bool { return m.runs("web") == 1 && i.reason("web") == state.ReasonUnchanged })
	refused := func() string {
		rec, err := state.Read[state.Reconcile](t.Context(), i.Store, state.ReconcileKey)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Data.Refused == nil {
			return ""
		}
		return rec.Data.Refused.Error
	}
	i.reload <- reconcile.Reload{Wrong: errors.New("f.hcl:1: not valid HCL")}
	eventually(t, "it is reported", func() bool { return refused() == "f.hcl:1: not valid HCL" })
	i.change("B")
	eventually(t, "web ran", func() bool { return m.runs("web") == 2 })
	i.base.Store(&config.Config{KeepRemoved: month, Tasks: tasks("web", "db")})
	i.reload <- reconcile.Reload{Config: i.base.Load()}
	eventually(t, "db ran", func() bool { return m.runs("db") == 1 })
	eventually(t, "nothing is reported", func() bool { return refused() == "" })
	stays(t, "web has no reason to run", func() bool { return m.runs("web") == 2 })
}

func TestLoop_StandbyTakesOverWithTheLatestFiles(t *testing.T) {
	m := newMachine(t)
	leader := m.start(tasks("web"))
	eventually(t, "web ran", func() bool { return m.runs("web") == 1 && leader.reason("web") == state.ReasonUnchanged })
	follower := m.start(tasks("web"))
	follower.base.Store(&config.Config{KeepRemoved: month, Tasks: tasks("web", "db")})
	follower.reload <- reconcile.Reload{Config: follower.base.Load()}
	leader.stop()
	eventually(t, "db ran", func() bool { return m.runs("db") == 1 })
}
