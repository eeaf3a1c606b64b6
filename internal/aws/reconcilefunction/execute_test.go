package reconcilefunction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// remote simulates a driver whose runs go on in another system.
type remote struct {
	driver.Driver
	mu    sync.Mutex
	phase state.RemotePhase // of all remote runs
	steps []string
	polls int
	slow  bool // steps do not end before they are interrupted

	printed func(cfg *config.Config, run state.Run) (string, error)
}

func (r *remote) Output(_ context.Context, cfg *config.Config, run state.Run) (string, error) {
	return r.printed(cfg, run)
}

func (*remote) Reach(context.Context, *config.Config) (string, error) { return "it answers", nil }

func (r *remote) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	before, err := job.Remote.Read(ctx)
	if err != nil {
		return driver.Outcome{}, err
	}
	r.mu.Lock()
	phase := r.phase
	r.steps = append(r.steps, string(phase))
	r.mu.Unlock()
	if r.slow {
		<-ctx.Done()
		return driver.Outcome{}, ctx.Err()
	}
	switch phase {
	case state.RemotePlanning:
		before.Run = state.RemoteRun{ID: "run-1", Version: "cv-1", Phase: phase}
		before.By = job.Run.ID
		if err := job.Remote.Write(ctx, before); err != nil {
			return driver.Outcome{}, err
		}
		return driver.Outcome{}, &driver.WaitError{Wait: state.Wait{For: state.WaitRemotePlan}}
	case state.RemoteReady:
		r.comeTo(state.RemoteApplying)
		return driver.Outcome{}, &driver.WaitError{Wait: state.Wait{For: state.WaitRemote}}
	}
	fmt.Fprintln(job.Output, "Apply complete!")
	return driver.Outcome{Changes: &state.Changes{Add: 1}}, nil
}

func (*remote) Plan(context.Context, driver.Job) (driver.Plan, error) {
	return driver.Plan{Changes: &state.Changes{Add: 1}}, nil
}

func (r *remote) Poll(_ context.Context, _ *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polls++
	found := map[string]state.RemoteStatus{}
	for _, run := range runs {
		found[run.ID] = state.RemoteStatus{Phase: r.phase}
	}
	return found, nil
}

func (r *remote) Await(ctx context.Context, _ *config.Config, waits []state.RemoteWait) map[string]state.RemoteStatus {
	for delay.For(ctx, time.Second) {
		r.mu.Lock()
		phase := r.phase
		r.mu.Unlock()
		if phase != waits[0].Phase {
			return map[string]state.RemoteStatus{waits[0].Run: {Phase: phase}}
		}
	}
	return nil
}

func (*remote) Stop(context.Context, *config.Config, *state.RemoteRun) (bool, error) {
	return false, nil
}

func (r *remote) comeTo(phase state.RemotePhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phase
}

// Snapshot shows what the gates show.
func (s *stack) Snapshot(context.Context, *config.Task) (*consul.Snapshot, error) {
	return &consul.Snapshot{Condition: consul.Observation{Digest: s.digest, Elements: map[string]string{s.digest: "1"}}}, s.gone
}

// elsewhere starts a process whose runs go on in another system.
func (s *stack) elsewhere(r *remote) *Handler {
	for _, cfg := range s.configs {
		cfg.OtherDriver = &config.Cloud{}
	}
	h := s.process()
	h.executor.drivers = map[*remotes.Kind]remotes.Driver{remotes.Kinds[0]: r}
	h.executor.runner = &runner.Runner{Store: s.store, Owner: h.engine.common.Owner, Claim: claimFor, Patience: recordFor, Ended: h.ended, Now: time.Now, Said: h.engine.common.Said}
	h.executor.connect = func(context.Context, config.Consul) (runner.Consul, *runner.Supposer, error) {
		return s, s.supposer, nil
	}
	return h
}

func (s *stack) run(task string) state.Run {
	s.t.Helper()
	runs, err := state.ReadAll[state.Run](s.t.Context(), s.store, state.RunPrefix(task))
	if err != nil || len(runs) == 0 {
		s.t.Fatal(len(runs), err)
	}
	return runs[len(runs)-1].Data
}

// due makes the next tick poll remote runs.
const due = `{"mode":"reconcile","ended":true}`

func TestExecute_RunsOfHCPTerraformNeedNoContainer(t *testing.T) {
	s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning}
	h := s.elsewhere(r)
	for _, step := range []struct {
		phase state.RemotePhase
		want  state.RunState
		waits state.WaitFor
	}{
		{state.RemotePlanning, state.RunWaiting, state.WaitRemotePlan},
		{state.RemotePlanning, state.RunWaiting, state.WaitRemotePlan}, // nothing new
		{state.RemoteReady, state.RunWaiting, state.WaitRemote},
		{state.RemoteEnded, state.RunSucceeded, ""},
	} {
		r.comeTo(step.phase)
		s.must(h, due)
		run := s.run("web")
		if run.State != step.want || step.waits != "" && run.Wait.For != step.waits {
			t.Fatalf("%s: %s %+v %s", step.phase, run.State, run.Wait, run.Error)
		}
	}
	if len(r.steps) != 3 || len(s.started) != 0 {
		t.Errorf("steps %q, %d containers", r.steps, len(s.started))
	}
	if got := s.measured(); got["RunsSucceeded"] != 1 {
		t.Errorf("measured %v", got)
	}
	polls := r.polls
	if answer := s.must(h, schedule); !answer.Idle || r.polls != polls {
		t.Errorf("a tick without remote runs polls: %+v", answer)
	}
}

func TestExecute_NextInvocationContinuesAnInterruptedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning, slow: true}
		h := s.elsewhere(r)
		began := time.Now()
		s.must(h, schedule) // has a minute
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the invocation took %s", took)
		}
		if run := s.run("web"); run.State != state.RunInterrupted {
			t.Errorf("%s %s", run.State, run.Error)
		}
		r.slow = false
		s.must(s.elsewhere(r), schedule)
		if run := s.run("web"); run.State != state.RunWaiting || run.Wait.For != state.WaitRemotePlan {
			t.Errorf("%s %s", run.State, run.Error)
		}
	})
}

// silent is an S3 that does not answer.
type silent struct{}

func (silent) Save(ctx context.Context, _, _ string, _ []byte, _ time.Time) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestExecute_OutcomeIsRecordedInTheInvocationThoughS3DoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning, slow: true}
		var log testtools.Output
		h := s.elsewhere(r)
		h.executor.runner.Logs, h.log = silent{}, slog.New(slog.NewTextHandler(&log, nil))
		began := time.Now()
		s.must(h, schedule) // has a minute
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the invocation took %s", took)
		}
		if run := s.run("web"); run.State != state.RunInterrupted || run.Output != (state.Kept{}) {
			t.Errorf("%s %s, with the output %+v", run.State, run.Error, run.Output)
		}
		if !strings.Contains(log.String(), "the output of a run was not kept") {
			t.Errorf("it logs\n%s", &log)
		}
	})
}

func TestInspect_StartsALaunchThatTheAPIHasWritten(t *testing.T) {
	s, r := newStack(t, "web"), &remote{}
	h := s.elsewhere(r)
	planner := reconcile.Planner{Store: s.store, Launcher: s, Config: s.configs["b1"], Source: new(overlay.Source), Bundle: "b1", Now: time.Now}
	planned, err := planner.Plan(t.Context(), "web", nil, "Ann")
	if err != nil {
		t.Fatal(err)
	}
	s.must(h, fmt.Sprintf(`{"mode":"inspect","launch":%q}`, s.started[0].ID))
	run, err := state.Read[state.Run](t.Context(), s.store, state.RunKey("web", planned.ID))
	if err != nil || run.Data.State != state.RunSucceeded || run.Data.Changes.Add != 1 {
		t.Errorf("%s %s (%v)", run.Data.State, run.Data.Error, err)
	}
	if _, err := s.invoke(h, `{"mode":"inspect","launch":"another"}`); err == nil || !strings.Contains(err.Error(), "no launch of plans") {
		t.Error(err)
	}
}

func TestExecute_LaunchOfABundleWithTerraformGetsAContainer(t *testing.T) {
	s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning}
	s.push("b2", "web")
	h := s.elsewhere(r)
	s.configs["b1"] = &config.Config{Tasks: s.configs["b2"].Tasks}
	l := h.launcher
	if err := l.Start(t.Context(), state.Launch{ID: "l1", Bundle: "b1"}); err != nil || len(s.started) != 1 {
		t.Fatal(len(s.started), err)
	}
	s.objects = errors.New("the bucket is gone")
	if err := l.Start(t.Context(), state.Launch{ID: "l2", Bundle: "b2"}); err == nil {
		t.Error("a launch was started although it is not known where")
	}
}

func TestExecute_LaunchOfAnotherInvocationIsNotLost(t *testing.T) {
	s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning, slow: true}
	s.running = false // containers
	other := &remote{phase: state.RemotePlanning}
	h, second := s.elsewhere(r), s.elsewhere(other)
	done := make(chan struct{})
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	go func() {
		defer close(done)
		_, _ = h.Handle(ctx, []byte(schedule))
	}()
	for {
		runs, err := state.ReadAll[state.Run](t.Context(), s.store, state.RunPrefix("web"))
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) == 1 && runs[0].Data.State == state.RunRunning {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.must(second, due)
	if run := s.run("web"); run.State != state.RunRunning || len(other.steps) != 0 {
		t.Errorf("%s %s, %d steps of the other invocation", run.State, run.Error, len(other.steps))
	}
	stop() // as if the first invocation's time were over
	<-done
}

func TestOutput_OfARunThatGoesOnInHCPTerraform(t *testing.T) {
	s, r := newStack(t, "web"), &remote{phase: state.RemotePlanning}
	h := s.elsewhere(r)
	var read []string
	text, failure := "Refreshing state...\n", error(nil)
	r.printed = func(cfg *config.Config, run state.Run) (string, error) {
		read = append(read, fmt.Sprintln(run.Remote.ID, cfg.Cloud() != nil, len(cfg.Tasks)))
		return text, failure
	}
	s.must(h, due)
	request := fmt.Sprintf(`{"mode":"output","tasks":["web"],"run":%q}`, s.run("web").ID)
	if answer := s.must(h, request); answer.Output != text || answer.Problem != "" || len(read) != 1 || read[0] != "run-1 true 1\n" {
		t.Errorf("the answer is %+v, after %q", answer, read)
	}
	text = strings.Repeat("a line\n", maxOutput/7+10)
	if answer := s.must(h, request); len(answer.Output) > maxOutput || !strings.HasSuffix(answer.Output, "a line\n") {
		t.Errorf("of %d bytes, the answer has %d", len(text), len(answer.Output))
	}
	text, failure = "", errors.New("the token has expired")
	if answer := s.must(h, request); answer.Output != "" || !strings.Contains(answer.Problem, "of task web: the token has expired") {
		t.Errorf("the answer is %+v", answer)
	}
	r.comeTo(state.RemoteEnded)
	s.must(h, due)
	before := len(read)
	if answer := s.must(h, request); answer.Output != "" || answer.Problem != "" || len(read) != before {
		t.Errorf("after the end of the run, the answer is %+v", answer)
	}
}
