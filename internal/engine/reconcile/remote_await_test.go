package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// elsewhere is a system with one run, and its driver. It plans and applies for known times.
type elsewhere struct {
	driver.Driver
	*machine
	plans, applies    time.Duration
	created, accepted time.Time
	polls, found      int // polls of ticks, and how often something was found between them
}

// step is how long the requests of a step take.
const step = 300 * time.Millisecond

func (e *elsewhere) phase() state.RemotePhase {
	switch {
	case time.Since(e.created) < e.plans:
		return state.RemotePlanning
	case e.accepted.IsZero():
		return state.RemoteReady
	case time.Since(e.accepted) < e.applies:
		return state.RemoteApplying
	}
	return state.RemoteEnded
}

func (e *elsewhere) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	time.Sleep(step)
	e.mu.Lock()
	defer e.mu.Unlock()
	wait := state.WaitRemotePlan
	switch {
	case job.Run.Remote == nil:
		e.created = time.Now()
	case e.phase() == state.RemoteReady:
		e.accepted = time.Now()
		wait = state.WaitRemote
	case e.phase() == state.RemoteApplying:
		wait = state.WaitRemote
	case e.phase() == state.RemoteEnded:
		return driver.Outcome{Changes: &state.Changes{Add: 1}}, nil
	}
	err := job.Remote.Write(ctx, state.Remote{By: job.Run.ID, Content: "c", Run: state.RemoteRun{ID: "run-1", Version: "cv-1", Phase: e.phase()}})
	if err == nil {
		err = &driver.WaitError{Wait: state.Wait{For: wait}}
	}
	return driver.Outcome{}, err
}

func (e *elsewhere) Poll(context.Context, *config.Config, []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.polls++
	return map[string]state.RemoteStatus{"run-1": {Phase: e.phase()}}, nil
}

func (e *elsewhere) Await(ctx context.Context, _ *config.Config, waits []state.RemoteWait) map[string]state.RemoteStatus {
	for delay.For(ctx, 500*time.Millisecond) {
		e.mu.Lock()
		phase := e.phase()
		e.mu.Unlock()
		if phase != waits[0].Phase {
			e.found++
			return map[string]state.RemoteStatus{"run-1": {Phase: phase}}
		}
	}
	return nil
}

func (*elsewhere) Stop(context.Context, *config.Config, *state.RemoteRun) (bool, error) {
	return false, nil
}

// begin starts an instance whose only task runs there.
func (e *elsewhere) begin() *instance {
	return e.start(tasks("a"), func(p *process) { p.Remote, p.runner.Driver = e, e })
}

// ended returns the run of the task when it has ended.
func (e *elsewhere) ended() state.Run {
	e.t.Helper()
	for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(50 * time.Millisecond) {
		runs, err := state.ReadAll[state.Run](e.t.Context(), e.store, state.RunPrefix("a"))
		if err != nil {
			e.t.Fatal(err)
		}
		if len(runs) > 0 && runs[0].Data.State.Ended() {
			return runs[0].Data
		}
	}
	e.t.Fatal("the run does not end")
	return state.Run{}
}

func TestLoop_RemoteRunIsAppliedWithinThreeSecondsOfWhatItNeedsItself(t *testing.T) {
	for _, works := range []time.Duration{5 * time.Second, 30 * time.Second, 3 * time.Minute, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			e := &elsewhere{machine: newMachine(t), plans: works/5 + 200*time.Millisecond, applies: works - works/5 - 200*time.Millisecond}
			began := time.Now()
			i := e.begin()
			run := e.ended()
			i.stop()
			late := run.Ended.Sub(began) - works
			t.Logf("%s: %s later, %d polls of ticks", works, late, e.polls)
			if run.State != state.RunSucceeded || late > 3*time.Second {
				t.Errorf("%s: %s %s, %s later", works, run.State, run.Error, late)
			}
			if minutes := int(works / time.Minute); e.polls > 15+10*minutes {
				t.Errorf("%s: %d polls of ticks", works, e.polls)
			}
		})
	}
}

func TestLoop_RemoteRunThatMayNotContinueDoesNotMakeItTickAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &elsewhere{machine: newMachine(t), plans: time.Minute, applies: time.Minute}
		i := e.begin()
		time.Sleep(30 * time.Second)
		if _, err := i.PauseAll(t.Context(), "a test", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if e.found > 1 {
			t.Errorf("%d ticks for a plan that waits until somebody resumes", e.found)
		}
		if _, err := i.ResumeAll(t.Context(), "a test", ""); err != nil {
			t.Fatal(err)
		}
		if run := e.ended(); run.State != state.RunSucceeded {
			t.Errorf("%s %s", run.State, run.Error)
		}
		i.stop()
	})
}
