package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// otherSystem stands in for the system in which runs go on.
type otherSystem struct {
	status    map[string]state.RemoteStatus // of remote runs, by id
	err       error                         // of every request
	moved     map[string]state.RemoteStatus // what polls between ticks find; nil for nothing
	polls     int
	polled    int // remote runs, in the latest poll
	stopped   []state.RemoteRun
	confirmed bool // what is stopped was confirmed before
}

func (o *otherSystem) Poll(_ context.Context, _ *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	o.polls++
	o.polled = len(runs)
	return o.status, o.err
}

// Await finds nothing in most of these tests: they tick.
func (o *otherSystem) Await(ctx context.Context, _ *config.Config, _ []state.RemoteWait) map[string]state.RemoteStatus {
	if o.moved == nil {
		<-ctx.Done()
	}
	return o.moved
}

func (o *otherSystem) Stop(_ context.Context, _ *config.Config, r *state.RemoteRun) (bool, error) {
	if o.status["run-1"].Phase == state.RemoteApplying && !r.GivenUp.Cancel {
		return true, o.err
	}
	if o.err == nil {
		o.stopped = append(o.stopped, *r)
	}
	return o.confirmed, o.err
}

// says is what the other system says of the remote run from now on.
func (o *otherSystem) says(phase state.RemotePhase, text string) {
	o.status = map[string]state.RemoteStatus{"run-1": {Phase: phase, Text: text}}
}

var (
	remotePlan  = state.Wait{For: state.WaitRemotePlan, ID: "w1", Text: "planning"}
	remoteApply = state.Wait{For: state.WaitRemote, ID: "w1"}
)

// waitingRemotely returns a bench with one task, whose run waits since noon and has a
// remote run.
func waitingRemotely(t *testing.T, wait state.Wait) (*bench, *otherSystem, state.PlannedRun) {
	b, other, planned := beginsToWaitRemotely(t, wait)
	b.tickAfterEnd()
	return b, other, planned
}

// beginsToWaitRemotely returns the same before a tick has seen the wait.
func beginsToWaitRemotely(t *testing.T, wait state.Wait) (*bench, *otherSystem, state.PlannedRun) {
	all := tasks(1)
	all[0].RunTimeout = time.Hour
	b := newBench(t, all...)
	other := &otherSystem{}
	other.says(wait.For.RemotePhase(), "")
	b.Remote = other
	b.tick()
	planned := b.launcher.launches()[0].Runs[0]
	b.claimed(planned, "container")
	b.waitRemotely(planned, wait)
	b.launcher.forget()
	return b, other, planned
}

// waitRemotely records that a claimed run waits and has a remote run.
func (b *bench) waitRemotely(planned state.PlannedRun, wait state.Wait) {
	b.t.Helper()
	run := b.run(planned)
	run.Data.Remote = &state.RemoteRun{Driver: b.Config.Driver().Kind().Name, ID: "run-1", URL: "https://hcp.example/run-1", Version: "cv-1", Workspace: "ws-1", Phase: wait.For.RemotePhase()}
	run.Data.Staged = true
	b.must(b.store.Apply(b.t.Context(), run.Write(run.Data)))
	b.wait(planned, wait)
}

// again ticks as often as something is due at once, as a leader does.
func (b *bench) again() Report {
	b.t.Helper()
	for {
		report := b.tick()
		if !report.Again {
			return report
		}
	}
}

func TestRemote_RunGoesOnWhenThePhaseHasChanged(t *testing.T) {
	for name, test := range map[string]struct {
		wait   state.Wait
		phase  state.RemotePhase
		goesOn bool
	}{
		"it plans":                     {remotePlan, state.RemotePlanning, false},
		"it is planned":                {remotePlan, state.RemoteReady, true},
		"a person confirms it at once": {remotePlan, state.RemoteApplying, true},
		"it ends without changes":      {remotePlan, state.RemoteEnded, true},
		"it waits for an approval":     {approval, state.RemoteReady, false},
		"a person confirms it":         {approval, state.RemoteApplying, true},
		"a person discards it":         {approval, state.RemoteEnded, true},
		"the list of runs is late":     {approval, state.RemotePlanning, false},
		"it is applied":                {remoteApply, state.RemoteApplying, false},
		"it ends":                      {remoteApply, state.RemoteEnded, true},
		"its status is not known":      {remoteApply, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, other, planned := waitingRemotely(t, test.wait)
			other.says(test.phase, "")
			b.now = b.now.Add(pollMin)
			b.tick()
			run := b.run(planned).Data
			if goesOn := run.State == state.RunIntended; goesOn != test.goesOn || goesOn != (b.begun("task-0") == 1) {
				t.Fatalf("the run is %s, and %d launches began", run.State, b.begun("task-0"))
			}
			if test.goesOn && run.Remote.Phase != test.phase {
				t.Errorf("its remote run is %s, want %s", run.Remote.Phase, test.phase)
			}
			if past := run.AppliedElsewhere(); test.goesOn && past != (test.phase.PastApproval() || test.wait.For == state.WaitRemote) {
				t.Errorf("applied elsewhere: %v", past)
			}
		})
	}
}

// What is planned there is the input before: it is not worth a run, which would begin
// another remote run before the buffer period is over.
func TestRemote_PlanOfOutdatedInputWaitsForTheBufferPeriod(t *testing.T) {
	for name, meanwhile := range map[string]func(*bench){
		"it is planned":                   func(*bench) {},
		"it was planned during the pause": func(b *bench) { b.must(b.people().PauseAll(b.t.Context(), "Jo", "")); b.again() },
	} {
		t.Run(name, func(t *testing.T) {
			b, other, planned := waitingRemotely(t, remotePlan)
			b.Config.Tasks[0].BufferPeriod = config.BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 20 * time.Second}
			other.says(state.RemoteReady, "")
			meanwhile(b)
			b.must(b.people().ResumeAll(b.t.Context(), "Jo", ""))
			b.catalog.set("B", nil)
			b.tick()
			if got := b.run(planned).Data; got.State != state.RunWaiting {
				t.Fatalf("within the buffer period, the run is %s", got.State)
			}
			b.now = b.now.Add(5 * time.Second)
			b.again()
			if got := b.run(planned).Data; got.State != state.RunSuperseded || !strings.Contains(got.Error, "input has changed") {
				t.Errorf("after it, the run is %s (%s)", got.State, got.Error)
			}
			if n := b.begun("task-0"); n != 1 {
				t.Errorf("%d runs with the new input began", n)
			}
		})
	}
}

func TestRemote_ConfirmedRunGoesOnDespiteHolds(t *testing.T) {
	for name, happens := range map[string]func(*bench){
		"on hold":   func(b *bench) { b.must(b.people().Hold(b.t.Context(), "task-0", "Jo", "")) },
		"paused":    func(b *bench) { b.must(b.people().PauseAll(b.t.Context(), "Jo", "")) },
		"new input": func(b *bench) { b.catalog.set("B", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			b, other, planned := waitingRemotely(t, approval)
			happens(b)
			other.says(state.RemoteApplying, "")
			b.again()
			if run := b.run(planned).Data; run.State != state.RunIntended || len(other.stopped) != 0 {
				t.Errorf("the run is %s (%s), and %v was stopped", run.State, run.Error, other.stopped)
			}
		})
	}
}

// The condition of a disabled task is not read.
func TestRemote_RunGoesOnIfItsTaskIsDisabledAtOnce(t *testing.T) {
	b, other, planned := beginsToWaitRemotely(t, remoteApply)
	b.Config.Tasks[0].Enabled = false
	b.tickAfterEnd()
	other.says(state.RemoteEnded, "")
	b.now = b.now.Add(pollMin)
	b.tick()
	if run := b.run(planned).Data; run.State != state.RunIntended {
		t.Errorf("the run is %s: %s", run.State, b.task("task-0").Reason.Text)
	}
}

func TestRemote_RunThatIsGivenUpIsStopped(t *testing.T) {
	jo := func(do func(*control.Control, context.Context) error) func(*bench) {
		return func(b *bench) { b.must(do(b.people(), b.t.Context())) }
	}
	off := func(b *bench) {
		r := b.another(tasks(1))
		r.Config.Tasks[0].Enabled, r.Remote = false, b.Remote
		b.Reconciler = r
	}
	gone := func(b *bench) {
		r := b.another(nil)
		r.Remote = b.Remote
		b.Reconciler = r
	}
	reject := jo(func(c *control.Control, ctx context.Context) error {
		return c.Reject(ctx, "task-0", "", "Jo", "not now")
	})
	cancel := jo(func(c *control.Control, ctx context.Context) error {
		_, err := c.Cancel(ctx, "task-0", "Jo")
		return err
	})
	plan := approval
	plan.Content = &state.Content{Definition: "d", Input: "A", Plan: "p"}
	for name, test := range map[string]struct {
		wait    state.Wait
		happens func(*bench)
		stops   bool
		cancels bool
		says    string
		doubt   bool
	}{
		"rejected":                 {plan, reject, true, false, "rejected by Jo: not now", false},
		"cancelled":                {remotePlan, cancel, true, true, "cancelled by Jo", false},
		"cancelled while applied":  {remoteApply, cancel, true, true, "cancelled by Jo", false},
		"disabled":                 {remotePlan, off, true, false, "the task is disabled", false},
		"disabled while applied":   {remoteApply, off, false, false, "", false}, // it goes on
		"removed":                  {remotePlan, gone, true, false, "not in the configuration", false},
		"removed while applied":    {remoteApply, gone, false, false, "", true},
		"nothing happens, applied": {remoteApply, func(*bench) {}, false, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, other, _ := waitingRemotely(t, test.wait)
			test.happens(b)
			if b.again(); strings.HasPrefix(name, "removed") {
				b.now = b.now.Add(removalLasts)
				b.again()
			}
			if stops := len(other.stopped) == 1; stops != test.stops {
				t.Fatalf("stopped: %v", other.stopped)
			}
			if test.stops {
				a := other.stopped[0]
				if a.ID != "run-1" || a.GivenUp.Cancel != test.cancels || !strings.Contains(a.GivenUp.Comment, test.says) {
					t.Errorf("stopped: %+v", a)
				}
			}
			task := b.task("task-0")
			if task.GivenUp() != nil || (task.Applied.Doubt != "") != test.doubt {
				t.Errorf("its task says %+v", task)
			}
			before := len(other.stopped)
			b.now = b.now.Add(time.Hour)
			if b.again(); len(other.stopped) != before {
				t.Error("it is stopped once more")
			}
		})
	}
}

func TestRemote_StopIsRepeatedUntilItWorks(t *testing.T) {
	b, other, _ := waitingRemotely(t, remotePlan)
	other.err = errors.New("503")
	b.must(b.people().Cancel(t.Context(), "task-0", "Jo"))
	report := b.again()
	if b.task("task-0").GivenUp() == nil || !report.Due.Equal(b.now.Add(pollSoon)) {
		t.Fatalf("due at %s: %+v", report.Due, b.task("task-0"))
	}
	other.err, other.confirmed = nil, true
	b.now = report.Due
	b.again()
	if task := b.task("task-0"); len(other.stopped) != 1 || task.GivenUp() != nil || !strings.Contains(task.Applied.Doubt, "confirmed there") {
		t.Errorf("stopped: %v, and its task says %+v", other.stopped, task)
	}
}

// Otherwise the loss of entries that it applies now would count as the new Consul's change.
func TestMayHaveReadBefore_RemoteRunAppliesWhatWasUploadedBefore(t *testing.T) {
	for name, test := range map[string]struct {
		run    *state.LiveRun
		remote *state.RemoteRun
		lost   bool
		want   bool
	}{
		"no run":                        {nil, nil, false, false},
		"it is under way":               {&state.LiveRun{}, nil, false, true},
		"it is lost":                    {&state.LiveRun{}, nil, true, false},
		"it waits here":                 {&state.LiveRun{Wait: &approval}, nil, false, false},
		"its remote run is applied":     {&state.LiveRun{Wait: &remoteApply}, &state.RemoteRun{Version: "cv-1"}, false, true},
		"its remote run can be applied": {&state.LiveRun{Wait: &approval}, &state.RemoteRun{Version: "cv-1"}, false, true},
		"it was resumed":                {&state.LiveRun{}, &state.RemoteRun{Version: "cv-1"}, false, true},
		"another one is given up":       {&state.LiveRun{Wait: &approval}, state.RemoteRun{Version: "cv-1"}.GiveUp(state.GivenUp{}), false, false},
	} {
		in := decide.Input{State: state.Task{Run: test.run, RemoteRun: test.remote}}
		if test.lost {
			in.Lost = &state.Run{}
		}
		if got := mayHaveReadBefore(&in); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestInTurn_RunsThatCannotBeStoppedDoNotKeepOthersWaiting(t *testing.T) {
	var decisions []*decide.Decision
	for range stopsPerTick + 2 {
		decisions = append(decisions, &decide.Decision{})
	}
	tried := map[*decide.Decision]bool{}
	for ms := range int64(len(decisions)) {
		order := inTurn(decisions, time.UnixMilli(ms))
		if len(order) != len(decisions) {
			t.Fatalf("%d of %d are in the order", len(order), len(decisions))
		}
		for _, d := range order[:stopsPerTick] {
			tried[d] = true
		}
	}
	if len(tried) != len(decisions) {
		t.Errorf("%d of %d are ever tried", len(tried), len(decisions))
	}
}

func TestRemote_TickLeavesARunThatIsGivenUpToTheNextRun(t *testing.T) {
	b, other, _ := waitingRemotely(t, remotePlan)
	b.catalog.set("B", nil)
	b.again()
	if b.begun("task-0") != 1 || len(other.stopped) != 0 {
		t.Fatalf("%d runs began, and %v was stopped", b.begun("task-0"), other.stopped)
	}
	a := b.task("task-0").GivenUp()
	if a == nil || a.ID != "run-1" || !strings.Contains(a.GivenUp.Comment, "input has changed") {
		t.Errorf("left: %+v", a)
	}
	b.must(b.people().Cancel(t.Context(), "task-0", "Jo")) // before it has begun
	b.again()
	if len(other.stopped) != 1 || b.task("task-0").GivenUp() != nil {
		t.Errorf("stopped: %v", other.stopped)
	}
}

func TestRemote_RunThatIsGivenUpOfADeletedTaskIsKept(t *testing.T) {
	b, other, _ := waitingRemotely(t, remotePlan)
	other.err = errors.New("no answer")
	b.Reconciler = b.another(nil)
	b.Remote = other
	b.removed()
	b.must(b.people().Create(t.Context(), json.RawMessage(strings.ReplaceAll(made, `"made"`, `"task-0"`)), control.ChangeOptions{}))
	if task := b.task("task-0"); task.GivenUp() == nil {
		t.Errorf("the task was made again: %+v", task)
	}
}

func TestRemote_PollThatShowsNothingNewWritesNothingAboutTheTask(t *testing.T) {
	b, other, _ := waitingRemotely(t, remotePlan)
	before, polls := b.taskRecord("task-0"), other.polls
	for range 5 {
		report := b.tick()
		if !report.Idle || report.Due.IsZero() {
			t.Fatalf("%+v", report)
		}
		b.now = report.Due
		if report = b.tick(); report.Idle {
			t.Fatal("a tick is idle although a poll is due")
		}
	}
	if other.polls != polls+5 || other.polled != 1 {
		t.Errorf("%d polls, the latest of %d runs", other.polls-polls, other.polled)
	}
	if after := b.taskRecord("task-0"); after.Version != before.Version {
		t.Errorf("the record of the task was written: %+v", after.Data)
	}
	other.says(state.RemotePlanning, "pending: the workspace is locked by jane")
	b.now = b.now.Add(time.Hour)
	b.tick()
	if task := b.task("task-0"); !strings.Contains(task.Reason.Text, "locked by jane") || !strings.Contains(task.Waits().Text, "locked by jane") {
		t.Errorf("its task says %+v, and waits: %s", task.Reason, task.Waits())
	}
	other.status["run-1"] = state.RemoteStatus{Phase: state.RemotePlanning, Text: "pending: the workspace is locked by jane", Person: true} // the same text
	b.now = b.now.Add(time.Hour)
	b.tick()
	if wait := b.task("task-0").Waits(); !wait.Person {
		t.Errorf("the task does not need a person: %+v", wait)
	}
	other.err = errors.New("429: too many requests") // about other runs
	b.now = b.now.Add(time.Hour)
	b.tick()
	if rec := b.record(); rec.Unpolled != nil {
		t.Errorf("the record has %+v", rec.Unpolled)
	}
}

// TestRemote_OutageOfTheOtherSystemIsShownSinceItBegan loses HCP Terraform while a run waits for its
// remote run: neither its task nor the health check may look as if nothing was wrong.
func TestRemote_OutageOfTheOtherSystemIsShownSinceItBegan(t *testing.T) {
	b, other, _ := waitingRemotely(t, remotePlan)
	b.must(b.tick())
	before := b.taskRecord("task-0")
	outage := func(after time.Duration) (apispec.TaskOverview, string) {
		t.Helper()
		b.now = b.now.Add(after)
		b.must(b.tick())
		shown, err := overview.Reader{Store: b.store, Now: func() time.Time { return b.now }}.Recorded(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return shown.Tasks[slices.IndexFunc(shown.Tasks, func(o apispec.TaskOverview) bool { return o.Name == "task-0" })], apispec.Deref(shown.Unhealthy)
	}
	other.err, other.status = errors.New("401 unauthorized: the token was revoked"), nil
	task, unhealthy := outage(10 * time.Second)
	begun := b.now
	want := "its remote run cannot be polled since " + begun.UTC().Format(time.RFC3339) + ": 401 unauthorized: the token was revoked"
	if !strings.HasSuffix(task.Reason.Text, want) || unhealthy != "" {
		t.Errorf("at first, the task says %q, and health %q", task.Reason.Text, unhealthy)
	}
	task, unhealthy = outage(3 * time.Minute)
	if !strings.HasSuffix(task.Reason.Text, want) || !strings.Contains(unhealthy, "no remote run can be polled since "+begun.UTC().Format(time.RFC3339)) || !strings.Contains(unhealthy, "revoked") {
		t.Errorf("after 3 minutes, the task says %q, and health %q", task.Reason.Text, unhealthy)
	}
	if after := b.taskRecord("task-0"); after.Version != before.Version {
		t.Errorf("the outage has written the record of the task: %+v", after.Data)
	}
	other.err = nil
	other.says(state.RemotePlanning, "")
	if task, unhealthy = outage(10 * time.Minute); strings.Contains(task.Reason.Text, "cannot be polled") || unhealthy != "" {
		t.Errorf("after the outage, the task says %q, and health %q", task.Reason.Text, unhealthy)
	}
}

func TestRemote_TickAfterAHintIsIdleWithoutARemoteRun(t *testing.T) {
	b, other, _ := waitingRemotely(t, remotePlan)
	b.must(b.tick())
	other.says(state.RemoteReady, "")
	if report, err := b.Tick(t.Context(), TickOptions{Notified: true}); err != nil || report.Idle || b.begun("task-0") != 1 {
		t.Errorf("%+v, %v", report, err)
	}

	b = newBench(t, tasks(1)...)
	b.Remote = other
	b.settle()
	b.tick()
	if report, err := b.Tick(t.Context(), TickOptions{Notified: true}); err != nil || !report.Idle {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestRemote_TickPollsAfterPollsBetweenTicksFail has these polls fail: they report that as runs that have moved,
// without naming any.
func TestRemote_TickPollsAfterPollsBetweenTicksFail(t *testing.T) {
	b, other, _ := waitingRemotely(t, remotePlan)
	for range 6 { // polls are rarer, the longer a run waits
		b.now = b.now.Add(10 * time.Minute)
		b.must(b.tick())
	}
	if report := b.tick(); !report.Idle {
		t.Fatalf("nothing is due, and the tick does more: %+v", report)
	}
	polls := other.polls
	other.err, other.status, other.moved = errors.New("503 service unavailable"), nil, map[string]state.RemoteStatus{}
	moved := b.AwaitRemote(t.Context(), b.now.Add(10*time.Second))
	report, err := b.Tick(t.Context(), TickOptions{Moved: moved})
	if err != nil || report.Idle || other.polls != polls+1 {
		t.Errorf("%d polls, %v: %+v", other.polls-polls, err, report)
	}
	if rec := b.record(); rec.Unpolled == nil || !strings.Contains(rec.Unpolled.Error, "503") {
		t.Errorf("the record says of the outage: %+v", rec.Unpolled)
	}
}

func TestRemote_OutageIsUnhealthyTwoMinutesAfterTheFirstPollThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, other, _ := waitingRemotely(t, remotePlan)
		began, from := time.Now(), b.now
		poll := func(moved map[string]state.RemoteStatus) (why string) {
			other.moved = moved
			found := b.AwaitRemote(t.Context(), b.now.Add(10*time.Second))
			b.now = from.Add(time.Since(began))
			_, err := b.Tick(t.Context(), TickOptions{Moved: found})
			b.must(err)
			return overview.Unhealthy(b.store, b.record(), b.now, b.now)
		}
		none := map[string]state.RemoteStatus{} // what Await finds when the system begins or ends to fail
		for range 3 {
			poll(nil)
		}
		answers := other.status
		other.err, other.status = errors.New("503 service unavailable"), nil
		poll(none)
		first, polls := b.now, other.polls
		for b.now.Before(first.Add(2 * time.Minute)) {
			if why := poll(nil); why != "" {
				t.Fatalf("%s after the first poll that failed: %s", b.now.Sub(first), why)
			}
		}
		if why := poll(nil); other.polls < polls+3 || !strings.Contains(why, "no remote run can be polled since "+first.Format(time.RFC3339)) {
			t.Errorf("%s after the first poll that failed, and %d later ones: %q", b.now.Sub(first), other.polls-polls, why)
		}
		other.err, other.status = nil, answers
		if why := poll(none); why != "" {
			t.Errorf("when it answers again: %s", why)
		}
	})
}

func TestRemote_RecordsAreRemovedWithTheTask(t *testing.T) {
	b, other, _ := waitingRemotely(t, remotePlan)
	b.must(b.store.Apply(t.Context(), state.Create(state.RemoteKey("task-0"), state.Encode(state.Remote{Workspace: "ws-1", Name: "task-0"}))))
	b.must(state.StageInputs(t.Context(), b.store, "task-0", state.Inputs{Kind: "services"}))
	b.Reconciler = b.another(nil)
	b.Remote = other
	b.removed()
	b.again()
	b.now = b.now.Add(keptRemoved + time.Hour)
	b.again()
	for _, prefix := range []string{"remote/", "staged/", "task/"} {
		if left, err := b.store.List(t.Context(), prefix); err != nil || len(left) != 0 {
			t.Errorf("%d records are left below %s (%v)", len(left), prefix, err)
		}
	}
}
