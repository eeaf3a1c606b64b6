package reconcile_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

// hcp is a driver whose runs go on elsewhere: each is planned and applied after a while.
type hcp struct {
	driver.Driver
	*machine
	began map[string]time.Time
}

const hcpTakes = time.Minute

func (h *hcp) phase(id string) state.RemotePhase {
	switch took := time.Since(h.began[id]); {
	case took < hcpTakes:
		return state.RemotePlanning
	case took < 2*hcpTakes:
		return state.RemoteApplying
	}
	return state.RemoteEnded
}

func (h *hcp) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, task := job.Run.ID, job.Task.Name
	if job.Run.Remote == nil {
		h.began[id] = time.Now()
	}
	phase := h.phase(id)
	if phase == state.RemoteEnded {
		h.applied = append(h.applied, task)
		return driver.Outcome{Changes: &state.Changes{Add: 1}}, h.broken[task]
	}
	wait := state.WaitRemotePlan
	if phase == state.RemoteApplying {
		wait = state.WaitRemote
	}
	err := job.Remote.Write(ctx, state.Remote{By: id, Content: "c", Run: state.RemoteRun{ID: id, Version: "cv-" + id, Phase: phase}})
	if err == nil {
		err = &driver.WaitError{Wait: state.Wait{For: wait}}
	}
	return driver.Outcome{}, err
}

func (h *hcp) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return h.Apply(ctx, job)
}

func (h *hcp) Poll(_ context.Context, _ *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := map[string]state.RemoteStatus{}
	for _, run := range runs {
		found[run.ID] = state.RemoteStatus{Phase: h.phase(run.ID)}
	}
	return found, nil
}

func (h *hcp) Await(ctx context.Context, _ *config.Config, waits []state.RemoteWait) map[string]state.RemoteStatus {
	for delay.For(ctx, time.Second) {
		h.mu.Lock()
		phase := h.phase(waits[0].Run)
		h.mu.Unlock()
		if phase != waits[0].Phase {
			return map[string]state.RemoteStatus{waits[0].Run: {Phase: phase}}
		}
	}
	return nil
}

func (h *hcp) Stop(context.Context, *config.Config, *state.RemoteRun) (bool, error) {
	return false, nil
}

func TestOnce_FollowsRunsThatGoOnElsewhereWithoutRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.broken["b"] = context.DeadlineExceeded
		h := &hcp{machine: m, began: map[string]time.Time{}}
		p := m.process(t.Context(), tasks("a", "b"))
		p.Remote, p.runner.Driver = h, h
		outcomes, err := p.Once(t.Context(), p.launcher.Wait)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "outcomes", said(outcomes), "a: succeeded", "b: failed (failed)")
		slices.Sort(m.applied) // they end at the same time
		expect(t, "applied", m.applied, "a", "b")
		if len(h.began) != 2 {
			t.Errorf("%d runs began", len(h.began))
		}
	})
}

func TestOnce_FollowsDestroysThatGoOnElsewhereInTheOppositeOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		h := &hcp{machine: m, began: map[string]time.Time{}}
		once := func(all []config.Task) {
			p := m.process(t.Context(), all)
			p.Remote, p.runner.Driver = h, h
			outcomes, err := p.Once(t.Context(), p.launcher.Wait)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range outcomes {
				if o.Run == nil || o.Failed() {
					t.Errorf("the outcome is %+v", o)
				}
			}
		}
		all := configtest.Load(t, t.TempDir(), "f.yaml", `task:
  - {name: a, module: ./m, on_removal: destroy, approve_destroy: never, condition: {services: {names: [a]}}}
  - {name: b, module: ./m, on_removal: destroy, approve_destroy: never, condition: {services: {names: [b]}}, after: [a]}
`).Tasks
		once(all)
		once(nil) // they are missing
		time.Sleep(time.Minute)
		once(nil)
		expect(t, "applied, and then destroyed", m.applied, "a", "b", "b", "a")
	})
}
