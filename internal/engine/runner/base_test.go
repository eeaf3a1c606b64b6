package runner

import (
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// decided is the time of the leader at which the intended run was decided; the clock of the runner
// differs by ahead.
func (j *judging) decided(after, ahead time.Duration) {
	j.t.Helper()
	rec, err := state.Read[state.Run](j.t.Context(), j.store, state.RunKey("web", j.launch.Runs[0].ID))
	if err == nil {
		next := rec.Data
		next.Created = noon.Add(after)
		_, err = j.store.Apply(j.t.Context(), rec.Write(next))
	}
	if err != nil {
		j.t.Fatal(err)
	}
	j.Runner.Now = func() time.Time { return noon.Add(after + ahead) }
}

// step applies a number of instances at a time.
func (j *judging) step(after time.Duration, count int) state.Run {
	j.t.Helper()
	j.decided(after, 0)
	j.consul.count = count
	return j.apply()
}

// shrunk is a task that had 60 instances until a minute after noon, and has 35 since then.
func shrunk(t *testing.T, rules config.Rules) *judging {
	t.Helper()
	j := newJudging(t, rules)
	if run := j.step(time.Minute, 35); run.State != state.RunSucceeded {
		t.Fatalf("%s %s", run.State, run.Error)
	}
	return j
}

func TestBase_ALossInStepsWaitsUntilTheWindowHasPassed(t *testing.T) {
	j := shrunk(t, config.Rules{Guard: guard.Default})
	run := j.step(2*time.Minute, 25)
	j.waits(run, "35 of the 60 service instances that were applied within the last 15m are gone (10 since the last apply: web-25", state.RuleInputGuard)
	if want := noon.Add(16 * time.Minute); !run.Wait.Again.Equal(want) {
		t.Errorf("it is judged again at %s, want %s", run.Wait.Again, want)
	}
	if peaks := j.task().Applied.Counts[0].Peaks; len(peaks) != 1 || peaks[0].Count != 60 {
		t.Errorf("while the run waits, the record has %v", peaks)
	}
	j = shrunk(t, config.Rules{Guard: guard.Default})
	if run = j.step(16*time.Minute, 25); run.State != state.RunSucceeded {
		t.Errorf("after the window: %s %v", run.State, run.Wait)
	}
}

func TestBase_TimeDoesNotPermitWhatAnotherRuleHolds(t *testing.T) {
	rules := config.Rules{Guard: guard.Default}
	rules.Approval.Rule = "always"
	j := newJudging(t, config.Rules{Guard: guard.Default})
	j.step(time.Minute, 35)
	j.Config().Tasks[0].Rules = rules
	run := j.step(2*time.Minute, 25)
	j.waits(run, "35 of the 60", state.RuleInputGuard, state.RuleApproval)
	if !run.Wait.Again.IsZero() {
		t.Errorf("it is judged again at %s", run.Wait.Again)
	}
}

func TestBase_AnApprovalCountsOnceItIsApplied(t *testing.T) {
	j := shrunk(t, config.Rules{Guard: guard.Default})
	j.step(2*time.Minute, 25)
	j.driver.failsLate = errors.New("the firewall does not answer")
	if run := j.resume(time.Time{}); run.State != state.RunFailed {
		t.Fatalf("%s %v", run.State, run.Wait)
	}
	if peaks := j.task().Applied.Counts[0].Peaks; len(peaks) != 1 {
		t.Errorf("after a failed apply, the record has %v", peaks)
	}
	j.driver.failsLate = nil
	j.waits(j.step(3*time.Minute, 24), "36 of the 60", state.RuleInputGuard)
	if run := j.resume(time.Time{}); run.State != state.RunSucceeded {
		t.Fatalf("%s %s %v", run.State, run.Error, run.Wait)
	}
	if peaks := j.task().Applied.Counts[0].Peaks; len(peaks) != 0 {
		t.Errorf("after the approved apply, the record has %v", peaks)
	}
	if run := j.step(4*time.Minute, 12); run.State != state.RunSucceeded {
		t.Errorf("half of what was approved: %s %v", run.State, run.Wait)
	}
	j.waits(j.step(5*time.Minute, 11), "13 of the 24", state.RuleInputGuard)
}

func TestBase_AClockThatIsAheadEndsNoWindow(t *testing.T) {
	for _, ahead := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		j := shrunk(t, config.Rules{Guard: guard.Default})
		j.decided(2*time.Minute, ahead)
		j.consul.count = 34
		if run := j.apply(); run.State != state.RunSucceeded {
			t.Fatalf("%s %v", run.State, run.Wait)
		}
		j.decided(3*time.Minute, ahead)
		j.consul.count = 25
		run := j.apply()
		j.waits(run, "35 of the 60", state.RuleInputGuard)
		if again := run.Wait.Again; again.After(noon.Add(18*time.Minute)) || again.Before(noon.Add(16*time.Minute)) {
			t.Errorf("with a clock %s ahead, it is judged again at %s", ahead, again)
		}
	}
}

func TestBase_AClockThatIsBehindForgetsNothing(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	j.decided(time.Hour, -time.Hour)
	j.consul.count = 35
	j.apply()
	j.waits(j.step(time.Hour+time.Minute, 25), "35 of the 60", state.RuleInputGuard)
}

func TestBase_WhatIsAppliedWithoutAGuardIsANewBase(t *testing.T) {
	for name, off := range map[string]guard.Spec{"off": {}, "no window": {Enabled: true, MaxRemovedPercent: 100}} {
		j := newJudging(t, config.Rules{Guard: off})
		j.step(time.Minute, 20)
		j.Config().Tasks[0].Rules.Guard = guard.Default
		if run := j.step(2*time.Minute, 12); run.State != state.RunSucceeded {
			t.Errorf("%s: %s %v", name, run.State, run.Wait)
		}
	}
}

func TestBase_ThePlanGuardComparesWithTheMostThatTheStateHadWithinTheWindow(t *testing.T) {
	spec := guard.Default
	spec.MaxDestroy = new(5)
	j := newJudging(t, config.Rules{Guard: spec})
	plans := func(serial string, inState, destroys int) {
		j.driver.plan.State, j.driver.plan.InState, j.driver.plan.Changes = "lineage/"+serial, new(inState), &state.Changes{Destroy: destroys}
	}
	plans("1", 60, 3)
	j.driver.failsLate = errors.New("the firewall does not answer")
	if run := j.step(time.Minute, 59); run.State != state.RunFailed {
		t.Fatalf("%s %v", run.State, run.Wait)
	}
	plans("2", 58, 1) // two are destroyed
	j.driver.failsLate = nil
	if run := j.step(2*time.Minute, 59); run.State != state.RunSucceeded {
		t.Fatalf("the rest of a plan within its limit: %s %v", run.State, run.Wait)
	}
	plans("3", 57, 3)
	run := j.step(3*time.Minute, 58)
	j.waits(run, "6 of 60 resources would be destroyed or replaced within 15m, 3 of them by this plan, and max_destroy is 5; it is judged again at 2086-03-14T12:16:00Z", state.RulePlanGuard)
	if run = j.resume(time.Time{}); run.State != state.RunSucceeded || j.task().Applied.Sizes.Latest != nil {
		t.Errorf("approved: %s %v, %v", run.State, run.Wait, j.task().Applied.Sizes)
	}
	plans("4", 54, 5)
	if run = j.step(4*time.Minute, 57); run.State != state.RunSucceeded {
		t.Errorf("after the approval: %s %v", run.State, run.Wait)
	}
}
