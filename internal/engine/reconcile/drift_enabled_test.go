package reconcile

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
)

// underCheckBench has one task, which was applied and is checked for drift.
func underCheckBench(t *testing.T, action drift.Action) *bench {
	t.Helper()
	all := driftTasks(1)
	all[0].Drift.Action = action
	b := newBench(t, all...)
	b.settle()
	b.now = b.now.Add(25 * time.Hour)
	if report := b.tick(); len(report.Checks) != 1 {
		t.Fatalf("no check begins: %+v", b.task("task-0").Drift)
	}
	b.launcher.forget()
	return b
}

// switched disables or enables the task without a tick.
func (b *bench) switched(enabled bool, opts control.ChangeOptions) {
	b.t.Helper()
	opts.By = "ann"
	_, err := b.people().SetEnabled(b.t.Context(), "task-0", enabled, opts)
	b.must(err)
}

func TestEnable_CheckUnderWayCountsIfNoTickSawTheTaskDisabled(t *testing.T) {
	b := underCheckBench(t, drift.Report)
	b.switched(false, control.ChangeOptions{})
	b.switched(true, control.ChangeOptions{})
	b.tick()
	if b.endChecks(state.RunSucceeded, missing("d")) != 1 {
		t.Fatal("the check is dropped")
	}
	b.tickAfterEnd()
	if s := b.task("task-0"); s.Drifted() == nil || s.Stop != nil || b.begun("task-0") != 0 {
		t.Errorf("the task reads %+v", s)
	}
}

func TestEnable_TaskWhoseCheckWasDroppedIsCheckedAgainAtOnce(t *testing.T) {
	b := underCheckBench(t, drift.Report)
	first := *b.task("task-0").Drift.Run
	b.switched(false, control.ChangeOptions{})
	if b.tick(); b.task("task-0").Drift.Run != nil {
		t.Fatal("a disabled task is under check")
	}
	b.now = b.now.Add(liveCheck)
	if report := b.tick(); len(report.Checks) != 0 {
		t.Fatal("a disabled task is checked")
	}
	b.switched(true, control.ChangeOptions{})
	b.tick()
	b.now = b.now.Add(liveCheck)
	b.tick()
	s := b.task("task-0")
	if s.Stop != nil || s.Run != nil || s.Drift.Run == nil || s.Drift.Run.ID == first.ID {
		t.Errorf("the task reads %+v, its check %+v", s, s.Drift)
	}
}

func TestEnable_RunOfAProvisionalChangeDropsTheCheck(t *testing.T) {
	b := underCheckBench(t, drift.Apply)
	b.switched(true, control.ChangeOptions{Provisional: true})
	b.tick()
	if s := b.task("task-0"); b.begun("task-0") != 1 || s.Drift.Run != nil {
		t.Fatalf("%d runs begin, the check is %+v", b.begun("task-0"), s.Drift.Run)
	}
	b.end(state.RunSucceeded, "A")
	b.launcher.forget()
	b.tickAfterEnd()
	if s := b.task("task-0"); s.Drifted() != nil || b.begun("task-0") != 0 || b.override("task-0").Exists() {
		t.Errorf("the task reads %+v, and is run %d times", s, b.begun("task-0"))
	}
}

// What is found after a task was enabled is news, as new input is. What was found before is not:
// the task was enabled without a run.
func TestEnable_OnlyDriftThatIsFoundAfterwardsIsApplied(t *testing.T) {
	t.Run("found afterwards", func(t *testing.T) {
		b := underCheckBench(t, drift.Apply)
		b.switched(false, control.ChangeOptions{})
		b.switched(true, control.ChangeOptions{})
		b.tick()
		b.endChecks(state.RunSucceeded, missing("d"))
		b.tickAfterEnd()
		if s := b.task("task-0"); b.begun("task-0") != 1 || s.Reason.Code != state.ReasonDrift {
			t.Errorf("%d runs begin: %+v", b.begun("task-0"), s.Reason)
		}
	})
	t.Run("found before", func(t *testing.T) {
		b := underCheckBench(t, drift.Apply)
		b.switched(false, control.ChangeOptions{})
		b.endChecks(state.RunSucceeded, missing("d"))
		b.tickAfterEnd()
		b.switched(true, control.ChangeOptions{})
		b.tick()
		if s := b.task("task-0"); b.begun("task-0") != 0 || s.Reason.Code != state.ReasonHeld || s.Drifted() == nil {
			t.Errorf("%d runs begin: %+v", b.begun("task-0"), s.Reason)
		}
		b.catalog.set("B", nil)
		b.tick()
		if b.begun("task-0") != 1 {
			t.Errorf("no run begins with new input: %+v", b.task("task-0").Reason)
		}
	})
}
