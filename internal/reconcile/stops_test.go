package reconcile

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/condition"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
)

// stop is one way in which a task is stopped.
type stop struct {
	name   string
	begin  func(*bench) // on a bench with task-0, which was applied
	reason state.ReasonCode
	task   string // "" for task-0
	// endedByInput says that new input ends the stop.
	endedByInput bool
	// endedByAll says that a request to run all tasks ends the stop: no person has set it.
	endedByAll bool
}

// plansAnew has a run of task-0 wait with a plan.
func (b *bench) plansAnew() {
	b.t.Helper()
	b.catalog.set("B", nil)
	b.tick()
	run := b.launcher.launches()[0].Runs[0]
	b.claimed(run, "container")
	b.wait(run, planned)
	b.launcher.forget()
	b.tickAfterEnd()
}

func (b *bench) setEnabled(enabled bool) {
	b.t.Helper()
	if _, err := b.people().SetEnabled(b.t.Context(), "task-0", enabled, ChangeOptions{By: "ann"}); err != nil {
		b.t.Fatal(err)
	}
	b.tick()
}

// everyStop has the stops of a task, as docs/reasons.md describes them.
var everyStop = []stop{
	{name: "destroyed by hand", reason: state.ReasonHeld, begin: func(b *bench) {
		b.must(b.people().Destroy(b.t.Context(), "task-0", "ann"))
		b.tick()
		b.end(state.RunSucceeded, "")
	}},
	{name: "cancelled", reason: state.ReasonCancelled, endedByInput: true, begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.tick()
		b.must(b.people().Cancel(b.t.Context(), "task-0", "ann"))
	}},
	{name: "rejected", reason: state.ReasonRejected, endedByInput: true, begin: func(b *bench) {
		b.plansAnew()
		b.must(b.people().Reject(b.t.Context(), "task-0", "", "ann", "no"))
	}},
	{name: "on hold", reason: state.ReasonOnHold, begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.must(b.people().Hold(b.t.Context(), "task-0", "ann", ""))
	}},
	{name: "disabled", reason: state.ReasonDisabled, begin: func(b *bench) { b.setEnabled(false) }},
	{name: "enabled without a run", reason: state.ReasonHeld, endedByInput: true, begin: func(b *bench) {
		b.setEnabled(false)
		b.catalog.set("B", nil)
		b.setEnabled(true)
	}},
	{name: "made without a run", task: "made", reason: state.ReasonHeld, endedByInput: true, begin: func(b *bench) {
		b.must(b.people().Create(b.t.Context(), json.RawMessage(made), ChangeOptions{By: "ann"}))
	}},
	{name: "paused", reason: state.ReasonPaused, begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.must(b.people().PauseAll(b.t.Context(), "ann", ""))
	}},
	{name: "waits for an approval", reason: state.ReasonWaiting, endedByInput: true, begin: (*bench).plansAnew},
	{name: "backing off", reason: state.ReasonBackoff, endedByInput: true, endedByAll: true, begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.tick()
		b.end(state.RunFailed, "")
	}},
}

func eachStop(t *testing.T, then func(b *bench, s stop)) {
	for _, s := range everyStop {
		t.Run(s.name, func(t *testing.T) {
			b := newBench(t, tasks(1)...)
			b.settle()
			b.launcher.forget()
			s.begin(b)
			b.tickAfterEnd()
			s.task = cmp.Or(s.task, "task-0")
			if got := b.task(s.task).Reason; got.Code != s.reason {
				t.Fatalf("the task is not %s: %+v", s.name, got)
			}
			b.launcher.forget()
			then(b, s)
		})
	}
}

// leads has another process begin to lead.
func (b *bench) leads() {
	b.t.Helper()
	b.Reconciler = b.another(b.Config.Tasks)
	b.must(b.Tick(b.t.Context(), TickOptions{Leads: true}))
	b.tick()
}

func TestTick_NewLeadershipEndsNoStop(t *testing.T) {
	eachStop(t, func(b *bench, s stop) {
		b.leads()
		if got := b.task(s.task); b.begun(s.task) != 0 || got.Reason.Code != s.reason || got.Forced != "" {
			b.t.Errorf("%d runs begin: %+v, requested by %q", b.begun(s.task), got.Reason, got.Forced)
		}
	})
}

func TestTick_NewInputEndsAStopOnlyWhereItShould(t *testing.T) {
	eachStop(t, func(b *bench, s stop) {
		b.catalog.set("C", nil)
		b.tick()
		b.tick() // after the first has ended a waiting run
		if begins := b.begun(s.task) != 0; begins != s.endedByInput {
			b.t.Errorf("a run begins: %v: %+v", begins, b.task(s.task).Reason)
		}
	})
}

func TestOnce_RunsNothingThatAPersonHasStopped(t *testing.T) {
	eachStop(t, func(b *bench, s stop) {
		b.Reconciler = b.another(b.Config.Tasks)
		outcomes, err := b.Once(b.t.Context(), func() {})
		b.must(err)
		if begins := b.begun(s.task) != 0; begins != s.endedByAll {
			b.t.Errorf("a run begins: %v: %+v", begins, b.task(s.task).Reason)
		}
		i := slices.IndexFunc(outcomes, func(o Outcome) bool { return o.Task == s.task })
		if o := outcomes[i]; !s.endedByAll && (o.Failed() || o.Waits() == (s.reason == state.ReasonDisabled)) {
			b.t.Errorf("the outcome is %+v: waits %v, failed %v", o, o.Waits(), o.Failed())
		}
		// The request is not kept for later either.
		if got := b.task(s.task); s.reason != state.ReasonPaused && got.Forced != "" {
			b.t.Errorf("a run is requested by %q", got.Forced)
		}
	})
}

func TestTick_RequestForOneTaskEndsWhatAPersonHasEnded(t *testing.T) {
	eachStop(t, func(b *bench, s stop) {
		b.must(b.Tick(b.t.Context(), TickOptions{Force: map[string]string{s.task: "bob"}}))
		switch s.reason {
		case state.ReasonOnHold, state.ReasonDisabled, state.ReasonPaused, state.ReasonWaiting:
			if b.begun(s.task) != 0 {
				b.t.Errorf("a run begins")
			}
		default:
			if b.begun(s.task) != 1 {
				b.t.Errorf("no run begins: %+v", b.task(s.task).Reason)
			}
		}
	})
}

func TestTick_NewDefinitionMakesAgainWhatWasDestroyedByHand(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	everyStop[0].begin(b)
	b.tickAfterEnd()
	b.launcher.forget()
	b.Config.Tasks[0].Module, b.effective = "./other", nil
	b.tick()
	if b.begun("task-0") != 1 {
		t.Errorf("no run begins: %+v", b.task("task-0").Reason)
	}
}

func TestTick_DestroyByHandHoldsTheDefinitionThatItDestroyed(t *testing.T) {
	redefined := func(b *bench, module string) {
		b.Config.Tasks[0].Module, b.effective = module, nil
		b.tick()
	}
	destroyed := func(t *testing.T, then func(b *bench, module string)) {
		b := newBench(t, tasks(1)...)
		b.settle()
		module := b.Config.Tasks[0].Module
		b.must(b.people().Destroy(t.Context(), "task-0", "ann"))
		b.tick()
		b.end(state.RunSucceeded, "")
		b.launcher.forget()
		then(b, module)
	}
	t.Run("another one, which came during the destroy, is applied", func(t *testing.T) {
		destroyed(t, func(b *bench, _ string) {
			redefined(b, "./other")
			if b.begun("task-0") != 1 {
				t.Errorf("no run begins: %+v", b.task("task-0").Reason)
			}
		})
	})
	t.Run("another one, which comes and goes during a pause, ends nothing", func(t *testing.T) {
		destroyed(t, func(b *bench, module string) {
			b.pause()
			redefined(b, "./other")
			redefined(b, module)
			b.resume()
			b.tick()
			if r := b.task("task-0").Reason; b.begun("task-0") != 0 || r.Code != state.ReasonHeld {
				t.Errorf("%d runs begin: %+v", b.begun("task-0"), r)
			}
		})
	})
}

func TestTick_DisabledTaskStaysDisabledWithANewDefinition(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.setEnabled(false)
	b.launcher.forget()
	b.Config.Tasks[0].Module, b.effective = "./other", nil
	b.tick()
	if got := b.task("task-0").Reason; b.begun("task-0") != 0 || got.Code != state.ReasonDisabled {
		t.Errorf("%d runs begin: %+v", b.begun("task-0"), got)
	}
}

func TestTick_EnabledTaskWithNothingPendingIsNotHeld(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.setEnabled(false)
	b.setEnabled(true)
	if got := b.task("task-0"); got.Reason.Code != state.ReasonUnchanged || got.Held != nil {
		t.Errorf("it is %+v, held on %+v", got.Reason, got.Held)
	}
}

// weekly is a task that runs on Thursdays, if the instances of web have changed.
func weekly() []config.Task {
	all := tasks(1)
	all[0].Condition = config.Condition{Spec: condition.Schedule{Cron: "0 12 * * 4"}}
	all[0].ModuleInputs = []condition.Spec{condition.Services{{Names: []string{"web"}}}}
	return all
}

// scheduledPlan is a bench with a weekly task whose run of this week waits with a plan.
func scheduledPlan(t *testing.T) (*bench, state.PlannedRun) {
	b := newBench(t, weekly()...)
	b.settle()
	b.launcher.forget()
	b.catalog.set("B", nil)
	b.now = b.now.Add(8 * 24 * time.Hour)
	b.tick()
	run := b.launcher.launches()[0].Runs[0]
	if b.run(run).Data.Reason.Code != state.ReasonSchedule {
		t.Fatalf("the run is %+v", b.run(run).Data)
	}
	b.claimed(run, "container")
	b.wait(run, state.Wait{For: state.WaitApproval, ID: "w1", Text: "3 to destroy", Content: &state.Content{Plan: "p"}, Rules: b.Config.Tasks[0].RulesDigest()})
	b.launcher.forget()
	b.tickAfterEnd()
	return b, run
}

func TestWaiting_ScheduledRunThatIsReplacedIsFollowedByAnother(t *testing.T) {
	for name, replace := range map[string]func(*bench, state.PlannedRun){
		"its limits change": func(b *bench, _ state.PlannedRun) {
			b.Config.Tasks[0].Guard.Enabled, b.effective = true, nil
		},
		"held and released after the approval": func(b *bench, _ state.PlannedRun) {
			b.must(b.people().Approve(b.t.Context(), "task-0", "", ann("")))
			b.tick() // it is to go on
			b.must(b.people().Hold(b.t.Context(), "task-0", "bob", "one moment"))
			b.tick()
			b.must(b.people().Release(b.t.Context(), "task-0", "bob"))
		},
		"paused and resumed after the approval": func(b *bench, run state.PlannedRun) {
			b.must(b.people().Approve(b.t.Context(), "task-0", "", ann("")))
			b.tick()
			b.must(b.people().PauseAll(b.t.Context(), "bob", ""))
			b.end(state.RunSuperseded, "") // the runner finds the pause
			b.tickAfterEnd()
			b.must(b.people().ResumeAll(b.t.Context(), "bob", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, run := scheduledPlan(t)
			replace(b, run)
			b.launcher.forget()
			for range 3 {
				b.now = b.now.Add(time.Minute)
				b.tick()
			}
			if got := b.run(run).Data.State; got != state.RunSuperseded {
				t.Fatalf("the run is %s", got)
			}
			launches := b.launcher.launches()
			if len(launches) != 1 {
				t.Fatalf("no run follows before the next time of the schedule: %+v", b.task("task-0").Reason)
			}
			if got := b.run(launches[0].Runs[0]).Data.Reason; got.Code != state.ReasonSchedule && got.Code != state.ReasonForced {
				t.Errorf("the run that follows has the reason %+v", got)
			}
			b.end(state.RunSucceeded, "B")
			b.tickAfterEnd()
			if next := b.task("task-0").Due; next.Sub(b.now) < 24*time.Hour {
				t.Errorf("applied, it is due again at %s", next)
			}
		})
	}
}

func TestTick_ScheduleEndsACancelNotARejection(t *testing.T) {
	for _, rejected := range []bool{false, true} {
		b, _ := scheduledPlan(t)
		if rejected {
			b.must(b.people().Reject(t.Context(), "task-0", "", "ann", "no"))
		} else {
			b.must(b.people().Cancel(t.Context(), "task-0", "ann"))
		}
		b.tickAfterEnd()
		if b.begun("task-0") != 0 {
			t.Fatalf("rejected %v: it runs at once", rejected)
		}
		b.now = b.now.Add(7 * 24 * time.Hour)
		b.tick()
		if runs := b.begun("task-0") != 0; runs == rejected {
			t.Errorf("rejected %v: at its next time, it runs: %v: %+v", rejected, runs, b.task("task-0").Reason)
		}
		if !rejected {
			continue
		}
		b.catalog.set("C", nil)
		b.now = b.now.Add(24 * time.Hour)
		b.tick()
		if b.begun("task-0") != 0 {
			t.Error("rejected, and with new input, it runs before its next time")
		}
		b.now = b.now.Add(7 * 24 * time.Hour)
		b.tick()
		if b.begun("task-0") != 1 {
			t.Errorf("rejected, and with new input, it does not run at its next time: %+v", b.task("task-0").Reason)
		}
	}
}

func TestLoop_LeaseRegainedAfterAnOutageRunsOnlyWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, tasks(3)...)
		var down atomic.Bool
		b.store.Before = func([]state.Change) error {
			if down.Load() {
				return errors.New("no cluster leader")
			}
			return nil
		}
		b.start()
		b.finish()
		pass(time.Minute)
		b.must(b.people().Destroy(t.Context(), "task-0", "ann"))
		pass(10 * time.Second)
		b.bench.now = time.Now()
		b.bench.end(state.RunSucceeded, "")
		pass(time.Minute)
		if r := b.task("task-0").Reason; r.Code != state.ReasonHeld {
			t.Fatalf("%+v", r)
		}
		b.launcher.forget()
		outage := func() {
			down.Store(true)
			pass(b.LeaseTTL + 5*time.Second)
			down.Store(false)
			pass(time.Minute)
		}
		outage()
		if got := b.launched(); len(got) != 0 {
			t.Errorf("nothing has changed, and these tasks run: %v", got)
		}
		b.catalog.set("B", nil) // and no gate shows it: the first tick reads everything
		outage()
		if got := b.launched(); !slices.Equal(got, []string{"task-1", "task-2"}) {
			t.Errorf("Consul has changed, and these tasks run: %v", got)
		}
	})
}
