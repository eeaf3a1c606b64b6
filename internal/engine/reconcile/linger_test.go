package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const revision = "prod-runner:7"

// newLingering returns a bench whose tasks are settled, whose launches linger and in
// which runners wait for more.
func newLingering(t *testing.T, n int, runners ...string) *bench {
	t.Helper()
	b := newBench(t, tasks(n)...)
	b.settle()
	b.launcher.forget()
	b.Linger, b.Definition = 5*time.Minute, revision
	for _, id := range runners {
		b.lingers(id)
	}
	return b
}

// lingers writes that a runner is free.
func (b *bench) lingers(id string) {
	b.t.Helper()
	r := state.Runner{ID: id, Definition: revision, Since: b.now, Until: b.now.Add(5 * time.Minute)}
	if _, err := b.store.Store.Apply(b.t.Context(), state.Create(state.RunnerKey(id), state.Encode(r))); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) runner(id string) state.Stored[state.Runner] {
	b.t.Helper()
	runner, err := state.Read[state.Runner](b.t.Context(), b.store.Store, state.RunnerKey(id))
	if err != nil {
		b.t.Fatal(err)
	}
	return runner
}

func (b *bench) launch(id string) state.Launch {
	b.t.Helper()
	launch, err := state.Read[state.Launch](b.t.Context(), b.store.Store, state.LaunchKey(id))
	if err != nil || !launch.Exists() {
		b.t.Fatalf("launch %s: there is none (%v)", id, err)
	}
	return launch.Data
}

// take has a runner take what is offered to it.
func (b *bench) take(id string) {
	b.t.Helper()
	r := linger.Runner{Store: b.store.Store, ID: id, Definition: revision, Now: b.Now, Log: b.Log}
	if launch, ok := r.Next(b.t.Context(), b.now.Add(time.Minute)); !ok || b.runner(id).Data.Launch != launch.ID {
		b.t.Errorf("%s takes nothing", id)
	}
}

// onOffer calls do once, after an offer was written. Its error hides the answer.
func (b *bench) onOffer(do func() error) {
	b.store.After = func(changes []state.Change) error {
		for _, c := range changes {
			if strings.HasPrefix(c.Key, state.RunnerPrefix) {
				b.store.After = nil
				return do()
			}
		}
		return nil
	}
}

func TestTick_RunnerThatLingersTakesTheLaunch(t *testing.T) {
	b := newLingering(t, 2, "r1")
	b.onOffer(func() error { b.take("r1"); return nil })
	b.catalog.set("B", nil)
	report := b.tick()
	if len(report.Launches) != 1 || report.Taken != 1 || report.Withdrawn != 0 || len(b.launcher.launches()) != 0 {
		t.Fatalf("%d launches, %d taken, %d withdrawn; %d containers", len(report.Launches), report.Taken, report.Withdrawn, len(b.launcher.launches()))
	}
	launch := b.launch(report.Launches[0].ID)
	if launch.Taker != "r1" || launch.Linger != b.Linger || len(launch.Runs) != 2 {
		t.Errorf("the launch reads %+v", launch)
	}
	for _, run := range launch.Runs {
		if live := b.task(run.Task).Run; live == nil || live.Launch != launch.ID || live.Offer != "r1" {
			t.Errorf("%s has the run %+v", run.Task, live)
		}
	}

	// Its runs are alive as long as the runner is, also before they are claimed.
	b.launcher.status = map[string]LaunchStatus{"r1": {Running: true}}
	b.now = b.now.Add(time.Hour)
	b.tick()
	if len(b.launchedRuns()) != 0 || b.task("task-0").Failing.Count != 0 {
		t.Fatalf("a run was repeated: %+v", b.task("task-0"))
	}
	b.claimed(launch.Runs[0], "r1")
	b.launcher.status = map[string]LaunchStatus{"r1": {Stopped: "Spot reclaim", Runner: "r1"}}
	b.now = b.now.Add(liveCheck)
	b.tick()
	for _, run := range launch.Runs {
		if got := b.run(run).Data; got.State != state.RunLost || got.Error != "Spot reclaim" {
			t.Errorf("the run of %s is %s: %s", run.Task, got.State, got.Error)
		}
	}
	if n := b.launchedRuns(); len(n) != 2 {
		t.Errorf("these are run again: %v", n)
	}
}

func TestTick_LaunchThatIsNotTakenGetsAContainer(t *testing.T) {
	b := newLingering(t, 1, "r1")
	b.onOffer(func() error { b.now = b.now.Add(linger.OfferFor); return nil })
	b.catalog.set("B", nil)
	report := b.tick()
	started := b.launcher.launches()
	if report.Withdrawn != 1 || report.Taken != 0 || len(started) != 1 || started[0].ID != report.Launches[0].ID {
		t.Fatalf("%d withdrawn, %d taken, started %+v", report.Withdrawn, report.Taken, started)
	}
	if launch := b.launch(started[0].ID); launch.Taker != state.TakenByContainer || b.runner("r1").Exists() {
		t.Errorf("the taker is %q; the runner's record exists: %v", launch.Taker, b.runner("r1").Exists())
	}
}

func TestTick_OfferOfADeadLeader(t *testing.T) {
	dead := errors.New("the process was killed")
	for _, tt := range []struct {
		name       string
		died       func(b *bench) error // right after the offer was written
		containers int
	}{
		{"is withdrawn by the next", func(b *bench) error { return dead }, 1},
		{"is withdrawn without Linger, too", func(b *bench) error { b.Linger = 0; return dead }, 1},
		{"is taken without Linger, too", func(b *bench) error { b.Linger = 0; b.take("r1"); return dead }, 0},
		{"is not withdrawn once it is taken", func(b *bench) error { b.take("r1"); return dead }, 0},
		{"is withdrawn, and RunTask comes late", func(b *bench) error {
			b.now = b.now.Add(linger.OfferFor)
			b.launcher.refuse(dead)
			return nil
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newLingering(t, 1, "r1")
			b.onOffer(func() error { return tt.died(b) })
			b.catalog.set("B", nil)
			_, _ = b.Tick(t.Context(), TickOptions{})
			b.launcher.refuse(nil)
			if n := len(b.launcher.launches()); n != 0 {
				t.Fatalf("%d containers are started by the dead leader", n)
			}

			b.launcher.status = map[string]LaunchStatus{"r1": {Running: true}}
			b.now = b.now.Add(liveCheck)
			for range 3 {
				b.tick()
			}
			live := b.task("task-0").Run
			if started := b.launcher.launches(); len(started) != tt.containers || live == nil || live.Offer != "r1" || tt.containers > 0 && started[0].ID != live.Launch {
				t.Errorf("started %+v for %+v", started, live)
			}
			if n := b.task("task-0").Failing.Count; n != 0 {
				t.Errorf("%d failures", n)
			}
		})
	}
}

func TestTick_LaunchThatARunnerHasTakenGetsNoContainerThoughTheRunnerIsNotSeen(t *testing.T) {
	b := newLingering(t, 1, "r1")
	b.onOffer(func() error { b.take("r1"); return nil })
	b.catalog.set("B", nil)
	b.tick()
	b.launcher.status = map[string]LaunchStatus{} // ECS shows what it knows with a delay
	b.now = b.now.Add(liveCheck)
	b.tick()
	if started := b.launcher.launches(); len(started) != 0 || b.task("task-0").Run == nil || b.task("task-0").Failing.Count != 0 {
		t.Errorf("started %+v for %+v", started, b.task("task-0").Run)
	}
}

func TestTick_OfferThatComesTooLate(t *testing.T) {
	b := newLingering(t, 1, "r1", "r2")
	// Both end between the tick's reading and its offer.
	ended := 0
	b.store.Before = func(changes []state.Change) error {
		for _, c := range changes {
			if id, ok := strings.CutPrefix(c.Key, state.RunnerPrefix); ok {
				ended++
				if _, err := b.store.Store.Apply(t.Context(), state.Delete(b.runner(id).Record)); err != nil {
					t.Error(err)
				}
			}
		}
		return nil
	}
	b.catalog.set("B", nil)
	b.tick()
	started := b.launcher.launches()
	if ended != 2 || len(started) != 1 || b.launch(started[0].ID).Offer != "" || b.task("task-0").Run.Offer != "" {
		t.Errorf("%d runners had ended; started %+v", ended, started)
	}
}

func TestTick_FullLaunchWithLostRunsIsOffered(t *testing.T) {
	b := newLingering(t, 21)
	b.Linger = 0
	b.catalog.set("B", nil)
	b.tick()
	launch := b.launcher.launches()[0]
	force := map[string]string{}
	for i, run := range launch.Runs {
		if b.claimed(run, "c1"); i >= 19 { // 19 runs that are lost take three changes each, two others two each
			b.succeed(run, "B")
			force[run.Task] = "ann"
		}
	}
	b.Linger = time.Minute
	b.lingers("r1")
	b.onOffer(func() error { b.take("r1"); return nil })
	b.launcher.forget()
	b.launcher.status = map[string]LaunchStatus{launch.ID: {Stopped: "out of memory", Runner: "c1"}}
	b.now = b.now.Add(liveCheck)
	report, err := b.Tick(t.Context(), TickOptions{Force: force})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, launch := range report.Launches {
		runs += len(launch.Runs)
	}
	if runs != 21 || report.Taken != 1 {
		t.Errorf("%d runs in %d launches, %d taken", runs, len(report.Launches), report.Taken)
	}
}

func TestTick_WithoutLingerNothingMoreIsRead(t *testing.T) {
	cost := func(how func(*bench)) (reads, writes int64) {
		b := newLingering(t, 3, "r1")
		how(b)
		b.catalog.set("B", nil)
		b.store.Reset()
		b.tick()
		return b.store.Reads.Load(), b.store.Writes.Load()
	}
	reads, writes := cost(func(b *bench) { b.Linger = 0 })
	if r, w := cost(func(b *bench) {
		if _, err := b.store.Store.Apply(t.Context(), state.Delete(b.runner("r1").Record)); err != nil {
			t.Fatal(err)
		}
	}); r != reads+1 || w != writes {
		t.Errorf("with Linger, %d reads and %d writes; without, %d and %d: want one read more, of the runners", r, w, reads, writes)
	}

	b := newLingering(t, 3, "r1")
	b.Linger = 0
	b.catalog.set("B", nil)
	b.tick()
	if launch := b.launcher.launches()[0]; launch.Linger != 0 || launch.Offer != "" || b.runner("r1").Data.Offer != "" {
		t.Errorf("the launch reads %+v", launch)
	}
	b.Linger = time.Minute
	b.end(state.RunSucceeded, "B")
	b.now = b.now.Add(time.Minute)
	b.tick()
	b.store.Reset()
	if report := b.tick(); !report.Idle || b.store.Reads.Load() != 1 || b.store.Writes.Load() != 0 {
		t.Errorf("idle %v, %d reads, %d writes", report.Idle, b.store.Reads.Load(), b.store.Writes.Load())
	}
}

func TestTick_CheckForDriftIsNotOffered(t *testing.T) {
	b := newBench(t, driftTasks(1)...)
	b.settle()
	b.Linger, b.Definition = 5*time.Minute, revision
	b.now = b.now.Add(25 * time.Hour)
	b.lingers("r1")
	report := b.tick()
	if len(report.Checks) != 1 || report.Checks[0].Offer != "" || report.Checks[0].Linger != 0 || b.runner("r1").Data.Offer != "" {
		t.Errorf("checks %+v", report.Checks)
	}
}

// A container that lingers may apply, and a plan runs code that perhaps nobody has approved. A container of a plan does
// not linger, so that it is offered nothing.
func TestPlanner_PlanIsNotOffered(t *testing.T) {
	b := newLingering(t, 1, "r1")
	launches, err := b.Planner().Start(t.Context(), []string{"task-0"}, nil, "an invoke")
	if err != nil || len(launches) != 1 || len(b.launcher.launches()) != 1 {
		t.Fatalf("%d launches, of which %d got containers (%v)", len(launches), len(b.launcher.launches()), err)
	}
	if launch := b.launch(launches[0].ID); launch.Offer != "" || launch.Taker != "" || launch.Linger != 0 || b.runner("r1").Data.Offer != "" {
		t.Errorf("the launch reads %+v, and the runner is offered %q", launch, b.runner("r1").Data.Offer)
	}
}

func TestSettle_RunsThatAStoppedRunnerTookAreLost(t *testing.T) {
	b := newLingering(t, 2, "r1")
	first := state.Launch{ID: "first", Kind: state.KindApply, Linger: b.Linger, Created: b.now}
	if _, err := b.store.Apply(t.Context(), state.Create(state.LaunchKey(first.ID), state.Encode(first))); err != nil {
		t.Fatal(err)
	}
	b.onOffer(func() error { b.take("r1"); return nil })
	b.catalog.set("B", nil)
	taken := b.tick().Launches[0]
	b.claimed(taken.Runs[0], "r1")

	for try, want := range []int{2, 0} { // events are doubled
		if lost := b.stop(first, "r1", "out of memory"); len(lost) != want {
			t.Errorf("event %d: %d runs are lost, want %d", try+1, len(lost), want)
		}
	}
	if b.runner("r1").Exists() || b.task("task-0").Failing.Count != 1 {
		t.Errorf("the runner's record exists: %v; %+v", b.runner("r1").Exists(), b.task("task-0"))
	}
}

func TestSettle_OfferToAStoppedRunnerIsLeftToTheLeader(t *testing.T) {
	b := newLingering(t, 1, "r1")
	first := state.Launch{ID: "first", Kind: state.KindApply, Linger: b.Linger, Created: b.now}
	if _, err := b.store.Apply(t.Context(), state.Create(state.LaunchKey(first.ID), state.Encode(first))); err != nil {
		t.Fatal(err)
	}
	b.onOffer(func() error {
		if lost := b.stop(first, "r1", "killed"); len(lost) != 0 {
			t.Errorf("%d runs are lost", len(lost))
		}
		b.now = b.now.Add(linger.OfferFor)
		return nil
	})
	b.catalog.set("B", nil)
	report := b.tick()
	if started := b.launcher.launches(); len(started) != 1 || report.Withdrawn != 1 || b.task("task-0").Failing.Count != 0 || b.runner("r1").Exists() {
		t.Errorf("started %+v; %+v", started, b.task("task-0"))
	}
}
