package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// daily is checked once a day.
var daily = drift.Spec{Enabled: true, Every: 24 * time.Hour, Action: drift.Report}

// missing is what a check has found.
func missing(digest string) *state.Drifted {
	return &state.Drifted{Digest: digest, Count: 1, Resources: []state.DriftedResource{{Address: "a.b", Action: "create"}}, Changes: state.Changes{Add: 1}}
}

// driftTasks are n tasks that are checked daily.
func driftTasks(n int) []config.Task {
	all := tasks(n)
	for i := range all {
		all[i].Drift = daily
	}
	return all
}

// endChecks ends the checks under way, as a runner would.
func (b *bench) endChecks(outcome state.RunState, found *state.Drifted) (ended int) {
	b.t.Helper()
	for _, task := range b.tasks {
		record := b.taskRecord(task.Name)
		live := underCheck(record.Data)
		if live == nil {
			continue
		}
		run := b.run(state.PlannedRun{ID: live.ID, Task: task.Name})
		if run.Data.Kind != state.KindDrift {
			b.t.Fatalf("the check is %+v", run.Data)
		}
		run.Data.State, run.Data.Ended = outcome, b.now
		run.Data.Found = found
		b.must(b.store.Apply(b.t.Context(), run.Write(run.Data)))
		ended++
	}
	return ended
}

func TestTick_ManyDueChecksAreMadeOneLaunchAtATime(t *testing.T) {
	const n = 10 * runsPerLaunch
	all := driftTasks(n)
	for i := range all {
		all[i].Drift = nightly()
	}
	b := newBench(t, all...)
	b.settle()
	b.launcher.forget()
	b.now = b.now.Add(24 * time.Hour) // all are due
	checked := map[string]int{}
	for range n {
		b.now = b.now.Add(liveCheck)
		reads := b.catalog.reads
		report := b.tick()
		everything := b.now.Equal(report.Record.Refreshed)
		if reads = b.catalog.reads - reads; len(report.Checks) > 1 || len(report.Launches) > 0 || reads > runsPerLaunch && !everything {
			t.Fatalf("%d launches of checks, %d others, %d views read", len(report.Checks), len(report.Launches), reads)
		}
		if again := b.tick(); len(again.Checks) > 0 {
			t.Fatal("checks begin beside others")
		}
		if b.endChecks(state.RunSucceeded, nil) == 0 {
			break
		}
	}
	for _, launch := range b.launcher.launches() {
		if launch.Kind != state.KindDrift || len(launch.Runs) > runsPerLaunch {
			t.Errorf("a launch of %d runs of kind %s", len(launch.Runs), launch.Kind)
		}
		for _, run := range launch.Runs {
			checked[run.Task]++
		}
	}
	for name, times := range checked {
		if times != 1 {
			t.Errorf("%s was checked %d times", name, times)
		}
	}
	if len(checked) != n {
		t.Errorf("%d of %d tasks were checked", len(checked), n)
	}
	b.now = b.now.Add(liveCheck)
	if report := b.tick(); !report.Idle {
		t.Errorf("with all checked there is something to do, due at %s", b.reconcileRecord().Due)
	}
}

// nightly is checked at 3 o'clock.
func nightly() drift.Spec {
	keys := drift.Keys{Schedule: block.String{Origin: block.Origin{Set: true}, V: "0 3 * * *"}, Enabled: block.Bool{Origin: block.Origin{Set: true}, V: true}}
	return keys.Spec(&block.Report{Now: noon}, drift.Default)
}

func TestTick_RunsComeBeforeChecks(t *testing.T) {
	b := newBench(t, driftTasks(60)...)
	b.settle()
	b.launcher.forget()
	b.MaxLaunches = 1
	b.now = b.now.Add(25 * time.Hour)
	force := map[string]string{}
	for i := range 30 {
		force[b.tasks[i].Name] = "ann"
	}
	report, err := b.Tick(t.Context(), TickOptions{Force: force})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Launches) != 1 || len(report.Checks) != 0 || len(report.Postponed) == 0 {
		t.Fatalf("%d launches, %d of checks, %d tasks postponed", len(report.Launches), len(report.Checks), len(report.Postponed))
	}
	b.end(state.RunSucceeded, "A")
	b.tick() // the postponed runs
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	if report = b.tick(); len(report.Checks) != 1 || len(report.Checks[0].Runs) != runsPerLaunch {
		t.Fatalf("checks do not begin when the runs have ended: %+v", report.Checks)
	}
	// Checks under way take no room from runs.
	report, err = b.Tick(t.Context(), TickOptions{Force: map[string]string{report.Decisions[0].Task.Name: "ann"}})
	if err != nil || len(report.Launches) != 1 || len(report.Postponed) != 0 {
		t.Errorf("%d launches, %d postponed beside checks: %v", len(report.Launches), len(report.Postponed), err)
	}
}

func TestTick_WithoutTimeLeftStartsNoChecks(t *testing.T) {
	b := newBench(t, driftTasks(2)...)
	b.settle()
	b.launcher.forget()
	b.now = b.now.Add(25 * time.Hour)
	report, err := b.Tick(t.Context(), TickOptions{Until: b.now})
	if err != nil || len(report.Checks) > 0 {
		t.Fatalf("%d checks: %v", len(report.Checks), err)
	}
	if task := b.task("task-0"); task.Drift.Run != nil || task.Reason.Code != state.ReasonUnchanged || b.reconcileRecord().Tasks.Phases["waiting"] > 0 {
		t.Errorf("the task reads %+v", task)
	}
	b.now = b.now.Add(liveCheck)
	if report := b.tick(); len(report.Checks) != 1 || len(report.Checks[0].Runs) != 2 {
		t.Errorf("the next tick starts %+v", report.Checks)
	}
}

func TestTick_CheckWhoseRunnerDiedIsGivenUp(t *testing.T) {
	for name, status := range map[string]LaunchStatus{"a stopped container": {Stopped: "out of memory"}, "an expired claim": {}} {
		b := newBench(t, driftTasks(1)...)
		b.settle()
		b.launcher.forget()
		events := b.recording()
		b.now = b.now.Add(25 * time.Hour)
		report := b.tick()
		b.change(report.Checks[0].Runs[0], func(run *state.Run) {
			run.State, run.Claim, run.Expires, run.ClaimFor = state.RunRunning, "c", b.now.Add(time.Minute), time.Minute
		})
		b.launcher.status = map[string]LaunchStatus{report.Checks[0].ID: status}
		if name == "an expired claim" {
			b.now = b.now.Add(liveCheck)
			if b.tick(); b.task("task-0").Drift.Run == nil {
				t.Errorf("%s: the check is given up before", name)
			}
		}
		b.now = b.now.Add(2 * time.Minute)
		b.tick()
		task := b.task("task-0")
		if task.Drift.Run != nil || task.Drift.Error == "" || task.Failing.Count > 0 || !task.Drift.After.Equal(b.now) || task.Ended.Last.Kind != state.KindApply {
			t.Errorf("%s: the task reads %+v, %+v", name, task, task.Drift)
		}
		if run := b.run(report.Checks[0].Runs[0]); run.Data.State != state.RunLost {
			t.Errorf("%s: the check reads %+v", name, run.Data)
		}
		if heard := events.heard(); !strings.HasPrefix(heard, "drift_check_failed(") || strings.Contains(heard, " run_") {
			t.Errorf("%s: events %s", name, heard)
		}
	}
}

func TestTick_ChecksThatCannotBeStartedStopNoRuns(t *testing.T) {
	b := newBench(t, driftTasks(2)...)
	b.settle()
	b.now = b.now.Add(25 * time.Hour)
	b.launcher.refuse(errors.New("no capacity"))
	report := b.tick()
	b.launcher.refuse(nil)
	b.launcher.forget()
	if report.Stalled != nil || len(report.Postponed) > 0 || b.reconcileRecord().Stalled != "" {
		t.Errorf("runs are held up: %v, %v", report.Stalled, report.Postponed)
	}
	b.now = b.now.Add(liveCheck)
	if report := b.tick(); len(report.Checks) > 0 {
		t.Error("checks begin beside others that may have been started")
	}
	b.now = b.now.Add(intentPatience)
	b.tick()
	if task := b.task("task-0"); task.Drift.Run != nil || task.Drift.Error == "" || task.Failing.Count > 0 {
		t.Errorf("the task reads %+v", task.Drift)
	}
}

func TestTick_DriftIsAppliedOncePerCheck(t *testing.T) {
	all := driftTasks(1)
	all[0].Drift.Action = drift.Apply
	b := newBench(t, all...)
	b.settle()
	b.now = b.now.Add(25 * time.Hour)
	b.launcher.forget()
	b.tick()
	b.endChecks(state.RunSucceeded, missing("d"))
	b.tickAfterEnd()
	if len(b.launcher.launches()) != 2 || b.task("task-0").Reason.Code != state.ReasonDrift {
		t.Fatalf("drift is not applied: %+v", b.task("task-0"))
	}
	b.end(state.RunSucceeded, "A")
	if b.task("task-0").Drifted() != nil {
		t.Error("the task is drifted after its apply")
	}
	b.now = b.now.Add(liveCheck)
	if b.tick(); b.task("task-0").Drift.Run == nil {
		t.Fatal("the apply is not checked at once")
	}
	b.endChecks(state.RunSucceeded, missing("d"))
	for range 3 {
		b.tickAfterEnd()
		b.now = b.now.Add(24 * time.Hour)
		if b.tick(); b.task("task-0").Run != nil {
			t.Fatal("the same drift is applied again")
		}
		b.endChecks(state.RunSucceeded, missing("d"))
	}
	if found := b.task("task-0").Drifted(); found == nil || !found.Persists {
		t.Errorf("the task is drifted by %+v", found)
	}
	b.now = b.now.Add(24 * time.Hour)
	b.tick()
	b.endChecks(state.RunSucceeded, missing("another"))
	b.launcher.forget()
	if b.tickAfterEnd(); len(b.launcher.launches()) != 1 {
		t.Error("other drift is not applied")
	}
}

// What the runner of a check writes is the record of the check. The leader says what it means for the task.
func TestTick_TakesOverWhatACheckHasFound(t *testing.T) {
	b := newBench(t, driftTasks(1)...)
	b.settle()
	events := b.recording()
	check := func(outcome state.RunState, why string, found *state.Drifted) (state.Run, state.Drift) {
		t.Helper()
		b.now = b.now.Add(25 * time.Hour)
		report := b.tick()
		if len(report.Checks) != 1 {
			t.Fatalf("no check begins: %+v", b.task("task-0"))
		}
		planned := report.Checks[0].Runs[0]
		b.change(planned, func(run *state.Run) { run.Error = why })
		b.endChecks(outcome, found)
		b.now = b.now.Add(liveCheck)
		b.tick()
		task := b.task("task-0")
		if task.Drift.Run != nil || task.Failing.Count > 0 || !task.Failing.RetryAt.IsZero() || task.Ended.Last.Kind != state.KindApply || task.Observed.Recheck || task.Run != nil {
			t.Errorf("%s: the task reads %+v, %+v", outcome, task, task.Drift)
		}
		return b.run(planned).Data, *task.Drift
	}
	first, drift := check(state.RunSucceeded, "", missing("d"))
	if drift.Found == nil || drift.Found.Run != first.ID || !drift.Found.Since.Equal(first.Ended) || !drift.After.Equal(first.Ended) {
		t.Errorf("found is %+v", drift)
	}
	if _, drift = check(state.RunSuperseded, "service instances are others", nil); drift.Skipped != "service instances are others" || drift.Error != "" || drift.Found == nil {
		t.Errorf("skipped: %+v", drift)
	}
	if _, drift = check(state.RunFailed, "no route", nil); drift.Error != "no route" || drift.Skipped != "" || drift.Found == nil {
		t.Errorf("failed: %+v", drift)
	}
	if _, drift = check(state.RunSucceeded, "", nil); drift.Found != nil || drift.Error != "" {
		t.Errorf("nothing differs: %+v", drift)
	}
	if _, err := b.store.Get(t.Context(), state.RunKey("task-0", first.ID)); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("the first check is kept: %v", err)
	}
	if heard := events.heard(); !wants(heard, "drift_found(", "drift_check_failed(", "drift_ended") || strings.Contains(heard, " run_") {
		t.Errorf("events: %s", heard)
	}
	_, drift = check(state.RunInterrupted, "the time of the function is over", nil)
	if !drift.Interrupted || drift.Error != "" {
		t.Errorf("interrupted, it is not due at once: %+v", drift)
	}
	b.launcher.forget()
	b.now = b.now.Add(liveCheck)
	b.tick() // begins it again
	b.endChecks(state.RunInterrupted, nil)
	b.now = b.now.Add(liveCheck)
	b.tick()
	if drift = *b.task("task-0").Drift; drift.Run != nil || drift.Interrupted || !strings.Contains(drift.Error, "takes longer than the process lives") {
		t.Errorf("interrupted twice, it is begun again: %+v", drift)
	}
}

// wants reports whether a text has these parts, in this order.
func wants(text string, parts ...string) bool {
	for _, part := range parts {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return true
}

func TestTick_OutcomeOfACheckIsDroppedIfTheTaskHasRunSince(t *testing.T) {
	b := newBench(t, driftTasks(1)...)
	b.settle()
	b.now = b.now.Add(25 * time.Hour)
	report := b.tick()
	b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-0": "ann"}}))
	check := b.run(report.Checks[0].Runs[0])
	check.Data.State, check.Data.Ended, check.Data.Found = state.RunSucceeded, b.now, missing("d")
	b.must(b.store.Apply(t.Context(), check.Write(check.Data)))
	b.tickAfterEnd()
	if task := b.task("task-0"); task.Run == nil || task.Drifted() != nil {
		t.Errorf("a check from before the run counts: %+v", task.Drift)
	}
}
