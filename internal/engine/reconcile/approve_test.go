package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	approvals "github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// planned is a wait for the approval of a plan.
var planned = state.Wait{For: state.WaitApproval, ID: "p-1234", Text: "40 of 60 service instances are gone",
	Causes: []state.Cause{{Rule: state.RuleInputGuard, Text: "40 of 60 service instances are gone"}}, Content: &state.Content{Definition: "def", Input: "in", Plan: "plan"}}

var ann = identity.Identity{Name: "ann"}

func TestApprove_LaunchesTheRunWithTheApproval(t *testing.T) {
	b, run := waiting(t, planned)
	b.Config.Tasks[0].Approval.Expires = time.Hour
	people := b.people()
	for range 2 { // people approve twice
		b.must(people.Approve(t.Context(), "task-0", "p-12", ann, "decommissioned"))
	}
	b.Reconciler = b.another(b.Config.Tasks) // the leader dies between the approval and the launch
	events := b.recording()
	b.tick()
	got := b.run(run).Data
	if b.begun("task-0") != 1 || got.State != state.RunIntended || got.Approval == nil || got.Resumed.By != "ann" {
		t.Fatalf("the run is %+v", got)
	}
	want := state.Approval{Given: state.Given{By: "ann", At: b.now, Comment: "decommissioned", Expires: b.now.Add(time.Hour)}, Content: *planned.Content}
	want.ID = got.Approval.ID
	record, err := state.Read[state.GivenRecord](t.Context(), b.Store, state.ApprovalKey("task-0", want.ID))
	if err != nil || !record.Data.Proves(want.Given, want.Content) {
		t.Errorf("it is recorded as %+v: %v", record.Data, err)
	}
	if !got.Approval.Same(want) {
		t.Errorf("it was approved by %+v, want %+v", *got.Approval, want)
	}
	if n := events.count(outbox.PlanApproved); n != 1 {
		t.Errorf("%d events tell of the approval", n)
	}
}

func TestReject_EndsThePlanOfInputThatTheRunHasReadItself(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick() // decides on A
	run := b.launcher.launches()[0].Runs[0]
	b.claimed(run, "container")
	b.catalog.set("B", nil) // and the runner reads B
	b.wait(run, planned)
	b.launcher.forget()
	b.tickAfterEnd()
	b.must(b.people().Reject(t.Context(), "task-0", "", "ann", "no"))
	b.tickAfterEnd()
	if r := b.task("task-0").Reason; r.Code != state.ReasonRejected || len(b.launcher.launches()) > 0 {
		t.Errorf("the rejected plan is made again: %+v", r)
	}
	b.catalog.set("A", nil) // nobody has rejected that
	b.tick()
	if b.begun("task-0") != 1 {
		t.Errorf("other input is not planned: %+v", b.task("task-0").Reason)
	}
}

func TestApprove_RefusesWhatDoesNotWait(t *testing.T) {
	b, _ := waiting(t, planned)
	people := b.people()
	if err := people.Approve(t.Context(), "task-0", "p-9", ann, ""); !errors.Is(err, control.ErrOtherPlan) {
		t.Errorf("another plan: %v", err)
	}
	if err := people.Approve(t.Context(), "task-9", "", ann, ""); !errors.Is(err, state.ErrNoPlan) {
		t.Errorf("another task: %v", err)
	}
	b.catalog.set("B", nil)
	b.tick() // new input replaces the plan
	if err := people.Approve(t.Context(), "task-0", "p-1234", ann, ""); !errors.Is(err, state.ErrNoPlan) {
		t.Errorf("a plan that was replaced: %v", err)
	}
}

func TestApprove_ExpiredApprovalIsNotUsed(t *testing.T) {
	b, run := waiting(t, planned)
	b.Config.Tasks[0].Approval.Expires = time.Hour
	b.must(b.people().Approve(t.Context(), "task-0", "", ann, ""))
	b.now = b.now.Add(2 * time.Hour) // nobody leads meanwhile
	b.tick()
	if got := b.run(run).Data; got.State != state.RunWaiting || b.begun("task-0") != 0 {
		t.Fatalf("the run is %s", got.State)
	}
	b.must(b.people().Approve(t.Context(), "task-0", "", ann, "again"))
	b.tick()
	if got := b.run(run).Data; got.State != state.RunIntended || got.Approval.Comment != "again" {
		t.Errorf("approved again, the run is %s", got.State)
	}
}

func TestApprove_WhoChangedTheTaskCannotApproveWhereAnotherPersonMust(t *testing.T) {
	b, _ := waiting(t, planned)
	b.Config.Tasks[0].Approval = approvals.Spec{Rule: approvals.Always, DistinctApprover: true}
	people := b.people()
	b.overridden(state.Override{Task: "task-0", By: "ann", Enabled: new(true)})
	if err := people.Approve(t.Context(), "task-0", "", ann, ""); !errors.Is(err, approvals.ErrSamePerson) {
		t.Errorf("ann approves her own change: %v", err)
	}
	if err := people.Approve(t.Context(), "task-0", "", identity.Identity{Name: "bob"}, ""); !errors.Is(err, approvals.ErrSamePerson) {
		t.Errorf("somebody says that he is bob: %v", err)
	}
	b.must(people.Approve(t.Context(), "task-0", "", identity.OfToken("bob"), ""))
}

// overridden writes an override, as the API does.
func (b *bench) overridden(o state.Override) {
	b.t.Helper()
	rec, err := state.ReadReconcile(b.t.Context(), b.store)
	b.must(err)
	next := rec.Data
	next.Overrides = "changed"
	b.must(b.store.Apply(b.t.Context(), rec.Write(next), b.override(o.Task).Write(o)))
}

func TestApprove_EveryoneWhoChangedTheTaskIsKnownWhereAnotherPersonMust(t *testing.T) {
	cat := identity.OfToken("cat")
	ann := identity.Identity{Name: "ann", Proof: identity.OIDC, Account: "https://id.example.com#1"}
	renamed := ann
	renamed.Name = "ann.smith"
	ctx := audit.With(t.Context(), audit.Actor{Identity: ann})
	for name, c := range map[string]struct {
		change  func(*control.Control) error // by ann
		destroy bool
	}{
		"somebody else changed it later": {func(c *control.Control) error {
			if _, err := c.SetEnabled(ctx, "task-0", false, control.ChangeOptions{By: "ann"}); err != nil {
				return err
			}
			_, err := c.SetEnabled(t.Context(), "task-0", true, control.ChangeOptions{By: "bob", Provisional: true})
			return err
		}, false},
		"she requested its end": {func(c *control.Control) error { return c.Destroy(ctx, "task-0", "ann") }, true},
	} {
		b := newBench(t, tasks(1)...)
		b.Config.Tasks[0].Approval.DistinctApprover = true
		people := b.people()
		if err := c.change(people); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b.tick()
		run := b.launcher.launches()[0].Runs[0]
		if live := b.task("task-0").Run; live.Destroys() != c.destroy {
			t.Fatalf("%s: %+v", name, live)
		}
		b.claimed(run, "container")
		b.wait(run, planned)
		for _, who := range []identity.Identity{{Name: "ann", Proof: identity.Token}, renamed} {
			if err := people.Approve(t.Context(), "task-0", "", who, ""); !errors.Is(err, approvals.ErrSamePerson) {
				t.Errorf("%s, and %s approves: %v", name, who.Name, err)
			}
		}
		if err := people.Approve(t.Context(), "task-0", "", cat, ""); err != nil {
			t.Errorf("%s, and cat approves: %v", name, err)
		}
	}
}

func TestReject_TaskIsNotPlannedAgainUntilItsInputChanges(t *testing.T) {
	b, run := waiting(t, planned)
	people, events := b.people(), b.recording()
	b.must(people.Reject(t.Context(), "task-0", "", "bob", "wait for the network team"))
	for range 3 {
		b.now = b.now.Add(time.Hour)
		b.tick()
	}
	got := b.run(run).Data
	if got.State != state.RunCancelled || got.Error != "rejected by bob: wait for the network team" || b.begun("task-0") != 0 {
		t.Fatalf("the run is %s: %s; %d runs began", got.State, got.Error, b.begun("task-0"))
	}
	if n := events.count(outbox.PlanRejected); n != 1 {
		t.Errorf("%d events tell of it", n)
	}
	b.catalog.set("B", nil)
	b.tick()
	if b.begun("task-0") != 1 {
		t.Error("new input does not run the task")
	}
}

func TestHold_KeepsTheTaskFromRunningUntilItIsReleased(t *testing.T) {
	b := newBench(t, tasks(2)...)
	people := b.people()
	b.must(people.Hold(t.Context(), "task-0", "ann", "maintenance"))
	b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-0": "bob"}}))
	b.Reconciler = b.another(b.Config.Tasks) // another process leads
	events := b.recording()
	b.tick()
	if b.begun("task-0") != 0 || b.begun("task-1") != 1 {
		t.Fatalf("on hold: %d runs began, beside it %d", b.begun("task-0"), b.begun("task-1"))
	}
	if r := b.task("task-0").Reason; r.Code != state.ReasonOnHold || !strings.Contains(r.Text, "by ann") || !strings.Contains(r.Text, "maintenance") {
		t.Errorf("the reason is %+v", r)
	}
	b.must(people.Release(t.Context(), "task-0", "bob"))
	b.tick()
	if b.begun("task-0") != 1 {
		t.Error("it does not run when it is released")
	}
	if err := people.Release(t.Context(), "task-0", "bob"); !errors.Is(err, control.ErrNotOnHold) {
		t.Errorf("released twice: %v", err)
	}
	if n := events.count(outbox.HoldEnded); n != 1 {
		t.Errorf("%d events tell of the release", n)
	}
}

func TestHold_RunThatNobodyHasClaimedDoesNotBegin(t *testing.T) {
	b := newBench(t, tasks(2)...)
	people := b.people()
	b.tick()
	runs := b.launcher.launches()[0].Runs
	b.claimed(runs[1], "container")
	events := b.recording()
	for _, run := range runs {
		b.must(people.Hold(t.Context(), run.Task, "ann", "alarm"))
	}
	if got := b.run(runs[0]).Data; got.State != state.RunSuperseded || !strings.Contains(got.Error, "on hold by ann") {
		t.Errorf("the run that nobody has claimed is %s: %s", got.State, got.Error)
	}
	if got := b.run(runs[1]).Data; got.State != state.RunRunning {
		t.Errorf("the run that has begun is %s: %s", got.State, got.Error)
	}
	b.tick()
	if n := events.count(outbox.RunSuperseded); b.begun("task-0") != 1 || n != 1 {
		t.Fatalf("%d runs were started, and %d events tell that one was superseded", b.begun("task-0"), n)
	}
	b.must(people.Release(t.Context(), "task-0", "ann"))
	b.tick()
	if b.begun("task-0") != 2 {
		t.Errorf("released, it does not run: %+v", b.task("task-0").Reason)
	}
}

func TestHold_KeepsAnApprovedRunWaiting(t *testing.T) {
	b, run := waiting(t, planned)
	people := b.people()
	b.must(people.Hold(t.Context(), "task-0", "ann", ""))
	b.must(people.Approve(t.Context(), "task-0", "", ann, ""))
	b.tick()
	if got := b.run(run).Data.State; got != state.RunWaiting {
		t.Fatalf("the run is %s", got)
	}
	b.must(people.Release(t.Context(), "task-0", "ann"))
	b.tick()
	if got := b.run(run).Data.State; got != state.RunIntended {
		t.Errorf("released, the run is %s", got)
	}
}

func TestWindow_ChangeWaitsUntilItOpens(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.Config.Tasks[0].Windows = night(t)
	b.tick()
	opens := noon.Add(10 * time.Hour)
	if got := b.task("task-0"); b.begun("task-0") != 0 || got.Reason.Code != state.ReasonOutside || !got.Due.Equal(opens) ||
		!strings.Contains(got.Reason.Text, "opens") || !b.reconcileRecord().Due.Equal(opens) {
		t.Fatalf("%d runs began; %+v due %v, the next tick %v", b.begun("task-0"), got.Reason, got.Due, b.reconcileRecord().Due)
	}
	b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-0": "bob"}}))
	if b.begun("task-0") != 0 {
		t.Fatal("a request opens the window")
	}
	b.now = opens
	b.tick()
	if b.begun("task-0") != 1 {
		t.Errorf("at night: %+v", b.task("task-0").Reason)
	}
}

func TestWindow_ApprovalWaitsUntilItOpens(t *testing.T) {
	b, run := waiting(t, planned)
	b.Config.Tasks[0].Windows = night(t)
	b.must(b.people().Approve(t.Context(), "task-0", "", ann, ""))
	b.tick()
	if got := b.run(run).Data.State; got != state.RunWaiting {
		t.Fatalf("the run is %s", got)
	}
	b.now = noon.Add(10 * time.Hour)
	b.tick()
	if got := b.run(run).Data; got.State != state.RunIntended || got.Approval == nil {
		t.Errorf("at night, the run is %s", got.State)
	}
}

func TestWindow_RunThatWaitsForItGoesOnWhenItOpens(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	run := b.launcher.launches()[0].Runs[0]
	b.claimed(run, "container")
	b.Config.Tasks[0].Windows = night(t)
	b.wait(run, state.Wait{For: state.WaitWindow, ID: "w1"})
	b.launcher.forget()
	b.tickAfterEnd()
	if got := b.run(run).Data.State; got != state.RunWaiting || !b.reconcileRecord().Due.Equal(noon.Add(10*time.Hour)) {
		t.Fatalf("the run is %s, the next tick is at %v", got, b.reconcileRecord().Due)
	}
	b.now = noon.Add(10 * time.Hour)
	b.tick()
	if got := b.run(run).Data; got.State != state.RunIntended || got.Resumed.By != "its window" {
		t.Errorf("at night, the run is %s", got.State)
	}
}

func TestWindow_TaskWhosePlanIsJudgedPlansOutside(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.Config.Tasks[0].Rules = config.Rules{Windows: night(t), Approval: approvals.Spec{Rule: approvals.Always}}
	b.tick()
	if b.begun("task-0") != 1 {
		t.Errorf("%+v", b.task("task-0").Reason)
	}
}

func TestWaiting_IsJudgedAnewIfTheRulesOfItsTaskChange(t *testing.T) {
	b, run := waiting(t, judgedBy(planned, tasks(1)[0].RulesDigest()))
	b.tick()
	if got := b.run(run).Data.State; got != state.RunWaiting {
		t.Fatalf("the run is %s", got)
	}
	b.Reconciler = b.another(tasks(1))
	b.Config.Tasks[0].Rules.Guard.Enabled = true
	b.tick()
	b.tick()
	if got := b.run(run).Data; got.State != state.RunSuperseded || b.begun("task-0") != 1 {
		t.Errorf("the run is %s; %d runs began", got.State, b.begun("task-0"))
	}
}

func TestWaiting_RunThatBeganElsewhereGoesOnInSpiteOfAHoldAndAWindow(t *testing.T) {
	b, run := waiting(t, state.Wait{For: state.WaitRemote, ID: "w1"})
	b.Config.Tasks[0].Windows = night(t)
	people := b.people()
	b.must(people.Hold(t.Context(), "task-0", "ann", ""))
	b.must(people.Resume(t.Context(), "task-0", run.ID, "w1", "the remote run"))
	b.tick()
	if got := b.run(run).Data.State; got != state.RunIntended {
		t.Errorf("the run is %s", got)
	}
}

func judgedBy(w state.Wait, rules string) state.Wait { w.Rules = rules; return w }

// count is how many events of the kind were delivered.
func (r *recorder) count(kind outbox.Kind) (n int) {
	for _, e := range r.got {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func TestControl_RecordsNamesAndCommentsWithoutControlCharacters(t *testing.T) {
	const sent, recorded = "ann\x1b[2J\r\n \u202egood\x00", "ann [2J good"
	b, run := waiting(t, planned)
	people := b.people()
	b.must(people.Hold(t.Context(), "task-0", sent, sent))
	if h := b.task("task-0").OnHold; h.By != recorded || h.Comment != recorded {
		t.Errorf("on hold by %q: %q", h.By, h.Comment)
	}
	b.must(people.Approve(t.Context(), "task-0", "", identity.Identity{Name: sent}, sent))
	if a := b.task("task-0").Run.Resume.Approval; a.By != recorded || a.Comment != recorded {
		t.Errorf("approved by %q: %q", a.By, a.Comment)
	}
	b.must(people.Reject(t.Context(), "task-0", "", sent, sent))
	if got := b.run(run).Data; got.Cancel != recorded || got.Error != "rejected by "+recorded+": "+recorded {
		t.Errorf("rejected by %q: %q", got.Cancel, got.Error)
	}
}

// night is from 22:00 to 06:00.
func night(t *testing.T) []window.Window {
	t.Helper()
	w, err := window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: 8 * time.Hour, TimeZone: "UTC", AllowRemovalsAlways: true}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return []window.Window{w}
}
