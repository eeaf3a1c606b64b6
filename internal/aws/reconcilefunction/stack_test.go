package reconcilefunction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/inforce"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// stack is the environment of a function's process; tests can start several processes on it.
type stack struct {
	supposer *runner.Supposer // of the function's runs; may be nil
	t        *testing.T
	store    state.Store
	out      testtools.Output // metrics
	seen     int              // bytes of out that measured has read

	mu      sync.Mutex
	pointer string
	bucket  error                     // error of reading the pointer
	objects error                     // error of reading bundles
	configs map[string]*config.Config // by digest of the bundle
	wrong   map[string]string
	reads   int // reads of the pointer
	digest  string
	gone    error
	started []state.Launch
	refuse  error
	running bool
}

func newStack(t *testing.T, names ...string) *stack {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	s := &stack{t: t, store: summary.Keep(store), digest: "A", running: true, configs: map[string]*config.Config{}, wrong: map[string]string{}}
	if len(names) > 0 {
		s.push("b1", names...)
	}
	return s
}

// push creates a bundle of these tasks, and moves the pointer to it.
func (s *stack) push(digest string, names ...string) {
	cfg := &config.Config{}
	for _, name := range names {
		cfg.Tasks = append(cfg.Tasks, config.Task{Name: name, Enabled: true,
			Condition: config.Condition{Spec: condition.Services{{Names: []string{"web"}}}}})
	}
	s.configs[digest], s.pointer = cfg, digest
}

func (s *stack) Current(context.Context) (bundle.Pointer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return bundle.Pointer{Digest: s.pointer}, s.bucket
}

func (s *stack) Load(_ context.Context, digest string) (*config.Config, error) {
	if s.objects != nil {
		return nil, s.objects
	}
	if why, ok := s.wrong[digest]; ok {
		return nil, &bundle.InvalidError{Err: errors.New(why)}
	}
	cfg, ok := s.configs[digest]
	if !ok {
		return nil, fmt.Errorf("no bundle %s", digest)
	}
	return cfg, nil
}

func (s *stack) Leader(context.Context) error { return s.gone }

func (*stack) Identify(context.Context, string) (state.Identity, error) { return state.Identity{}, nil }

func (s *stack) Observe(_ context.Context, queries []consul.Query) []consul.Answer {
	answers := make([]consul.Answer, len(queries))
	for i := range answers {
		answers[i].Digest, answers[i].Elements, answers[i].Err = s.digest, map[string]string{s.digest: "1"}, s.gone
	}
	return answers
}

func (s *stack) Poll(_ context.Context, gates consul.GateSet) (consul.Marks, error) {
	marks := consul.Marks{}
	for _, key := range gates.Keys() {
		marks[key] = s.digest
	}
	return marks, s.gone
}

type still struct {
	*stack
	gates consul.GateSet
}

func (s still) C() <-chan struct{}           { return nil }
func (s still) Marks() (consul.Marks, error) { return s.Poll(context.Background(), s.gates) }

func (s *stack) Watch(_ context.Context, gates consul.GateSet, _ consul.Marks) reconcile.Watch {
	return still{s, gates}
}

func (s *stack) Start(_ context.Context, launch state.Launch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	s.started = append(s.started, launch)
	return nil
}

func (s *stack) Status(_ context.Context, ids []string) (map[string]reconcile.LaunchStatus, error) {
	statuses := map[string]reconcile.LaunchStatus{}
	for _, id := range ids {
		statuses[id] = reconcile.LaunchStatus{Running: s.running}
	}
	return statuses, nil
}

// process starts a process of the function.
func (s *stack) process() *Handler {
	return &Handler{
		store: s.store, launcher: &launcher{containers: s, store: s.store, load: s.Load}, bundles: &inforce.Follower{Source: s, Store: s.store, Now: time.Now}, keep: func(string) {}, now: time.Now,
		engine: engine{
			common: reconcile.Reconciler{Store: s.store, Source: new(overlay.Source), Owner: lease.NewOwner(), LeaseTTL: leaseTTL, Skew: skew, MaxLaunches: 40, Said: new(outbox.Said)},
			notify: sinks(nil, nil), connect: func(context.Context, config.Consul) (consulClient, error) { return s, nil },
		},
		log: slog.New(slog.DiscardHandler), metrics: metrics.New(&s.out, "test"),
	}
}

// changed returns a process whose tasks were applied, and whose conditions show something new.
func (s *stack) changed() *Handler {
	s.t.Helper()
	h := s.process()
	s.must(h, schedule)
	s.end(state.RunSucceeded)
	s.digest = "B"
	return h
}

// applied writes the records of tasks that were applied with what Consul shows.
func (s *stack) applied(cfg *config.Config) {
	s.t.Helper()
	now := time.Now()
	for i := range cfg.Tasks {
		task := &cfg.Tasks[i]
		rec, err := state.Read[state.Task](s.t.Context(), s.store, state.TaskKey(task.Name))
		if err == nil {
			_, err = s.store.Apply(s.t.Context(), rec.Write(state.Task{Applied: state.Applied{Definition: task.Digest(cfg), Digest: s.digest, At: now}, Observed: state.Observed{Digest: s.digest, At: now}, Naming: state.Naming{Shape: task.Shape(cfg)}}))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// invoke invokes the process with a time limit of a minute.
func (s *stack) invoke(h *Handler, payload string) (invoke.Answer, error) {
	return s.within(time.Minute, h, payload)
}

// within invokes the function with a time limit.
func (s *stack) within(limit time.Duration, h *Handler, payload string) (invoke.Answer, error) {
	ctx, stop := context.WithTimeout(s.t.Context(), limit)
	defer stop()
	return h.Handle(ctx, json.RawMessage(payload))
}

func (s *stack) must(h *Handler, payload string) invoke.Answer {
	s.t.Helper()
	answer, err := s.invoke(h, payload)
	if err != nil {
		s.t.Fatalf("%s: %v", payload, err)
	}
	return answer
}

// end ends every run under way, as a container would.
func (s *stack) end(outcome state.RunState) {
	s.t.Helper()
	all, err := state.ReadAll[state.Task](s.t.Context(), s.store, state.TaskPrefix)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, task := range all {
		if task.Data.Run == nil {
			continue
		}
		name := state.TaskName(task.Key)
		run, err := state.Read[state.Run](s.t.Context(), s.store, state.RunKey(name, task.Data.Run.ID))
		if err != nil {
			s.t.Fatal(err)
		}
		run.Data.State, run.Data.Ended, run.Data.Digest = outcome, time.Now(), s.digest
		cfg := s.configs[s.pointer]
		def, _ := cfg.Task(name)
		next, _ := task.Data.Conclude(run.Data, def.Digest(cfg))
		if _, err := s.store.Apply(s.t.Context(), run.Write(run.Data), task.Write(next)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// leads has another process lead for a while.
func (s *stack) leads(owner string, d time.Duration) {
	s.t.Helper()
	held, err := lease.Acquire(s.t.Context(), s.store, state.LeaderLease, owner, lease.Options{TTL: leaseTTL})
	if err != nil {
		s.t.Fatal(err)
	}
	time.AfterFunc(d, func() { held.Release(context.WithoutCancel(s.t.Context())) })
}

func (s *stack) record() state.Reconcile {
	s.t.Helper()
	rec, err := state.Read[state.Reconcile](s.t.Context(), s.store, state.ReconcileKey)
	if err != nil {
		s.t.Fatal(err)
	}
	return rec.Data
}

// measured adds up the written values of each metric.
func (s *stack) measured() map[string]float64 {
	sum := map[string]float64{}
	all := s.out.String()
	for line := range strings.Lines(all[s.seen:]) {
		var values map[string]any
		if err := json.Unmarshal([]byte(line), &values); err != nil {
			s.t.Fatal(err)
		}
		for name, v := range values {
			if n, ok := v.(float64); ok {
				sum[name] += n
			}
		}
	}
	s.seen = len(all)
	return sum
}

const schedule = `{"mode":"reconcile"}`
