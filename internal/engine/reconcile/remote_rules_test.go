package reconcile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	approvals "github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestRemote_PlanWaitsOutsideOfTheWindowAndConfirmedRunDoesNot(t *testing.T) {
	for name, test := range map[string]struct {
		phase  state.RemotePhase
		plans  bool // the task's plans are judged
		goesOn bool
	}{
		"planned":                {state.RemoteReady, false, false},
		"planned, to be judged":  {state.RemoteReady, true, true}, // so that it can be approved meanwhile
		"confirmed by a person":  {state.RemoteApplying, false, true},
		"discarded by a person":  {state.RemoteEnded, false, true},
		"it is not planned, yet": {state.RemotePlanning, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, other, run := waitingRemotely(t, remotePlan)
			b.Config.Tasks[0].Windows = night(t)
			if test.plans {
				b.Config.Tasks[0].Approval.Rule = approvals.Always
			}
			other.says(test.phase, "")
			b.now = b.now.Add(pollMin)
			b.tick()
			if got := b.run(run).Data; (got.State == state.RunIntended) != test.goesOn {
				t.Fatalf("the run is %s, its task says %+v", got.State, b.task("task-0").Reason)
			}
			if test.goesOn || test.phase == state.RemotePlanning {
				return
			}
			if reason := b.task("task-0").Reason; reason.Code != state.ReasonOutside {
				t.Errorf("the reason is %+v", reason)
			}
			b.now = noon.Add(10*time.Hour + time.Minute)
			b.again()
			if got := b.run(run).Data; got.State != state.RunIntended || got.AppliedElsewhere() {
				t.Errorf("in the window, the run is %s", got.State)
			}
		})
	}
}

func TestRemote_DeletedTaskIsForgottenWhenItsRemoteRunIsStopped(t *testing.T) {
	b, other, _ := waitingRemotely(t, remotePlan)
	other.err = errors.New("503")
	b.must(b.people().Delete(t.Context(), "task-0", "Jo"))
	b.again()
	if task := b.task("task-0"); task.GivenUp() == nil || !strings.Contains(task.Reason.Text, "is to be stopped first") {
		t.Fatalf("its task says %+v", task)
	}
	other.err = nil
	b.now = b.now.Add(time.Hour)
	b.again()
	if left, err := b.store.List(t.Context(), "task/"); err != nil || len(left) != 0 || len(other.stopped) != 1 {
		t.Errorf("%d records are left (%v), and %v was stopped", len(left), err, other.stopped)
	}
}

func TestRemote_RunIsSupersededWithoutItsDriver(t *testing.T) {
	b, other, run := waitingRemotely(t, remotePlan)
	b.Reconciler = b.another(tasks(1))
	b.now = b.now.Add(pollMin)
	b.again()
	if got := b.run(run).Data; got.State != state.RunSuperseded || !strings.Contains(got.Error, "driver has changed") {
		t.Errorf("the run is %s (%s)", got.State, got.Error)
	}
	if len(other.stopped) != 0 || b.begun("task-0") != 1 {
		t.Errorf("%d runs began, and %v was stopped", b.begun("task-0"), other.stopped)
	}
	if next := b.runs("task-0"); b.run(run).Data.FromRemote || next == nil || !next.FromRemote {
		t.Errorf("the run that follows does not know that the other system had the task: %+v", next)
	}
}

// A driver does not know the remote runs of another one: they are not polled, not stopped and not
// taken over, and people hear of them before anything else begins.
func TestRemote_RunOfAnotherDriverIsLeftAlone(t *testing.T) {
	b, other, run := waitingRemotely(t, remotePlan)
	var log bytes.Buffer
	b.Reconciler = b.another(tasks(1))
	b.Config.OtherDriver, b.Remote, b.Log = &config.Cloud{}, other, slog.New(slog.NewTextHandler(&log, nil))
	polls := other.polls
	b.now = b.now.Add(pollMin)
	b.again()
	if got := b.run(run).Data; got.State != state.RunSuperseded || other.polls != polls || len(other.stopped) != 0 {
		t.Errorf("the run is %s (%s); %d polls, and %v was stopped", got.State, got.Error, other.polls-polls, other.stopped)
	}
	if !strings.Contains(log.String(), "left as it is") || !strings.Contains(log.String(), "https://hcp.example/run-1") {
		t.Errorf("the log has %s", &log)
	}
	if next, r := b.runs("task-0"), b.task("task-0").RemoteRun; next == nil || next.FromRemote || r.Driver != "terraform-cloud" || r.Version != "" {
		t.Errorf("the run that follows is %+v, and its task has %+v", next, r)
	}
}

// What no record of a run says any more, that of its task says.
func TestRemote_WaitingRunWithoutARecordLeavesItsRemoteRun(t *testing.T) {
	b, other, run := waitingRemotely(t, remotePlan)
	b.must(b.store.Apply(t.Context(), state.Delete(b.run(run).Record)))
	b.Reconciler = b.another(tasks(1))
	b.Config.Tasks[0].Enabled, b.Remote = false, other
	b.again()
	if task := b.task("task-0"); task.Run != nil || len(other.stopped) != 1 || other.stopped[0].ID != "run-1" {
		t.Errorf("stopped: %v, and its task says %+v", other.stopped, task)
	}
}

// The time in another system does not count as time of the run: its queue may be long. But
// one that never ends, such as without an agent, must not look as if all was well.
func TestRemote_RunThatTakesVeryLongSaysWhatToDo(t *testing.T) {
	b, other, run := waitingRemotely(t, remotePlan)
	other.says(state.RemotePlanning, "plan_queued")
	since := b.now
	for _, wait := range []time.Duration{50 * time.Minute, 70 * time.Minute} {
		b.now = since.Add(wait)
		b.again()
		text, long := b.task("task-0").Reason.Text, wait > time.Hour
		if strings.Contains(text, "more than 1h, which is its run_timeout") != long || strings.Contains(text, "`terrapulse cancel task-0`") != long {
			t.Errorf("after %s: %s", wait, text)
		}
	}
	if got := b.run(run).Data.State; got != state.RunWaiting {
		t.Errorf("the run is %s", got)
	}
}

func TestRemote_RenamedTaskKeepsItsWorkspace(t *testing.T) {
	b, _, run := waitingRemotely(t, remoteApply)
	has := state.Remote{Workspace: "ws-1", Name: "task-0", Created: true}
	b.must(b.store.Apply(t.Context(), state.Create(state.RemoteKey("task-0"), state.Encode(has))))
	b.must(b.people().Resume(t.Context(), "task-0", run.ID, "w1", "its remote run"))
	b.again()
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()
	b.reload(renamedTask("task-0"))
	got, err := state.Read[state.Remote](t.Context(), b.store, state.RemoteKey("new"))
	if err != nil || got.Data.Workspace != "ws-1" || got.Data.Name != "task-0" || !got.Data.Created || b.task("new").RemoteRun == nil {
		t.Errorf("the new name has %+v, %v", got.Data, err)
	}
	if before, err := state.Read[state.Remote](t.Context(), b.store, state.RemoteKey("task-0")); err != nil || before.Exists() {
		t.Errorf("the name before has %+v, %v", before.Data, err)
	}
}

func TestRestore_KeepsWhatAnotherSystemHas(t *testing.T) {
	backup, _, _ := waitingRemotely(t, remotePlan)
	b := newBench(t, tasks(1)...)
	for store, version := range map[*bench]string{backup: "cv-1", b: "cv-2"} {
		store.must(store.store.Apply(t.Context(), state.Create(state.RemoteKey("task-0"), state.Encode(state.Remote{Run: state.RemoteRun{Version: version, Phase: state.RemoteReady}}))))
		store.must(state.StageInputs(t.Context(), store.store, "task-0", state.Inputs{Kind: "services"}))
	}
	b.now = b.now.Add(time.Hour)
	b.must(control.Restore(t.Context(), b.store, backup.store, "ann", 0, func() time.Time { return b.now }))
	if got, err := state.Read[state.Remote](t.Context(), b.store, state.RemoteKey("task-0")); err != nil || got.Data.Run.Version != "cv-2" {
		t.Errorf("the other system did not go back, and its record is %+v, %v", got.Data, err)
	}
	if left, err := b.store.List(t.Context(), "staged/"); err != nil || len(left) != 0 {
		t.Errorf("%d records of a run that was dropped are left (%v)", len(left), err)
	}
	if a := b.task("task-0").GivenUp(); a == nil || a.ID != "run-1" {
		t.Errorf("left: %+v", a)
	}
}

func TestAwaitRun_WaitsForTheRemoteRunButNotForPeople(t *testing.T) {
	for name, test := range map[string]struct {
		wait    state.Wait
		happens func(*bench)
		waits   bool
	}{
		"planned there":            {remotePlan, func(*bench) {}, true},
		"applied there":            {remoteApply, func(*bench) {}, true},
		"the plan has to be shown": {approval, func(*bench) {}, false},
		"planned there, on hold":   {remotePlan, func(b *bench) { b.must(b.people().Hold(b.t.Context(), "task-0", "Jo", "")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, _, _ := waitingRemotely(t, test.wait)
			test.happens(b)
			b.again()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			if !test.waits {
				ctx = t.Context()
			}
			run, err := b.people().AwaitRun(ctx, "task-0", control.Earlier{})
			if waited := errors.Is(err, context.DeadlineExceeded); waited != test.waits {
				t.Errorf("got %+v, %v", run, err)
			}
		})
	}
}

func TestRemote_OnePollServesAllTasks(t *testing.T) {
	b := newBench(t, tasks(50)...)
	other := &otherSystem{}
	b.Remote = other
	b.tick()
	for _, launch := range b.launcher.launches() {
		for _, planned := range launch.Runs {
			b.claimed(planned, "container")
			b.waitRemotely(planned, remotePlan)
		}
	}
	b.launcher.forget()
	b.tickAfterEnd()
	if other.polls != 1 || other.polled != 50 || b.record().Remote != 50 {
		t.Errorf("%d polls, the latest of %d runs; %d are recorded", other.polls, other.polled, b.record().Remote)
	}
}

func TestLoop_HintPollsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopBench(t, tasks(1)...)
		other := &otherSystem{}
		other.says(state.RemotePlanning, "")
		l.bench.Remote = other
		l.start()
		planned := l.launcher.launches()[0].Runs[0]
		l.bench.now = time.Now()
		l.claimed(planned, "here")
		l.waitRemotely(planned, remotePlan)
		l.launcher.forget()
		l.ended <- struct{}{}
		pass(time.Hour) // by now it is polled every 5 minutes
		other.says(state.RemoteReady, "")
		pass(time.Second)
		if got := l.run(planned).Data.State; got != state.RunWaiting {
			t.Fatalf("without a hint, the run is %s", got)
		}
		if err := l.people().Notified(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(maxPoll) // without a word to this process, as in a cluster
		if got := l.run(planned).Data.State; got != state.RunIntended {
			t.Errorf("the run is %s", got)
		}
	})
}
