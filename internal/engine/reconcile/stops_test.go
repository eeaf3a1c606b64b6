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

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// setUp brings task-0 of a bench, which was applied, into a stop of lifecycle.Stops.
type setUp struct {
	task  string // the task that is stopped; "" for task-0
	begin func(*bench)
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
	if _, err := b.people().SetEnabled(b.t.Context(), "task-0", enabled, control.ChangeOptions{By: "ann"}); err != nil {
		b.t.Fatal(err)
	}
	b.tick()
}

// setUps has each stop of lifecycle.Stops, by its name.
var setUps = map[string]setUp{
	"disabled": {begin: func(b *bench) { b.setEnabled(false) }},
	"on hold": {begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.must(b.people().Hold(b.t.Context(), "task-0", "ann", ""))
	}},
	"paused": {begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.must(b.people().PauseAll(b.t.Context(), "ann", ""))
	}},
	"plan rejected": {begin: func(b *bench) {
		b.plansAnew()
		b.must(b.people().Reject(b.t.Context(), "task-0", "", "ann", "no"))
	}},
	"run cancelled": {begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.tick()
		b.must(b.people().Cancel(b.t.Context(), "task-0", "ann"))
	}},
	"destroyed by hand": {begin: (*bench).destroysByHand},
	"created without a run": {task: "made", begin: func(b *bench) {
		b.must(b.people().Create(b.t.Context(), json.RawMessage(made), control.ChangeOptions{By: "ann"}))
	}},
	"enabled without a run": {begin: func(b *bench) {
		b.setEnabled(false)
		b.catalog.set("B", nil)
		b.setEnabled(true)
	}},
	"plan waits for an approval": {begin: (*bench).plansAnew},
	"outside its window": {begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.closesWindow()
	}},
	"after another task": {begin: func(b *bench) {
		all := append(b.Config.Tasks[:1:1], tasks(2)[1])
		all[0].After = []string{"task-1"}
		b.reload(all...)
		b.end(state.RunSucceeded, "A")
		b.tickAfterEnd()
		b.must(b.people().Hold(b.t.Context(), "task-1", "ann", ""))
		b.catalog.set("B", nil)
	}},
	"Consul was replaced": {begin: func(b *bench) {
		b.must(state.SaveInputs(b.t.Context(), b.store, "task-0", state.Inputs{Elements: map[string]string{"A": "1"}}))
		b.catalog.set("B", nil)
		b.replacesConsul(newConsul)
	}},
	"perhaps renamed": {task: "new", begin: func(b *bench) { b.reload(renamedTask("")) }},
	"state not saved": {begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.tick()
		b.endsUnsaved("task-0", "cts-02")
	}},
	"unreadable": {begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.catalog.closed = 1
	}},
	"blocked": {begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.blocks("task-0")
	}},
	"broken record": {begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.corrupt(state.TaskKey("task-0"))
	}},
	"backing off": {begin: func(b *bench) {
		b.catalog.set("B", nil)
		b.tick()
		b.end(state.RunFailed, "")
	}},
	"buffering": {begin: func(b *bench) {
		b.Config.Tasks[0].BufferPeriod, b.effective = config.BufferPeriod{Enabled: true, Min: time.Minute, Max: 10 * time.Minute}, nil
		b.catalog.set("B", nil)
	}},
	"queued": {begin: func(b *bench) {
		b.reload(tasks(27)...)
		b.end(state.RunSucceeded, "A")
		b.tickAfterEnd()
		b.must(b.people().Hold(b.t.Context(), "task-0", "ann", ""))
		b.MaxLaunches = 1
		b.catalog.set("B", nil)
		b.launcher.forget()
		b.tick() // launches most of the others
		for _, run := range b.launcher.launches()[0].Runs {
			b.claimed(run, "container")
		}
		b.must(b.people().Release(b.t.Context(), "task-0", "ann"))
	}},
	"removed": {begin: func(b *bench) {
		b.reload()
		b.removed()
	}},
}

func (b *bench) destroysByHand() {
	b.t.Helper()
	b.must(b.people().Destroy(b.t.Context(), "task-0", "ann"))
	b.tick()
	b.end(state.RunSucceeded, "")
}

// closesWindow puts windows in force that are never open.
func (b *bench) closesWindow() {
	for i := range b.Config.Tasks {
		b.Config.Tasks[i].Windows = closed()
	}
	b.effective = nil
}

// replacesConsul has Consul show another identity.
func (b *bench) replacesConsul(is state.Identity) {
	b.catalog.mu.Lock()
	defer b.catalog.mu.Unlock()
	b.catalog.identity = is
}

// blocks has this process be unable to run a task.
func (b *bench) blocks(task string) {
	b.Blocked = func() map[string]error { return map[string]error{task: errors.New("no module")} }
}

// redefines puts another definition of all tasks in force.
func (b *bench) redefines() {
	for i := range b.Config.Tasks {
		b.Config.Tasks[i].Module = "./other"
	}
	b.effective = nil
}

// restarts has another process take the place of this one.
func (b *bench) restarts() {
	before := b.Reconciler
	b.Reconciler = b.another(b.Config.Tasks)
	b.Blocked, b.MaxLaunches = before.Blocked, before.MaxLaunches
}

// reasonOf returns why the task does not run.
func (b *bench) reasonOf(task string) state.ReasonCode {
	b.t.Helper()
	record, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey(task))
	if errors.As(err, new(*state.CorruptError)) {
		return state.ReasonCorrupt
	}
	b.must(err)
	return record.Data.Reason.Code
}

// requested returns who requested a run of the task that is still to come.
func (b *bench) requested(task string) string {
	record, _ := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey(task)) // a broken record has none
	return record.Data.Forced.By
}

// stopped returns a bench with a task in a stop, and the task's name.
func stopped(t *testing.T, s lifecycle.Stop) (*bench, string) {
	t.Helper()
	with, ok := setUps[s.Name]
	if !ok {
		t.Fatalf("no test knows how a task gets into the stop %q", s.Name)
	}
	b := newBench(t, tasks(1)...)
	b.catalog.identity = oldConsul
	b.settle()
	b.launcher.forget()
	with.begin(b)
	b.tickAfterEnd()
	task := cmp.Or(with.task, "task-0")
	if got := b.reasonOf(task); got != s.Reason {
		t.Fatalf("the task is not %s: %s", s.Name, got)
	}
	b.launcher.forget()
	return b, task
}

// happen has an event happen to the task, and returns the error that a person sees.
func (b *bench) happen(event lifecycle.Event, task string) error {
	b.t.Helper()
	switch event {
	case lifecycle.OnStart:
		b.leads()
		return nil
	case lifecycle.OnDisable:
		for _, enabled := range []bool{false, true} {
			if _, err := b.people().SetEnabled(b.t.Context(), task, enabled, control.ChangeOptions{By: "ann"}); err != nil {
				return err
			}
			b.tick()
		}
	case lifecycle.OnInput:
		b.catalog.set("C", nil)
	case lifecycle.OnDefinition:
		b.redefines()
	case lifecycle.OnRequest:
		if _, err := b.people().Force(b.t.Context(), task, "bob"); err != nil {
			return err
		}
	case lifecycle.OnOnce:
		b.restarts()
		if b.MaxLaunches > 0 { // Once would wait for room
			b.must(b.Tick(b.t.Context(), TickOptions{Force: map[string]string{task: "-once"}}))
			return nil
		}
		_, err := b.Once(b.t.Context(), func() {})
		return err
	default:
		b.t.Fatalf("no test knows the event %s", lifecycle.Events[event])
	}
	b.tick()
	b.tick() // after the first has ended a waiting run
	return nil
}

// effect returns what has become of a stop.
func (b *bench) effect(s lifecycle.Stop, task string, err error) lifecycle.Effect {
	b.t.Helper()
	switch is := b.reasonOf(task); {
	case err != nil:
		return lifecycle.Refused
	case b.begun(task) > 0:
		return lifecycle.Ends
	case is == s.Reason && b.requested(task) != "":
		return lifecycle.Deferred
	case is == s.Reason:
		return lifecycle.Keeps
	case is == state.ReasonHeld:
		return lifecycle.Holds
	default:
		return lifecycle.Ends
	}
}

// Renames are tried by TestRename_StopsOfATaskGoAlong.
func TestStops_EachEventDoesWhatTheTableSays(t *testing.T) {
	for _, s := range lifecycle.Stops {
		for event, want := range s.On {
			if want == lifecycle.Never {
				continue
			}
			t.Run(s.Name+"/"+lifecycle.Events[event], func(t *testing.T) {
				b, task := stopped(t, s)
				err := b.happen(lifecycle.Event(event), task)
				if got := b.effect(s, task, err); got != want {
					t.Errorf("the stop %s, want %s: %s (%v), %d runs begin", got, want, b.reasonOf(task), err, b.begun(task))
				}
			})
		}
	}
}

// leads has another process begin to lead.
func (b *bench) leads() {
	b.t.Helper()
	b.restarts()
	b.must(b.Tick(b.t.Context(), TickOptions{Leads: true}))
	b.tick()
}

func TestOnce_SaysWhatItDoesNotRun(t *testing.T) {
	for _, s := range lifecycle.Stops {
		if s.On[lifecycle.OnOnce] == lifecycle.Ends || s.Reason == state.ReasonRemoved || s.Reason == state.ReasonQueued {
			continue // -once says nothing of a removed task, and waits for room
		}
		t.Run(s.Name, func(t *testing.T) {
			b, task := stopped(t, s)
			b.restarts()
			outcomes, err := b.Once(t.Context(), func() {})
			b.must(err)
			i := slices.IndexFunc(outcomes, func(o Outcome) bool { return o.Task == task })
			o := outcomes[i]
			fails := s.Reason == state.ReasonUnreadable || s.Reason == state.ReasonBlocked || s.Reason == state.ReasonUnsaved || s.Reason == state.ReasonCorrupt
			if waits := s.Reason != state.ReasonDisabled && !fails; o.Failed() != fails || o.Waits() != waits {
				t.Errorf("the outcome is %+v: waits %v, failed %v", o, o.Waits(), o.Failed())
			}
		})
	}
}

func TestTick_NewDefinitionMakesAgainWhatWasDestroyedByHand(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.destroysByHand()
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
			if r := b.task("task-0").Reason; b.begun("task-0") != 0 || r.Code != state.ReasonDestroyed {
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
	if got := b.task("task-0"); got.Reason.Code != state.ReasonUnchanged || got.Stop != nil {
		t.Errorf("it is %+v, stopped for %+v", got.Reason, got.Stop)
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
			b.must(b.people().Approve(b.t.Context(), "task-0", "", ann, ""))
			b.tick() // it is to go on
			b.must(b.people().Hold(b.t.Context(), "task-0", "bob", "one moment"))
			b.tick()
			b.must(b.people().Release(b.t.Context(), "task-0", "bob"))
		},
		"paused and resumed after the approval": func(b *bench, run state.PlannedRun) {
			b.must(b.people().Approve(b.t.Context(), "task-0", "", ann, ""))
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
		if r := b.task("task-0").Reason; r.Code != state.ReasonDestroyed {
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

// What a person does to a destroyed task without requesting a run does not make new input enough.
func TestStops_DestroyedTaskStaysSoWhateverElseStopsIt(t *testing.T) {
	for name, act := range map[string]func(*bench){
		"another destroy is cancelled": func(b *bench) {
			b.must(b.people().Destroy(b.t.Context(), "task-0", "ann"))
			b.tick()
			b.must(b.people().Cancel(b.t.Context(), "task-0", "ann"))
		},
		"disabled, and enabled without a run": func(b *bench) {
			b.setEnabled(false)
			b.tick()
			b.setEnabled(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tasks(1)...)
			b.settle()
			b.destroysByHand()
			b.tickAfterEnd()
			act(b)
			b.tickAfterEnd()
			b.launcher.forget()
			b.catalog.set("B", nil)
			b.tick()
			if run := b.runs("task-0"); run != nil || b.task("task-0").Reason.Code != state.ReasonDestroyed {
				t.Errorf("new input begins %+v: %+v", run, b.task("task-0").Reason)
			}
			b.must(b.people().Force(b.t.Context(), "task-0", "ann"))
			b.tick()
			if b.runs("task-0") == nil {
				t.Errorf("a request begins nothing: %+v", b.task("task-0").Reason)
			}
		})
	}
}
