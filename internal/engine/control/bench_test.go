package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// made is the definition of a task that is created through the API.
	made = `{"name":"made","module":"./made","condition":{"services":{"names":["web"]}}}`

	keptRemoved  = 30 * 24 * time.Hour // keep_removed
	liveCheck    = 10 * time.Second    // between two checks of the runs under way
	removalLasts = 30 * time.Second    // until a task that is missing counts as removed
)

// noon lies in the future: the store removes what expired by the real clock.
var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

// bench is a leader that acts on what people request: it ticks when a test says so, and tests end
// its runs.
type bench struct {
	*reconcile.Reconciler
	t        *testing.T
	launcher *launcher
	store    state.Store
	now      time.Time
}

func newBench(t *testing.T, tasks ...config.Task) *bench {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	b := &bench{t: t, launcher: &launcher{}, store: summary.Keep(store), now: noon}
	b.restart(tasks...)
	return b
}

// restart replaces the leader by one with these tasks in its files.
func (b *bench) restart(tasks ...config.Task) {
	b.Reconciler = &reconcile.Reconciler{
		Config: &config.Config{Tasks: tasks, KeepRemoved: keptRemoved}, Store: b.store, Consul: catalog{}, Launcher: b.launcher,
		Owner: lease.NewOwner(), LeaseTTL: 10 * time.Second, Now: func() time.Time { return b.now }, Log: slog.New(slog.DiscardHandler),
	}
}

// people returns what people request runs and changes with.
func (b *bench) people() *control.Control {
	return &control.Control{Store: b.store, Now: func() time.Time { return b.now }, Poll: time.Millisecond,
		Base: func(context.Context) (*config.Config, error) { return b.Config, nil }}
}

// tasks are n tasks that watch the service web.
func tasks(n int) []config.Task {
	all := make([]config.Task, n)
	for i := range all {
		all[i] = config.Task{Name: fmt.Sprintf("task-%d", i), Enabled: true, Condition: config.Condition{Spec: condition.Services{{Names: []string{"web"}}}}}
	}
	return all
}

func (b *bench) tick() reconcile.Report {
	b.t.Helper()
	report, err := b.Tick(b.t.Context(), reconcile.TickOptions{})
	b.must(err)
	return report
}

// removed ticks until a task that is missing in the configuration counts as removed.
func (b *bench) removed() {
	b.t.Helper()
	b.tick()
	b.now = b.now.Add(removalLasts)
	b.tick()
}

// end ends every run that is under way with success, as a runner would.
func (b *bench) end() {
	b.t.Helper()
	all, err := state.ReadAll[state.Task](b.t.Context(), b.store, state.TaskPrefix)
	b.must(err)
	effective, err := b.people().Config(b.t.Context())
	b.must(err)
	for _, task := range all {
		if task.Data.Run == nil {
			continue
		}
		name := state.TaskName(task.Key)
		run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey(name, task.Data.Run.ID))
		b.must(err)
		run.Data.State, run.Data.Ended, run.Data.Digest = state.RunSucceeded, b.now, shown
		definition := ""
		if t, ok := effective.Config.Task(name); ok {
			definition = t.Digest(effective.Config)
		}
		next, _ := task.Data.Conclude(run.Data, definition)
		b.must(b.store.Apply(b.t.Context(), run.Write(run.Data), task.Write(next)))
	}
}

// settle has everything run and applied.
func (b *bench) settle() {
	b.t.Helper()
	b.tick()
	b.end()
	b.now = b.now.Add(liveCheck)
	b.tick()
}

func (b *bench) task(name string) state.Task {
	b.t.Helper()
	task, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey(name))
	b.must(err)
	return task.Data
}

func (b *bench) override(task string) state.Stored[state.Override] {
	b.t.Helper()
	o, err := state.Read[state.Override](b.t.Context(), b.store, state.OverrideKey(task))
	b.must(err)
	return o
}

// must fails the test for an error; what else a call returns is of no interest.
func (b *bench) must(results ...any) {
	b.t.Helper()
	if err, ok := results[len(results)-1].(error); ok && err != nil {
		b.t.Fatal(err)
	}
}

// shown is the digest of what every condition shows.
const shown = "A"

// catalog is a Consul in which nothing changes.
type catalog struct{}

func (catalog) Observe(_ context.Context, queries []consul.Query) []consul.Answer {
	answers := make([]consul.Answer, len(queries))
	for i := range answers {
		answers[i].Digest, answers[i].Elements = shown, map[string]string{shown: "1"}
	}
	return answers
}

func (catalog) Identify(context.Context, string) (state.Identity, error) {
	return state.Identity{}, nil
}

func (catalog) Poll(_ context.Context, gates consul.GateSet) (consul.Marks, error) {
	marks := consul.Marks{}
	for _, key := range gates.Keys() {
		marks[key] = shown
	}
	return marks, nil
}

// launcher counts the runs that it starts, by task. They are under way until end.
type launcher struct {
	mu    sync.Mutex // a tick starts several launches at a time
	begun map[string]int
}

func (l *launcher) Start(_ context.Context, launch state.Launch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun == nil {
		l.begun = map[string]int{}
	}
	for _, run := range launch.Runs {
		l.begun[run.Task]++
	}
	return nil
}

func (*launcher) Status(_ context.Context, ids []string) (map[string]reconcile.LaunchStatus, error) {
	statuses := map[string]reconcile.LaunchStatus{}
	for _, id := range ids {
		statuses[id] = reconcile.LaunchStatus{Running: true}
	}
	return statuses, nil
}
