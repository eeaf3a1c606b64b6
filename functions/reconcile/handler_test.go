package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/bundle"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/inforce"
	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/metrics"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/sqlite"
)

// stack is the environment of a function's process; tests can start several processes on it.
type stack struct {
	t     *testing.T
	store state.Store
	out   bytes.Buffer // metrics

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
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := &stack{t: t, store: store, digest: "A", running: true, configs: map[string]*config.Config{}, wrong: map[string]string{}}
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
func (s *stack) process() *handler {
	return &handler{
		store: s.store, launcher: s, bundles: &inforce.Follower{Source: s, Store: s.store, Now: time.Now}, owner: lease.NewOwner(), maxLaunches: 40, now: time.Now,
		connect: func(context.Context, config.Consul) (consulClient, error) { return s, nil },
		log:     slog.New(slog.DiscardHandler), metrics: metrics.New(&s.out, "test"),
	}
}

// invoke invokes the process with a time limit of a minute.
func (s *stack) invoke(h *handler, payload string) (invoke.Answer, error) {
	ctx, stop := context.WithTimeout(s.t.Context(), time.Minute)
	defer stop()
	return h.handle(ctx, json.RawMessage(payload))
}

func (s *stack) must(h *handler, payload string) invoke.Answer {
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
	for line := range strings.Lines(s.out.String()) {
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
	s.out.Reset()
	return sum
}

const schedule = `{"mode":"reconcile"}`

func TestReconcile_RunsOnlyWhatChanged(t *testing.T) {
	s := newStack(t, "web", "api")
	h := s.process()
	answer := s.must(h, schedule)
	if len(answer.Launches) != 1 || len(answer.Runs) != 2 || len(answer.Decisions) != 2 || answer.Bundle != "b1" {
		t.Fatalf("%+v", answer)
	}
	if d := answer.Decisions[0]; d.Task != "web" || !d.Run || d.Reason.Code != state.ReasonFirst {
		t.Errorf("%+v", d)
	}
	s.end(state.RunSucceeded)
	s.must(h, `{"mode":"reconcile","ended":true}`)
	s.measured()
	reads := s.reads
	if answer := s.must(h, schedule); !answer.Idle || len(answer.Launches) != 0 {
		t.Errorf("%+v", answer)
	}
	if s.reads != reads {
		t.Error("an idle tick reads the bundle's pointer")
	}
	want := map[string]float64{"Ticks": 1, "IdleTicks": 1, "GoodTicks": 1, "LastGoodTickAge": 0, "FailuresInARow": 0}
	if got := s.measured(); !maps.Equal(got, want) {
		t.Errorf("measured %v", got)
	}
	s.digest = "B"
	if answer := s.must(h, schedule); len(answer.Runs) != 2 || answer.Decisions[0].Reason.Code != state.ReasonChanged {
		t.Errorf("%+v", answer)
	}
	if got := s.measured(); got["ChangesSeen"] != 2 {
		t.Errorf("measured %v", got)
	}
}

func TestHandle_LogLinesNameTheirTick(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	var log bytes.Buffer
	h.log = slog.New(slog.NewJSONHandler(&log, nil))
	for _, id := range []string{"request-1", "request-2"} {
		log.Reset()
		s.digest = id
		ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: id})
		if _, err := h.handle(ctx, json.RawMessage(schedule)); err != nil {
			t.Fatal(err)
		}
		decided := false
		for line := range strings.Lines(log.String()) {
			decided = decided || strings.Contains(line, "run decided")
			if !strings.Contains(line, `"tick":"`+id+`"`) {
				t.Errorf("no tick %s in %s", id, line)
			}
		}
		if !decided {
			t.Errorf("nothing was decided in %s:\n%s", id, log.String())
		}
		s.end(state.RunSucceeded)
	}
}

func TestReconcile_NewBundleIsInForceInEveryProcess(t *testing.T) {
	s := newStack(t, "web")
	first, second := s.process(), s.process()
	s.must(first, schedule)
	s.must(second, schedule)
	s.push("b2", "web", "db")
	event := `{"version":"0","source":"aws.s3","detail-type":"Object Created","detail":{"bucket":{"name":"b"},"object":{"key":"p/current"}}}`
	if answer := s.must(first, event); answer.Bundle != "b2" || len(answer.Runs) != 1 || answer.Runs[0].Task != "db" {
		t.Fatalf("told of it: %+v", answer)
	}
	if s.started[1].Bundle != "b2" {
		t.Errorf("launched with bundle %s", s.started[1].Bundle)
	}
	if answer := s.must(second, schedule); answer.Bundle != "b2" {
		t.Errorf("not told of it: %+v", answer)
	}
	if got := s.record().Bundle; got != "b2" {
		t.Errorf("in force: %s", got)
	}
}

func TestReconcile_FindsANewBundleWithoutAnEvent(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	s.must(h, schedule)
	s.push("b2", "db")
	h.bundles.Now = func() time.Time { return time.Now().Add(5 * time.Minute) }
	answer := s.must(h, schedule)
	if answer.Bundle != "b2" {
		t.Fatalf("%+v", answer)
	}
	for _, d := range answer.Decisions {
		if d.Task == "web" && d.Reason.Code != state.ReasonRunning && d.Reason.Code != state.ReasonRemoved {
			t.Errorf("a task that is gone: %+v", d)
		}
	}
}

func TestReconcile_InvalidBundleIsNeverInForce(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	s.must(h, schedule)
	s.end(state.RunSucceeded)
	s.pointer, s.wrong["b2"] = "b2", "web.yaml:3: task \"web\" has no module"
	s.measured()
	for name, p := range map[string]*handler{"warm": h, "cold": s.process()} {
		answer := s.must(p, `{"mode":"reconcile","refresh":true}`)
		if answer.Bundle != "b1" || !strings.Contains(answer.Problem, "web.yaml:3") {
			t.Errorf("%s: %+v", name, answer)
		}
		if rec := s.record(); rec.Bundle != "b1" || rec.Refused == nil || rec.Refused.Bundle != "b2" {
			t.Errorf("%s: the record says %+v", name, rec)
		}
		if got := s.measured()["BundleRefused"]; got != 1 {
			t.Errorf("%s: measured %v", name, got)
		}
	}
	s.digest = "B" // the last good bundle goes on working
	if answer := s.must(h, schedule); len(answer.Runs) != 1 {
		t.Errorf("%+v", answer)
	}
	delete(s.wrong, "b2") // what was damaged was put right in its place
	s.push("b2", "web")
	if answer := s.must(h, `{"mode":"reconcile","refresh":true}`); answer.Bundle != "b2" || answer.Problem != "" {
		t.Errorf("pushed again: %+v", answer)
	}
	s.push("b3", "web", "db")
	if answer := s.must(h, `{"mode":"reconcile","refresh":true}`); answer.Bundle != "b3" || answer.Problem != "" || s.record().Refused != nil {
		t.Errorf("put right: %+v, %+v", answer, s.record())
	}
}

func TestReconcile_WithoutAValidBundle(t *testing.T) {
	s := newStack(t)
	if _, err := s.invoke(s.process(), schedule); err == nil || !strings.Contains(err.Error(), "terrapulse bundle push") {
		t.Errorf("nothing was pushed: %v", err)
	}
	s.pointer, s.wrong["b1"] = "b1", "web.yaml:3: nonsense"
	if _, err := s.invoke(s.process(), schedule); err == nil || !strings.Contains(err.Error(), "web.yaml:3: nonsense") {
		t.Errorf("the first is wrong: %v", err)
	}
	if rec := s.record(); rec.Refused == nil || rec.Refused.Bundle != "b1" {
		t.Errorf("status would not say so: %+v", rec)
	}
	if got := s.measured(); got["BundleRefused"] != 2 || got["GoodTicks"] != 0 {
		t.Errorf("measured %v", got)
	}
}

func TestReconcile_ContinuesWithoutTheBucket(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	s.must(h, schedule)
	s.bucket = errors.New("access denied")
	s.digest = "B"
	s.end(state.RunSucceeded)
	if answer := s.must(h, `{"mode":"reconcile","refresh":true}`); len(answer.Decisions) != 1 {
		t.Errorf("%+v", answer)
	}
	s.objects = s.bucket
	if _, err := s.invoke(s.process(), schedule); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("a process that has never read it: %v", err)
	}
}

// Two warm processes, one of which has read only the previous bundle.
func TestReconcile_OlderBundleDoesNotReplaceANewerOne(t *testing.T) {
	s := newStack(t, "web", "old")
	first, second := s.process(), s.process()
	s.must(first, schedule)
	s.must(second, schedule)
	s.end(state.RunSucceeded)
	s.must(first, `{"mode":"reconcile","ended":true}`)
	s.push("b2", "web")
	s.configs["b2"].Tasks[0].Module = "./other"
	s.must(first, `{"mode":"reconcile","refresh":true}`)
	s.end(state.RunSucceeded)
	s.must(first, `{"mode":"reconcile","ended":true}`)
	launches := len(s.started)

	s.bucket = errors.New("SlowDown")
	for n := range 4 {
		answer := s.must([]*handler{second, first}[n%2], schedule)
		if answer.Bundle != "b2" || s.record().Bundle != "b2" {
			t.Errorf("tick %d works with bundle %s, and %s is in force", n, answer.Bundle, s.record().Bundle)
		}
		if n == 0 && !strings.Contains(answer.Problem, "SlowDown") {
			t.Errorf("the answer does not say why the pointer was not read: %+v", answer)
		}
	}
	if len(s.started) != launches {
		t.Errorf("launched %+v", s.started[launches:])
	}

	s.push("b3", "web")
	third := s.process() // reads the pointer to b3, but cannot read that bundle
	s.bucket, s.objects = nil, errors.New("SlowDown")
	if _, err := s.invoke(third, schedule); err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("a process that can read no bundle: %v", err)
	}
	if answer := s.must(first, `{"mode":"reconcile","refresh":true}`); answer.Bundle != "b2" {
		t.Errorf("a warm process works with %+v", answer)
	}
	s.objects = nil
	if answer := s.must(first, `{"mode":"reconcile","refresh":true}`); answer.Bundle != "b3" || answer.Problem != "" || s.record().Bundle != "b3" {
		t.Errorf("the bucket answers again: %+v", answer)
	}
}

func TestReconcile_ContinuesWithoutThePointer(t *testing.T) {
	s := newStack(t, "web")
	warm := s.process()
	s.must(warm, schedule)
	s.end(state.RunSucceeded)
	s.pointer = ""
	for name, h := range map[string]*handler{"warm": warm, "cold": s.process()} {
		s.digest = name
		s.measured()
		answer := s.must(h, `{"mode":"reconcile","refresh":true}`)
		if len(answer.Runs) != 1 || answer.Bundle != "b1" || !strings.Contains(answer.Problem, "pointer to the current bundle is gone") {
			t.Errorf("%s: %+v", name, answer)
		}
		if rec := s.record(); rec.Bundle != "b1" || rec.Refused == nil || !strings.Contains(rec.Refused.Error, "terrapulse bundle push") {
			t.Errorf("%s: the record says %+v", name, rec)
		}
		if got := s.measured(); got["BundleRefused"] != 1 || got["GoodTicks"] != 1 {
			t.Errorf("%s: measured %v", name, got)
		}
		for _, c := range s.must(h, `{"mode":"doctor"}`).Checks {
			if c.Name == "bundle" && (c.OK || !strings.Contains(c.Found, "b1 stays in force")) {
				t.Errorf("%s: %+v", name, c)
			}
		}
		s.pointer = "b1"
		s.end(state.RunSucceeded)
		s.pointer = ""
	}
	s.pointer = "b1"
	if answer := s.must(warm, `{"mode":"reconcile","refresh":true}`); answer.Problem != "" || s.record().Refused != nil {
		t.Errorf("the pointer is back: %+v, %+v", answer, s.record())
	}
}

func TestReconcile_OneOfTwoInvocationsLeads(t *testing.T) {
	s := newStack(t, "web")
	held, err := lease.Acquire(t.Context(), s.store, state.LeaderLease, "another", lease.Options{TTL: leaseTTL})
	if err != nil {
		t.Fatal(err)
	}
	answer := s.must(s.process(), schedule)
	if !strings.Contains(answer.Skipped, "another") || len(s.started) != 0 {
		t.Errorf("%+v", answer)
	}
	got := s.measured()
	if got["LeaseRefused"] != 1 || got["GoodTicks"] != 0 {
		t.Errorf("measured %v", got)
	}
	if n, ok := got["FailuresInARow"]; ok {
		t.Errorf("a tick that has read no task measured %v failures: the alarm would be over", n)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.must(s.process(), schedule)
	if len(s.started) != 1 {
		t.Errorf("%d launches", len(s.started))
	}
}

func TestOnce_RunsTheRequestedTasksAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web", "api", "db")
		h := s.process()
		s.must(h, schedule)
		s.end(state.RunSucceeded)
		time.Sleep(time.Minute)
		s.must(h, schedule)
		held, err := lease.Acquire(t.Context(), s.store, state.LeaderLease, "a tick on its way", lease.Options{TTL: leaseTTL})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(2 * time.Second)
			held.Release(t.Context())
			time.Sleep(5 * time.Second)
			s.end(state.RunSucceeded)
		}()
		answer := s.must(h, `{"mode":"once","tasks":["db","web"],"wait":true}`)
		if len(answer.Runs) != 2 {
			t.Fatalf("%+v", answer)
		}
		for _, run := range answer.Runs {
			if run.State != state.RunSucceeded || run.Ended == nil || run.Task == "api" {
				t.Errorf("%+v", run)
			}
		}
	})
}

func TestOnce_WaitEndsBeforeTheInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		began := time.Now()
		answer := s.must(s.process(), `{"mode":"once","wait":true}`)
		if took := time.Since(began); took > time.Minute-reserve || took < 30*time.Second {
			t.Errorf("it took %s", took)
		}
		if len(answer.Runs) != 1 || answer.Runs[0].State != state.RunIntended {
			t.Errorf("%+v", answer)
		}
	})
}

func TestOnce_WithoutTimeLeftStartsNoLaunch(t *testing.T) {
	s := newStack(t, "web")
	ctx, stop := context.WithTimeout(t.Context(), launchReserve-time.Second)
	defer stop()
	answer, err := s.process().handle(ctx, json.RawMessage(schedule))
	if err != nil || len(answer.Launches) != 0 || len(answer.Decisions) != 1 {
		t.Fatalf("%+v, %v", answer, err)
	}
	if answer := s.must(s.process(), schedule); len(answer.Launches) != 1 {
		t.Errorf("the next one: %+v", answer)
	}
}

func TestInspect_DoesNotChangeTheTasks(t *testing.T) {
	s := newStack(t, "web", "api")
	h := s.process()
	answer := s.must(h, `{"mode":"inspect"}`)
	if len(answer.Runs) != 2 || len(s.started) != 1 || s.started[0].Kind != state.KindPlan || s.started[0].Bundle != "b1" {
		t.Fatalf("%+v, %+v", answer, s.started)
	}
	tasks, err := state.ReadAll[state.Task](t.Context(), s.store, state.TaskPrefix)
	if err != nil || len(tasks) != 0 {
		t.Errorf("%+v, %v", tasks, err)
	}
}

func TestHandle_RefusesInvalidRequests(t *testing.T) {
	s := newStack(t, "web")
	s.configs["b1"].Tasks = append(s.configs["b1"].Tasks, config.Task{Name: "off"})
	for payload, says := range map[string]string{
		`{"mode":"once","tasks":["nope"]}`:        `task "nope" is not in the bundle b1`,
		`{"mode":"inspect","tasks":["nope"]}`:     `task "nope" is not in the bundle b1`,
		`{"mode":"once","tasks":["off"]}`:         `task "off" is disabled`,
		`{"mode":"explode"}`:                      "is unknown",
		`{"detail-type":"EC2 State Change"}`:      "unknown field",
		`[` + strings.Repeat("1,", 500000) + `1]`: "bytes long",
	} {
		if _, err := s.invoke(s.process(), payload); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v", payload, err)
		}
	}
	if len(s.started) != 0 {
		t.Errorf("launched %+v", s.started)
	}
}

func TestReconcile_ContinuesAfterAnOutageOfConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		h := s.process()
		s.must(h, schedule)
		s.end(state.RunSucceeded)
		time.Sleep(time.Minute)
		s.must(h, schedule)
		s.measured()
		s.gone = errors.New("connection refused")
		for range 15 {
			time.Sleep(time.Minute)
			if answer := s.must(h, schedule); !strings.Contains(answer.Problem, "connection refused") || len(answer.Launches) != 0 {
				t.Fatalf("%+v", answer)
			}
		}
		got := s.measured()
		if got["GoodTicks"] != 0 || got["ConsulErrors"] < 15 || got["LastGoodTickAge"] < 15*60 {
			t.Errorf("measured %v", got)
		}
		if rec := s.record(); !strings.Contains(rec.ConsulError, "connection refused") {
			t.Errorf("status would not say so: %+v", rec)
		}
		s.gone, s.digest = nil, "B"
		time.Sleep(time.Minute)
		if answer := s.must(h, schedule); len(answer.Runs) != 1 || answer.Problem != "" {
			t.Errorf("%+v", answer)
		}
	})
}

func TestReconcile_RetriesALaunchWithoutCapacity(t *testing.T) {
	s := newStack(t, "web")
	s.running = false
	h := s.process()
	s.refuse = errors.New("no capacity")
	answer := s.must(h, schedule)
	if !strings.Contains(answer.Problem, "no capacity") || !strings.Contains(s.record().Stalled, "no capacity") || s.measured()["GoodTicks"] != 0 {
		t.Fatalf("%+v", answer)
	}
	s.refuse = nil
	s.must(h, schedule)
	if len(s.started) != 1 || s.started[0].ID != answer.Launches[0] {
		t.Errorf("started %+v, decided %v", s.started, answer.Launches)
	}
}

func TestReconcile_WindowEndsBeforeTheInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		h := s.process()
		h.window = 50 * time.Second
		began := time.Now()
		answer := s.must(h, `{"mode":"reconcile","window":true}`)
		if took := time.Since(began); took < 40*time.Second || took > time.Minute-reserve {
			t.Errorf("it took %s", took)
		}
		if len(answer.Launches) != 1 {
			t.Errorf("%+v", answer)
		}
	})
}

// Otherwise forty ended containers would be forty invocations that keep polling Consul, and a push
// of a bundle would wait for a minute.
func TestReconcile_OnlyRequestsWithAWindowContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		h := s.process()
		h.window = 50 * time.Second
		for n, payload := range []string{
			`{"mode":"reconcile"}`, `{"mode":"reconcile","ended":true}`, `{"mode":"reconcile","refresh":true}`,
			`{"source":"aws.s3","detail-type":"Object Created","detail":{}}`,
		} {
			began := time.Now()
			if answer := s.must(h, payload); len(answer.Launches) != 1 {
				t.Errorf("%s: %+v", payload, answer)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s took %s", payload, took)
			}
			s.end(state.RunSucceeded)
			s.digest = fmt.Sprint(n)
		}
	})
}

func TestReconcile_WindowUsesANewBundleInForce(t *testing.T) {
	const window = `{"mode":"reconcile","window":true}`
	s := newStack(t, "web")
	h := s.process()
	h.window = time.Nanosecond
	s.must(h, window)
	s.push("b2", "db")
	s.must(s.process(), schedule)
	if answer := s.must(h, window); answer.Bundle != "b2" {
		t.Errorf("%+v", answer)
	}
}

func TestDoctor_ReportsProblemsAndFixes(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	h.checks = []check{{"table", func(context.Context) (string, error) { return "", errors.New("no such table") }, "deploy the stack again"}}
	answer := s.must(h, `{"mode":"doctor"}`)
	found := map[string]invoke.Check{}
	for _, c := range answer.Checks {
		found[c.Name] = c
	}
	if c := found["consul"]; !c.OK || answer.Enabled != "web" {
		t.Errorf("%+v, and %q is to be planned", c, answer.Enabled)
	}
	if c := found["table"]; c.OK || c.Found != "no such table" || c.Fix != "deploy the stack again" {
		t.Errorf("%+v", c)
	}
	s.gone = errors.New("i/o timeout")
	for _, c := range s.must(h, `{"mode":"doctor"}`).Checks {
		if strings.HasPrefix(c.Name, "consul") && (c.OK || c.Fix == "") {
			t.Errorf("%+v", c)
		}
	}
	s.pointer, s.wrong["b2"] = "b2", "bad.yaml:1: nonsense"
	for _, c := range s.must(h, `{"mode":"doctor"}`).Checks {
		if c.Name == "bundle" && (c.OK || !strings.Contains(c.Found, "bad.yaml:1")) {
			t.Errorf("%+v", c)
		}
	}
}

func TestMeasure_UnreadableTasksAreCounted(t *testing.T) {
	if got := measure(reconcile.Report{Unreadable: 2}, time.Now())[metrics.TasksUnreadable]; got != 2 {
		t.Errorf("TasksUnreadable = %g", got)
	}
	if _, written := measure(reconcile.Report{}, time.Now())[metrics.TasksUnreadable]; written {
		t.Error("a metric is written, and paid for, where all tasks can be read")
	}
}

func TestMeasure_WritesStatesOfTasksIfThereAreAny(t *testing.T) {
	now := time.Now()
	got := measure(reconcile.Report{Unreadable: 1, Tasks: state.TaskCounts{Failing: 2, Held: 3}}, now)
	want := metrics.Values{metrics.Ticks: 1, metrics.FailuresInARow: 0, metrics.TasksUnreadable: 1, metrics.TasksFailing: 2, metrics.TasksHeld: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDoctor_EmptyAnswerWithoutRightsIsAProblem(t *testing.T) {
	server := consultest.Start(t, consultest.WithACLs())
	s := newStack(t, "web")
	for token, ok := range map[string]bool{"": false, consultest.ManagementToken: true} {
		reader, err := consul.New(config.Consul{Address: server.Addr(), Token: token})
		if err != nil {
			t.Fatal(err)
		}
		h := s.process()
		h.connect = func(context.Context, config.Consul) (consulClient, error) { return &client{Client: reader}, nil }
		for _, c := range s.must(h, `{"mode":"doctor"}`).Checks {
			if c.Name == "consul rights" && (c.OK != ok || !ok && (!strings.Contains(c.Found, "service:read") || !strings.Contains(c.Fix, "ConsulTokenArn"))) {
				t.Errorf("with a token %v: %+v", ok, c)
			}
		}
	}
}
