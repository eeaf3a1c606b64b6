package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func (b *bench) reconcileRecord() state.Reconcile {
	b.t.Helper()
	rec, err := state.Read[state.Reconcile](b.t.Context(), b.store, state.ReconcileKey)
	if err != nil {
		b.t.Fatal(err)
	}
	return rec.Data
}

// launchedRuns counts the runs of each task that were launched since forget.
func (b *bench) launchedRuns() map[string]int {
	n := map[string]int{}
	for _, launch := range b.launcher.launches() {
		for _, run := range launch.Runs {
			n[run.Task]++
		}
	}
	return n
}

// ranOnce checks that a number of tasks were run since forget, each once.
func (b *bench) ranOnce(tasks int) {
	b.t.Helper()
	runs := b.launchedRuns()
	for name, n := range runs {
		if n != 1 {
			b.t.Errorf("%s was run %d times", name, n)
		}
	}
	if len(runs) != tasks {
		b.t.Errorf("%d of %d tasks were run", len(runs), tasks)
	}
}

func TestTick_MaxLaunchesAreNotExceeded(t *testing.T) {
	b := newBench(t, tasks(60)...)
	b.MaxLaunches = 2
	report := b.tick()
	if len(report.Launches) != 2 || len(report.Postponed) != 10 {
		t.Fatalf("%d launches, %d tasks postponed", len(report.Launches), len(report.Postponed))
	}
	waiting := b.task(report.Postponed[0])
	if waiting.Reason.Code != state.ReasonQueued || !strings.Contains(waiting.Reason.Text, "2 launches are under way") {
		t.Errorf("status says %+v", waiting.Reason)
	}
	if again := b.tick(); len(again.Launches) != 0 {
		t.Errorf("%d launches without room", len(again.Launches))
	}
	b.end(state.RunSucceeded, "A")
	if again := b.tick(); len(again.Launches) != 1 || len(again.Postponed) != 0 {
		t.Errorf("%d launches and %d postponed once there is room", len(again.Launches), len(again.Postponed))
	}
	b.ranOnce(60)
}

func TestTick_PostponedRequestIsKept(t *testing.T) {
	b := newBench(t, tasks(30)...)
	b.settle()
	b.launcher.forget()
	b.MaxLaunches = 1
	force := map[string]string{}
	for _, task := range b.tasks {
		force[task.Name] = "an invoke"
	}
	if _, err := b.Tick(t.Context(), TickOptions{Force: force}); err != nil {
		t.Fatal(err)
	}
	b.end(state.RunSucceeded, "A")
	b.tick()
	if len(b.launchedRuns()) != 30 {
		t.Errorf("%d of 30 forced runs", len(b.launchedRuns()))
	}
}

func TestTick_NoLaunchBeginsAfterUntil(t *testing.T) {
	b := newBench(t, tasks(30)...)
	report, err := b.Tick(t.Context(), TickOptions{Until: b.now})
	if err != nil || len(report.Launches) != 0 || len(report.Postponed) != 30 || !report.Again {
		t.Fatalf("%+v, %v", report, err)
	}
	if report = b.tick(); len(report.Launches) != 2 {
		t.Errorf("%d launches by the next tick", len(report.Launches))
	}
}

func TestTick_NoIntentIsWrittenWhileLaunchesFail(t *testing.T) {
	b := newBench(t, tasks(250)...)
	b.launcher.refuse(errors.New("no capacity"))
	report := b.tick()
	if report.Stalled == nil || len(report.Launches) != startsAtOnce || len(report.Postponed) != 250-startsAtOnce*runsPerLaunch {
		t.Fatalf("stalled: %v; %d launches, %d postponed", report.Stalled, len(report.Launches), len(report.Postponed))
	}
	if rec := b.reconcileRecord(); !strings.Contains(rec.Stalled, "no capacity") || !rec.LastSuccess.IsZero() {
		t.Errorf("the record says %+v", rec)
	}
	b.launcher.refuse(nil)
	b.tick()
	if rec := b.reconcileRecord(); rec.Stalled != "" || rec.LastSuccess.IsZero() {
		t.Errorf("afterwards the record says %+v", rec)
	}
	b.ranOnce(250)
}

// picky refuses single launches.
type picky struct {
	*launcher
	refuses func(state.Launch) error
}

func (p picky) Start(ctx context.Context, launch state.Launch) error {
	if err := p.refuses(launch); err != nil {
		return err
	}
	return p.launcher.Start(ctx, launch)
}

// What a launcher has refused may be remembered there: each attempt says how often it was refused.
func TestTick_RefusedLaunchIsAskedForAnewAndStopsNoOther(t *testing.T) {
	b := newBench(t, tasks(250)...)
	var mu sync.Mutex
	first, asked := "", []int(nil)
	b.Launcher = picky{b.launcher, func(launch state.Launch) error {
		mu.Lock()
		defer mu.Unlock()
		first = cmp.Or(first, launch.ID)
		if launch.ID != first {
			return nil
		}
		if asked = append(asked, launch.Refused); launch.Refused < 2 {
			return fmt.Errorf("%w: RESOURCE:MEMORY", ErrRefused)
		}
		return nil
	}}
	report := b.tick()
	if len(report.Launches) != 250/runsPerLaunch || len(report.Postponed) > 0 || len(b.launchedRuns()) != 250-runsPerLaunch {
		t.Fatalf("%d launches, %d postponed, %d runs started", len(report.Launches), len(report.Postponed), len(b.launchedRuns()))
	}
	if rec := b.reconcileRecord(); !strings.Contains(rec.Stalled, "RESOURCE:MEMORY") {
		t.Errorf("the record says %+v", rec)
	}
	b.tick()
	if b.tick(); b.reconcileRecord().Stalled != "" || !slices.Equal(asked, []int{0, 1, 2}) {
		t.Errorf("attempts %v; the record says %q", asked, b.reconcileRecord().Stalled)
	}
	b.ranOnce(250)
}

// What concerns all launches does.
func TestTick_OutageOfTheLauncherIsNotHiddenByARefusal(t *testing.T) {
	b := newBench(t, tasks(250)...)
	var mu sync.Mutex
	n := 0
	b.Launcher = picky{b.launcher, func(state.Launch) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 1 {
			return fmt.Errorf("%w: RESOURCE:MEMORY", ErrRefused)
		}
		return errors.New("no answer")
	}}
	report := b.tick()
	if len(report.Launches) != startsAtOnce || !strings.Contains(b.reconcileRecord().Stalled, "no answer") {
		t.Errorf("%d launches; the record says %q", len(report.Launches), b.reconcileRecord().Stalled)
	}
}

func TestTick_ClockSkewDoesNotCostTheLease(t *testing.T) {
	b := newBench(t, tasks(1)...)
	if _, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "other", lease.Options{TTL: b.LeaseTTL, Now: b.Now}); err != nil {
		t.Fatal(err)
	}
	b.Skew = 30 * time.Second
	b.now = b.now.Add(b.LeaseTTL + 29*time.Second)
	var held *lease.HeldError
	if _, err := b.Tick(t.Context(), TickOptions{}); !errors.As(err, &held) {
		t.Fatalf("took a lease that may stand by its holder's clock: %v", err)
	}
	b.now = b.now.Add(time.Second)
	b.tick()
}

func TestTick_ClaimsAreValidDespiteClockSkew(t *testing.T) {
	running := state.Run{ID: "r", Kind: state.KindApply, Claimed: state.Claimed{Owner: "host", Expires: noon}, State: state.RunRunning, Created: noon}
	if lost := whyLost(running, "", noon.Add(29*time.Second), 30*time.Second); lost != "" {
		t.Error("lost while it may be alive by its own clock: " + lost)
	}
	if lost := whyLost(running, "", noon.Add(30*time.Second), 30*time.Second); lost == "" {
		t.Error("never lost")
	}
}

func TestTick_ProcessWithAnotherBundleDoesNotAct(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.Bundle = "new"
	b.tick()
	late := b.another(tasks(2))
	late.Bundle = "old"
	var other *OtherBundleError
	if _, err := late.Tick(t.Context(), TickOptions{}); !errors.As(err, &other) || other.Bundle != "new" {
		t.Fatalf("an old bundle acts: %v", err)
	}
	if b.reconcileRecord().Bundle != "new" || b.task("task-1").Run != nil {
		t.Error("an old bundle had its way")
	}
	newest := b.another(tasks(2))
	newest.Bundle = "newest"
	earlier := other.Version
	b.now = b.now.Add(refreshEvery)
	b.tick() // writes the record, and leaves the bundle in force
	if _, err := newest.Tick(t.Context(), TickOptions{Replaces: earlier}); !errors.As(err, &other) {
		t.Fatalf("a bundle was replaced by a process that had not read the latest record: %v", err)
	}
	report, err := newest.Tick(t.Context(), TickOptions{Replaces: other.Version})
	if err != nil || b.reconcileRecord().Bundle != "newest" || len(report.Launches) != 1 || report.Launches[0].Bundle != "newest" {
		t.Fatalf("a new bundle is not in force: %+v, %v", report, err)
	}
}

func TestTick_RefusedBundleIsRecordedOnce(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.Refused = &state.Refused{Bundle: "bad", Error: "web.yaml:3: no module", Since: b.now}
	b.tick()
	if rec := b.reconcileRecord(); rec.Refused == nil || rec.Refused.Error != "web.yaml:3: no module" {
		t.Fatalf("not noted: %+v", rec)
	}
	since := b.now
	b.now = b.now.Add(time.Minute)
	b.Refused = &state.Refused{Bundle: "bad", Error: "web.yaml:3: no module", Since: b.now}
	if !b.tick().Idle {
		t.Error("noted again")
	}
	if rec := b.reconcileRecord(); !rec.Refused.Since.Equal(since) {
		t.Errorf("refused since %v", rec.Refused.Since)
	}
	b.Refused = nil
	b.tick()
	if rec := b.reconcileRecord(); rec.Refused != nil {
		t.Error("a bundle that is right again stays refused")
	}
}

func TestTick_RecordHoldsTheMostFailures(t *testing.T) {
	b := newBench(t, tasks(2)...)
	for range 3 {
		b.tick()
		b.end(state.RunFailed, "")
		b.now = b.now.Add(time.Hour)
	}
	b.now = b.now.Add(liveCheck - time.Hour)
	b.tick()
	if rec := b.reconcileRecord(); rec.Failing != 3 {
		t.Errorf("%d", rec.Failing)
	}
}

// blind is a launcher that starts launches and cannot say how they are.
type blind struct{ *launcher }

func (blind) Status(context.Context, []string) (map[string]LaunchStatus, error) {
	return nil, errors.New("throttled")
}

func TestTick_LauncherWithoutStatusDelaysNoOtherTask(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.Config.Tasks[1].Enabled = false
	b.tick()
	cfg := tasks(2)
	second := b.another(cfg)
	second.Launcher = blind{b.launcher}
	report, err := second.Tick(t.Context(), TickOptions{})
	if err != nil || len(report.Launches) != 1 || report.Launches[0].Runs[0].Task != "task-1" {
		t.Fatalf("%+v, %v", report, err)
	}
	if b.task("task-0").Failing.Count != 0 {
		t.Error("a run is taken for lost though nothing is known of it")
	}
	if rec := b.reconcileRecord(); !strings.Contains(rec.Stalled, "which may not have been started: throttled") {
		t.Errorf("the record says %q", rec.Stalled)
	}
}

// Nomad may never find a client for a job, such as one whose specification was corrected since.
func TestTick_WhatNobodyCanStartTakesItsOwnPlaceAndIsLostInTheEnd(t *testing.T) {
	b := newBench(t, tasks(60)...)
	b.MaxLaunches = 1
	blocked := b.tick().Launches[0]
	b.MaxLaunches = 2
	b.launcher.status = map[string]LaunchStatus{blocked.ID: {Running: true, Blocked: "no client has 256 MB of memory"}}
	b.launcher.forget()
	report := b.tick()
	if len(report.Launches) != 1 || len(report.Postponed) != 10 || len(b.launcher.launches()) != 1 {
		t.Fatalf("%d launches, %d postponed; started are %v", len(report.Launches), len(report.Postponed), b.launcher.launches())
	}
	if rec := b.reconcileRecord(); !strings.Contains(rec.Unplaced, "launch "+blocked.ID+" waits: no client has 256 MB of memory") {
		t.Errorf("the record says %q", rec.Unplaced)
	}
	b.launcher.status[report.Launches[0].ID] = LaunchStatus{Running: true}
	b.now = b.now.Add(intentPatience - time.Minute)
	if b.tick(); !b.reconcileRecord().LastSuccess.Equal(b.now) {
		t.Errorf("while one launch waits, the latest tick that succeeded was at %s, and it is %s", b.reconcileRecord().LastSuccess, b.now)
	}
	b.now = b.now.Add(time.Minute)
	if report = b.tick(); len(report.Launches) != 1 || b.reconcileRecord().Unplaced != "" {
		t.Errorf("%d launches once its place is free, and the record says %q", len(report.Launches), b.reconcileRecord().Unplaced)
	}
	run := b.task(blocked.Runs[0].Task).Ended.Last
	if run == nil || run.State != state.RunLost || !strings.Contains(run.Error, "no runner began it within 15m0s: no client has 256 MB of memory") {
		t.Errorf("the run that waits: %+v", run)
	}
}
