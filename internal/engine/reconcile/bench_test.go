package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// catalog is a Consul whose answers a test chooses.
type catalog struct {
	mu     sync.Mutex
	digest string
	err    error
	reads  int

	identity state.Identity
	hidden   error             // why the identity cannot be read
	keys     map[string]string // what queries of keys show
	keysErr  error
	after    func(*catalog) // called after each read, if it is set
	closed   int            // the number of the view that cannot be read, from 1; none if 0
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
		if i+1 == c.closed {
			answers[i].Err = errors.New("permission denied")
		}
		if answers[i].Err == nil {
			answers[i].Digest = c.digest
			answers[i].Elements = map[string]string{c.digest: "1"}
		}
		if strings.HasPrefix(queries[i].ID(), condition.ConsulKVKind.Name) && c.keys != nil {
			answers[i].Err = c.keysErr
			answers[i].Digest, answers[i].Elements = fmt.Sprint(len(c.keys)), c.keys
		}
	}
	if c.after != nil {
		c.after(c)
	}
	return answers
}

// Identify shows a Consul that was never replaced, unless a test says so.
func (c *catalog) Identify(context.Context, string) (state.Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity, c.hidden
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
	maps.DeleteFunc(statuses, func(id string, _ LaunchStatus) bool { return !slices.Contains(ids, id) })
	return statuses, nil
}

// bench is a reconciler with everything around it.
type bench struct {
	*Reconciler
	t        testing.TB
	catalog  *catalog
	launcher *launcher
	store    *statetest.Faulty
	now      time.Time
}

func newBench(t testing.TB, tasks ...config.Task) *bench {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	b := &bench{t: t, catalog: &catalog{digest: "A"}, launcher: &launcher{}, store: &statetest.Faulty{Store: summary.Keep(store)}, now: noon}
	b.Reconciler = b.another(tasks)
	return b
}

// noon lies in the future: the store removes what expired by the real clock.
var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

// Times that package decide has.
const (
	removalLasts = 30 * time.Second // until a task that is missing counts as removed
	pollSoon     = 2 * time.Second  // between the first polls of a remote run
	pollMin      = 6 * time.Second  // between those that follow, at least
	pollMax      = 5 * time.Minute  // between two polls, at most
)

// keptRemoved is the keep_removed of a bench.
const keptRemoved = 30 * 24 * time.Hour

// another returns one more reconciler on the same store, as of another process.
func (b *bench) another(tasks []config.Task) *Reconciler {
	return &Reconciler{
		Config: &config.Config{Tasks: tasks, KeepRemoved: keptRemoved}, Store: b.store, Consul: b.catalog, Launcher: b.launcher,
		Owner: lease.NewOwner(), LeaseTTL: 10 * time.Second, Now: func() time.Time { return b.now },
		Log: slog.New(slog.DiscardHandler),
	}
}

func webTask() *config.Task {
	return &config.Task{Name: "web", Enabled: true,
		Condition:    config.Condition{Spec: condition.Services{{Names: []string{"web"}}}},
		BufferPeriod: config.BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 20 * time.Second}}
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

// removed ticks until a task that is missing in the configuration counts as removed.
func (b *bench) removed() Report {
	b.t.Helper()
	b.tick()
	b.now = b.now.Add(removalLasts)
	return b.tick()
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

// applied ends a task's run with what was observed.
func (b *bench) applied(task state.Stored[state.Task]) {
	b.t.Helper()
	name := state.TaskName(task.Key)
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey(name, task.Data.Run.ID))
	if err != nil {
		b.t.Fatal(err)
	}
	run.Data.State, run.Data.Ended, run.Data.Digest = state.RunSucceeded, b.now, task.Data.Observed.Digest
	def, _ := b.Config.Task(name)
	for {
		next, _ := task.Data.Conclude(run.Data, def.Digest(b.Config))
		_, err := b.store.Apply(b.t.Context(), run.Write(run.Data), task.Write(next))
		conflict := new(state.ConflictError)
		if err == nil {
			return
		}
		if !errors.As(err, &conflict) || conflict.Change.Key != task.Key {
			b.t.Fatal(err)
		}
		task = b.taskRecord(name) // a tick has written it meanwhile
	}
}
