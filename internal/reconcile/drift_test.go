package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	rules "github.com/terrapulse/terrapulse/internal/approval"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/block"
	"github.com/terrapulse/terrapulse/internal/drift"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/window"
)

// daily is checked once a day.
var daily = drift.Spec{Enabled: true, Every: 24 * time.Hour, Action: drift.Report}

// missing is what a check has found.
func missing(digest string) *state.Drifted {
	return &state.Drifted{Digest: digest, Count: 1, Resources: []state.DriftedResource{{Address: "a.b", Action: "create"}}, Changes: state.Changes{Add: 1}}
}

// once is true in one of so many cases: what rapid draws is spread evenly here.
func once(t *rapid.T, n uint64, what string) bool {
	return uint64(rapid.Uint32().Draw(t, what))*0x9E3779B97F4A7C15>>32%n == 1
}

// maybe is the value in one of twelve cases.
func maybe[T any](t *rapid.T, what string, value T) (drawn T) {
	if once(t, 12, what) {
		return value
	}
	return drawn
}

func or(value, other string) string {
	if value != "" {
		return value
	}
	return other
}

// anyInput is a task in any situation, with checks for drift.
func anyInput(t *rapid.T) Input {
	task := webTask()
	if rapid.Bool().Draw(t, "hourly") {
		task = hourlyTask()
	}
	task.Enabled = !once(t, 12, "disabled")
	if once(t, 12, "approval") {
		task.Approval = rules.Spec{Rule: rules.Always}
	}
	if once(t, 12, "window") {
		w, err := window.Window{Kind: window.Deny, Schedule: "0 * * * *", Duration: 30 * time.Minute, TimeZone: "UTC"}.Parse()
		if err != nil {
			t.Fatal(err)
		}
		task.Windows = []window.Window{w}
	}
	task.Drift = daily
	s := applied()
	live := &state.LiveRun{ID: "r1", Launch: "l1", Created: noon}
	s.Definition = or(maybe(t, "definition", "old"), "def")
	s.Observed = or(maybe(t, "observed", "B"), "A")
	s.Run = maybe(t, "run", live)
	if s.Run != nil && rapid.Bool().Draw(t, "waits") {
		waits := *live
		waits.Wait = &state.Wait{For: rapid.SampledFrom([]state.WaitFor{state.WaitApproval, state.WaitWindow, state.WaitRemote}).Draw(t, "for"), ID: "w1", Since: noon}
		s.Run = &waits
	}
	s.Pending = maybe(t, "pending", &state.Pending{First: noon, Latest: noon})
	s.Forced = maybe(t, "forced", "somebody")
	s.Doubt = maybe(t, "doubt", "a run went on")
	s.Held = maybe(t, "held", &state.Attempt{Definition: "def", Observed: "A"})
	s.HoldNext = maybe(t, "hold next", true)
	s.OnHold = maybe(t, "on hold", &state.OnHold{By: "ann", At: noon})
	s.Recheck = maybe(t, "recheck", true)
	s.UnreadableSince = maybe(t, "unreadable since", noon)
	s.Failures = maybe(t, "failures", 1)
	s.Last = maybe(t, "last", &state.Result{State: rapid.SampledFrom([]state.RunState{state.RunInterrupted, state.RunCancelled}).Draw(t, "ended")})
	if once(t, 12, "new") {
		s.AppliedAt = time.Time{}
	}
	if !once(t, 12, "no drift") {
		var found *state.Drifted
		if once(t, 2, "found") {
			found = missing("d")
		}
		s.Drift = &state.Drift{After: noon.Add(-time.Duration(rapid.IntRange(0, 48).Draw(t, "hours")) * time.Hour),
			Run: maybe(t, "check", &state.LiveRun{ID: "c1", Launch: "lc", Created: noon}), Found: found, Applied: maybe(t, "applied", "d")}
	}
	in := Input{Task: task, Definition: "def", State: s, Force: maybe(t, "force", "ann"), Check: rapid.Bool().Draw(t, "check")}
	if !once(t, 12, "unread") {
		in.Observed = &Observed{Digest: or(maybe(t, "shown", "B"), "A")}
	}
	in.Unreadable = maybe(t, "unreadable", errors.New("permission denied"))
	if in.Unreadable != nil {
		in.Observed = nil
	}
	in.Blocked = maybe(t, "blocked", errors.New("no Terraform"))
	in.Paused = maybe(t, "paused", &state.Paused{By: "ann", Since: noon})
	if s.Drift != nil && s.Drift.Run != nil {
		in.LostCheck = maybe(t, "lost check", &state.Run{ID: "c1", Task: "web", Kind: state.KindDrift, State: state.RunLost, Ended: noon})
	}
	if s.Run != nil && s.Run.Wait == nil {
		in.Lost = maybe(t, "lost", &state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunLost, Ended: noon})
	}
	return in
}

var butDrift = cmp.Options{cmpopts.IgnoreFields(state.Task{}, "Drift"), cmpopts.IgnoreFields(Decision{}, "Task", "LostCheck"), cmpopts.EquateErrors()}

// The properties below say nothing about checks and drift if their inputs never lead to any. The
// seeds are fixed, so that this does not depend on luck.
func TestDecide_TheInputsOfThePropertiesLeadToChecksAndDrift(t *testing.T) {
	checks, applies := 0, 0
	for seed := range 2000 {
		in := rapid.Custom(anyInput).Example(seed)
		if Decide([]Input{in}, noon)[0].Action == Check {
			checks++
		}
		in.Task.Drift.Action = drift.Apply
		if d := Decide([]Input{in}, noon)[0]; d.Action == Run && d.Reason.Code == state.ReasonDrift {
			applies++
		}
	}
	t.Logf("%d checks, %d applies", checks, applies)
	if checks < 20 || applies < 20 {
		t.Errorf("%d checks, %d runs that apply drift", checks, applies)
	}
}

func TestDecide_ChecksForDriftNeverCompeteWithWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		d := Decide([]Input{in}, noon)[0]

		without := in
		task := *in.Task
		task.Drift = drift.Default
		without.Task, without.State.Drift, without.LostCheck = &task, nil, nil
		plain := Decide([]Input{without}, noon)[0]

		was := d.Action
		if was == Check {
			d.Action = Wait
		}
		if diff := cmp.Diff(plain, d, butDrift); diff != "" {
			t.Fatalf("checks change what is decided (-without +with):\n%s", diff)
		}
		s := d.State
		switch was {
		case Run:
			if s.Drift != nil && s.Drift.Run != nil {
				t.Fatalf("a run leaves the check under way valid: %+v", s.Drift)
			}
		case Check:
			busy := s.Run != nil || s.Pending != nil || s.Forced != "" || s.Doubt != "" || s.Held != nil || s.HoldNext || s.OnHold != nil || s.Failures > 0 || s.Last != nil
			if busy || !task.Enabled || s.AppliedAt.IsZero() || s.Observed != s.Applied || s.Definition != "def" || in.Observed == nil || in.Blocked != nil || in.Paused != nil || s.Drift.Run != nil {
				t.Fatalf("a task with something to do is checked: %+v", s)
			}
			if noon.Sub(s.Drift.After) < 0 || s.Drift.Applied == "" && s.Drift.After.Equal(noon) {
				t.Fatalf("a check before its time: %+v", s.Drift)
			}
		}
	})
}

func TestDecide_DriftIsAppliedOnlyAtRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		in.Task.Drift.Action = drift.Apply
		d := Decide([]Input{in}, noon)[0]
		without := in
		task := *in.Task
		task.Drift = drift.Default
		without.Task, without.State.Drift, without.LostCheck = &task, nil, nil
		plain := Decide([]Input{without}, noon)[0]

		found := in.State.Drifted()
		if plain.Action != Wait && plain.Action != Note || plain.Reason.Code != state.ReasonUnchanged || found == nil {
			if d.Action == Check {
				d.Action = Wait
			}
			if d.Action != plain.Action || d.Reason != plain.Reason {
				t.Fatalf("drift changes what is decided: %v %+v, without %v %+v", d.Action, d.Reason, plain.Action, plain.Reason)
			}
		}
		if d.Action == Run && d.Reason.Code == state.ReasonDrift {
			open := !(len(task.Windows) > 0 && noon.Minute() < 30) || task.PlansFirst()
			if found == nil || found.Persists || in.State.OnHold != nil || in.State.Run != nil || !task.Enabled || in.Unreadable != nil || !open {
				t.Fatalf("drift is applied: %+v", in.State)
			}
		}
	})
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
		next, _ := record.Data.EndCheck(run.Data, found)
		b.must(b.store.Apply(b.t.Context(), run.Write(run.Data), record.Write(next)))
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
	if task := b.task("task-0"); task.Drift.Run != nil || task.Reason.Code != state.ReasonUnchanged || b.reconcileRecord().Tasks.Waiting > 0 {
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
		if task.Drift.Run != nil || task.Drift.Error == "" || task.Failures > 0 || !task.Drift.After.Equal(b.now) || task.Last.Kind != state.KindApply {
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
	if task := b.task("task-0"); task.Drift.Run != nil || task.Drift.Error == "" || task.Failures > 0 {
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
