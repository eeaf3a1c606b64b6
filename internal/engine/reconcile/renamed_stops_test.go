package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	approvals "github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// renameBench is a bench with task-0, which is applied and then renamed to new.
type renameBench struct {
	*bench
	is config.Task // the task under its new name
}

// rename puts the new name in force.
func (b *renameBench) rename() {
	b.t.Helper()
	b.reload(b.is)
}

// changes has the condition show something else.
func (b *renameBench) changes(digest string) { b.catalog.set(digest, nil) }

// waits has the task's run wait for an approval.
func (b *renameBench) waits(wait state.Wait) state.PlannedRun {
	b.t.Helper()
	b.changes("B")
	b.tick()
	all := b.launcher.launches()
	run := all[len(all)-1].Runs[0]
	b.claimed(run, "container")
	b.wait(run, wait)
	b.launcher.forget()
	b.tickAfterEnd()
	return run
}

// ends ends the run under way.
func (b *renameBench) ends(outcome state.RunState, digest string) {
	b.t.Helper()
	b.end(outcome, digest)
	b.now = b.now.Add(liveCheck)
}

// runsAs fails the test unless a run of the new name begins, and takes the state along.
func (b *renameBench) runsAs(code state.ReasonCode) *state.Run {
	b.t.Helper()
	b.tick()
	run := b.runs("new")
	if run == nil || run.Reason.Code != code || run.Moves == nil || !slices.Contains(run.Moves.From, "task-0") {
		b.t.Fatalf("the run of the new name is %+v; it waits because of %+v", run, b.task("new").Reason)
	}
	return run
}

// rests fails the test if a run of any name begins within an hour, or if the task is stopped for
// another reason.
func (b *renameBench) rests(code state.ReasonCode) {
	b.t.Helper()
	b.launcher.forget()
	for range 4 {
		b.tick()
		b.now = b.now.Add(20 * time.Minute)
	}
	if n := len(b.launcher.launches()); n > 0 {
		b.t.Errorf("%d launches", n)
	}
	if r := b.task("new").Reason; r.Code != code {
		b.t.Errorf("the new name is stopped by %q: %s", r.Code, r.Text)
	}
}

// closed is a window that denies everything.
func closed() []window.Window {
	return window.Specs(&block.Report{}, []window.Keys{{Kind: block.String{V: "deny"}, Schedule: block.String{V: "* * * * *"},
		Duration: block.Duration{Origin: block.Origin{Set: true}, V: time.Hour}}})
}

// renameCases has what a rename does to each stop of a task: its name in lifecycle.Stops or
// lifecycle.Renames, how the text there begins, and a test.
var renameCases = []struct {
	row, cell string
	test      func(*renameBench)
}{
	{"disabled", "moves", func(b *renameBench) {
		b.must(b.people().SetEnabled(b.t.Context(), "task-0", false, control.ChangeOptions{By: "ann"}))
		b.tick()
		b.changes("B")
		b.rename()
		b.rests(state.ReasonDisabled)
		if o := b.override("new").Data; o.By != "ann" || b.override("task-0").Exists() {
			b.t.Errorf("the override of the new name is %+v", o)
		}
		b.must(b.people().SetEnabled(b.t.Context(), "new", true, control.ChangeOptions{By: "bob"}))
		b.rests(state.ReasonHeld)
		b.changes("C")
		b.runsAs(state.ReasonChanged)
	}},
	{"on hold", "moves", func(b *renameBench) {
		b.must(b.people().Hold(b.t.Context(), "task-0", "ann", "wait for me"))
		b.changes("B")
		b.rename()
		b.rests(state.ReasonOnHold)
		if h := b.task("new").OnHold; h == nil || h.By != "ann" || h.Comment != "wait for me" {
			b.t.Errorf("the hold is %+v", h)
		}
		b.must(b.people().Release(b.t.Context(), "new", "ann"))
		b.runsAs(state.ReasonChanged)
	}},
	{"paused", "keeps", func(b *renameBench) {
		b.must(b.people().PauseAll(b.t.Context(), "ann", ""))
		b.rename()
		b.rests(state.ReasonPaused)
		b.must(b.people().ResumeAll(b.t.Context(), "ann", ""))
		b.runsAs(state.ReasonDefinition)
	}},
	{"plan rejected", "moves", func(b *renameBench) {
		b.waits(state.Wait{For: state.WaitApproval, ID: "w1", Content: &state.Content{Plan: "p"}})
		b.must(b.people().Reject(b.t.Context(), "task-0", "", "ann", "no"))
		b.tickAfterEnd()
		b.rename()
		b.rests(state.ReasonRejected)
		b.changes("C")
		b.runsAs(state.ReasonChanged)
	}},
	{"run cancelled", "moves", func(b *renameBench) {
		b.changes("B")
		b.tick()
		b.ends(state.RunCancelled, "")
		b.tick()
		b.rename()
		b.rests(state.ReasonCancelled)
		b.must(b.people().Force(b.t.Context(), "new", "ann"))
		b.runsAs(state.ReasonForced)
	}},
	{"destroyed by hand", "moves", func(b *renameBench) {
		b.must(b.people().Destroy(b.t.Context(), "task-0", "ann"))
		b.tick()
		b.ends(state.RunSucceeded, "")
		b.tick()
		b.rename()
		b.rests(state.ReasonDestroyed)
		b.must(b.people().Force(b.t.Context(), "new", "ann"))
		if run := b.runsAs(state.ReasonForced); run.Moves.Expected {
			b.t.Error("a state is expected after a destroy")
		}
	}},
	{"enabled without a run", "moves", func(b *renameBench) {
		b.must(b.people().SetEnabled(b.t.Context(), "task-0", false, control.ChangeOptions{}))
		b.changes("B")
		b.tick()
		b.must(b.people().SetEnabled(b.t.Context(), "task-0", true, control.ChangeOptions{}))
		b.rename() // no tick has seen the task enabled
		b.rests(state.ReasonHeld)
		b.changes("C")
		b.runsAs(state.ReasonChanged)
	}},
	{"plan waits for an approval", "needs a new approval", func(b *renameBench) {
		planned := b.waits(state.Wait{For: state.WaitApproval, ID: "w1", Content: &state.Content{Plan: "p"}})
		b.rename()
		b.tick()
		if run := b.runsAs(state.ReasonChanged); run.Approval != nil || b.run(planned).Data.State != state.RunSuperseded {
			b.t.Errorf("approved by %+v; the run of the former name is %s", run.Approval, b.run(planned).Data.State)
		}
	}},
	{"plan approved, and not applied", "needs a new approval", func(b *renameBench) {
		planned := b.waits(state.Wait{For: state.WaitApproval, ID: "w1", Content: &state.Content{Plan: "p"}})
		b.must(b.people().Approve(b.t.Context(), "task-0", "", ann, ""))
		b.rename()
		b.tick()
		if run := b.runsAs(state.ReasonChanged); run.Approval != nil || b.run(planned).Data.State != state.RunSuperseded {
			b.t.Errorf("approved by %+v; the run of the former name is %s", run.Approval, b.run(planned).Data.State)
		}
	}},
	{"input approved, and not applied", "moves", func(b *renameBench) {
		was := b.Config.Tasks[0].Digest(b.Config)
		b.waits(state.Wait{For: state.WaitApproval, ID: "w1", Content: &state.Content{Definition: was, Input: "in"}})
		b.must(b.people().Approve(b.t.Context(), "task-0", "", ann, ""))
		b.rename()
		b.tick()
		run := b.runsAs(state.ReasonChanged)
		if a := run.Approval; a == nil || a.By != "ann" || a.Content != (state.Content{Definition: b.is.Digest(b.Config), Input: "in"}) {
			b.t.Errorf("the approval is %+v", a)
		}
	}},
	{"some of several approvals are given", "all are needed again", func(b *renameBench) {
		b.Config.Tasks[0].Approval, b.is.Approval = approvals.Spec{Require: 2}, approvals.Spec{Require: 2}
		wait := state.Wait{For: state.WaitApproval, ID: "w1", Content: &state.Content{Plan: "p"}, Needs: 2}
		planned := b.waits(wait)
		b.must(b.people().Approve(b.t.Context(), "task-0", "", identity.OfToken("ann"), ""))
		b.rename()
		b.tick()
		run := b.runsAs(state.ReasonChanged)
		if run.Approval != nil || len(b.task("new").Run.Approvals) > 0 || b.run(planned).Data.State != state.RunSuperseded {
			b.t.Fatalf("approved by %+v; the run of the former name is %s", run.Approval, b.run(planned).Data.State)
		}
		again := state.PlannedRun{ID: run.ID, Task: "new", Definition: b.is.Digest(b.Config)}
		b.claimed(again, "container")
		wait.ID = "w2"
		b.wait(again, wait)
		b.launcher.forget()
		b.tickAfterEnd()
		b.must(b.people().Approve(b.t.Context(), "new", "", identity.OfToken("bob"), ""))
		b.tick()
		if got := b.run(again).Data; got.State != state.RunWaiting {
			b.t.Errorf("ann approved under the former name, bob under the new one, and the run is %s", got.State)
		}
		b.must(b.people().Approve(b.t.Context(), "new", "", identity.OfToken("ann"), ""))
		b.tick()
		if got := b.run(again).Data; got.State != state.RunIntended || got.Approval == nil {
			b.t.Errorf("both approved under the new name, and the run is %s", got.State)
		}
	}},
	{"input approved by several, and not applied", "moves", func(b *renameBench) {
		for _, same := range []bool{true, false} {
			rule := approvals.Spec{Require: 2, From: []string{"group:network"}}
			b.Config.Tasks[0].Approval, b.is.Approval = rule, rule
			if !same {
				b.is.Approval.From = []string{"group:security"}
			}
			was := b.Config.Tasks[0].Digest(b.Config)
			b.waits(state.Wait{For: state.WaitApproval, ID: "w1", Content: &state.Content{Definition: was, Input: "in"}, Needs: 2, From: rule.From})
			for _, name := range []string{"ann", "bob"} {
				who := identity.OfToken(name)
				who.Groups = []string{"network"}
				b.must(b.people().Approve(b.t.Context(), "task-0", "", who, ""))
			}
			b.rename()
			b.tick()
			run := b.runsAs(state.ReasonChanged)
			switch a := run.Approval; {
			case !same && (a != nil || b.task("new").Accepted != nil):
				b.t.Errorf("those who approved may not approve under the new name, and the run is approved by %+v", a)
			case same && (a == nil || a.Names() != "token:ann and token:bob"):
				b.t.Errorf("the approval is %+v", a)
			}
			*b = renameBench{newBench(b.t, tasks(1)...), renamedTask("task-0")}
			b.settle()
			b.launcher.forget()
			b.now = b.now.Add(time.Minute)
		}
	}},
	{"outside its window", "judged again", func(b *renameBench) {
		b.Config.Tasks[0].Windows = closed()
		b.changes("B")
		b.tick()
		if r := b.task("task-0").Reason; r.Code != state.ReasonOutside {
			b.t.Fatalf("%+v", r)
		}
		open := b.is
		b.is.Windows = closed()
		b.rename()
		b.rests(state.ReasonOutside)
		b.is = open
		b.rename()
		b.runsAs(state.ReasonChanged)
	}},
	{"Consul was replaced", "moves", func(b *renameBench) {
		b.must(state.SaveInputs(b.t.Context(), b.store, "task-0", state.Inputs{Elements: map[string]string{"A": "1"}}))
		b.changes("B")
		b.catalog.identity = newConsul
		b.changeTask("task-0", func(s *state.Task) { s.Unconfirmed = true })
		rec, err := state.ReadReconcile(b.t.Context(), b.store)
		b.must(err)
		held := rec.Data // the others were approved
		held.Consuls = map[string]state.Identity{"": newConsul}
		held.Replaced = &state.Replaced{Since: b.now, Why: "it is another one", Now: map[string]state.Identity{"": newConsul}, Unconfirmed: 1}
		b.must(b.store.Apply(b.t.Context(), rec.Write(held)))
		said := b.is.MovedFrom
		b.is.MovedFrom = nil
		b.rename()
		b.rests(state.ReasonRenamed)
		b.is.MovedFrom = said
		b.rename()
		b.rests(state.ReasonReplaced)
		b.approveAll()
		b.tick()
		b.runsAs(state.ReasonChanged)
	}},
	{"perhaps renamed", "ends", func(b *renameBench) {
		said := b.is
		b.is.MovedFrom = nil
		b.rename()
		b.rests(state.ReasonRenamed)
		b.is = said
		b.rename()
		b.runsAs(state.ReasonDefinition)
	}},
	{"state not saved", "moves", func(b *renameBench) {
		b.catalog.set("B", nil)
		b.tick()
		b.endsUnsaved("task-0", "cts-02")
		b.rename()
		b.rests(state.ReasonUnsaved)
		if u := b.task("new").Unsaved; u == nil || u.Runner != "cts-02" {
			b.t.Errorf("the new name has %+v", u)
		}
	}},
	{"unreadable", "judged again", func(b *renameBench) {
		b.catalog.closed = 1
		b.now = b.now.Add(refreshEvery)
		b.tick()
		since := b.task("task-0").Observed.UnreadableSince
		if since.IsZero() {
			b.t.Fatalf("%+v", b.task("task-0").Reason)
		}
		b.now = b.now.Add(time.Minute)
		b.rename()
		b.rests(state.ReasonUnreadable)
		if again := b.task("new").Observed.UnreadableSince; !again.After(since) {
			b.t.Errorf("the new name is unreadable since %s, the former one since %s", again, since)
		}
		b.catalog.closed = 0
		b.runsAs(state.ReasonDefinition)
	}},
	{"after another task", "judged again", func(b *renameBench) {
		all := []config.Task{b.Config.Tasks[0], tasks(2)[1]}
		all[0].After = []string{"task-1"}
		b.reload(all...)
		b.ends(state.RunSucceeded, "A")
		b.tick()
		b.must(b.people().Hold(b.t.Context(), "task-1", "ann", ""))
		b.changes("B")
		b.tick()
		if r := b.task("task-0").Reason; r.Code != state.ReasonAfter {
			b.t.Fatalf("%+v", r)
		}
		free := b.is
		b.is.After = []string{"task-1"} // which is gone
		b.rename()
		b.rests(state.ReasonAfter)
		b.is = free
		b.rename()
		b.runsAs(state.ReasonChanged)
	}},
	{"blocked", "waits", func(b *renameBench) {
		blocked := map[string]error{"new": errors.New("no such folder")}
		b.Blocked = func() map[string]error { return blocked }
		b.rename()
		b.rests(state.ReasonBlocked)
		if was := b.task("task-0"); was.Gone.MovedTo != "" || was.Applied.At.IsZero() {
			b.t.Errorf("the former name has %+v", was)
		}
		delete(blocked, "new")
		b.now = b.now.Add(refreshEvery)
		b.runsAs(state.ReasonDefinition)
	}},
	{"broken record", "waits", func(b *renameBench) {
		b.corrupt(state.TaskKey("task-0"))
		b.rename()
		b.rests(state.ReasonRenamed)
		if r := b.task("new").Reason; !strings.Contains(r.Text, "the record of task task-0") {
			b.t.Errorf("%+v", r)
		}
	}},
	{"backing off", "moves", func(b *renameBench) {
		b.changes("B")
		b.tick()
		b.end(state.RunFailed, "")
		for range 3 {
			b.now = b.task("task-0").Failing.RetryAt
			b.tickAfterEnd()
			b.end(state.RunFailed, "")
		}
		b.tickAfterEnd()
		b.rename()
		failed := b.task("new")
		if failed.Reason.Code != state.ReasonBackoff || failed.Failing.Count != 4 || b.runs("new") != nil {
			b.t.Fatalf("%d failures, %+v", failed.Failing.Count, failed.Reason)
		}
		b.now = failed.Failing.RetryAt
		b.runsAs(state.ReasonRetry)
	}},
	{"buffering", "moves", func(b *renameBench) {
		b.is.BufferPeriod = config.BufferPeriod{Enabled: true, Min: time.Minute, Max: 10 * time.Minute}
		b.Config.Tasks[0].BufferPeriod = b.is.BufferPeriod
		b.changes("B")
		b.tick()
		seen := b.now
		b.now = b.now.Add(40 * time.Second)
		b.rename()
		if r := b.task("new"); r.Reason.Code != state.ReasonBuffering || !r.Due.Equal(seen.Add(time.Minute)) {
			b.t.Fatalf("due at %s, %+v", r.Due, r.Reason)
		}
		b.now = seen.Add(time.Minute)
		b.runsAs(state.ReasonChanged)
	}},
	{"queued", "leaves the queue", func(b *renameBench) {
		many := tasks(27)
		b.reload(many...)
		b.ends(state.RunSucceeded, "A")
		b.tick()
		b.launcher.forget()
		b.MaxLaunches = 1
		b.changes("B")
		b.tick()
		var queued string
		for _, task := range many {
			if b.task(task.Name).Reason.Code == state.ReasonQueued {
				queued = task.Name
			}
		}
		if queued == "" {
			b.t.Fatal("no task is queued")
		}
		at := slices.IndexFunc(many, func(t config.Task) bool { return t.Name == queued })
		many[at].Name, many[at].MovedFrom = "new", []string{queued}
		b.reload(many...)
		if r := b.task("new").Reason; r.Code != state.ReasonQueued || b.runs("new") != nil || b.task(queued).Reason.Code == "" {
			b.t.Errorf("the new name: %+v", r)
		}
		b.ends(state.RunSucceeded, "B")
		b.tick()
		if run := b.runs("new"); run == nil || !slices.Equal(run.Moves.From, []string{queued}) {
			b.t.Errorf("its run is %+v: %+v", run, b.task("new").Reason)
		}
	}},
	{"a check for drift is under way", "its outcome is dropped", func(b *renameBench) {
		b.is.Drift = daily
		b.reload(driftTasks(1)...)
		events := b.recording()
		b.now = b.now.Add(25 * time.Hour)
		b.claimed(b.tick().Checks[0].Runs[0], "container")
		b.launcher.forget() // its runner dies
		b.rename()
		b.runsAs(state.ReasonDefinition)
		b.now = b.now.Add(2 * intentPatience)
		b.tick()
		b.ends(state.RunSucceeded, "A")
		b.tick()
		for _, name := range []string{"task-0", "new"} {
			if s := b.task(name); underCheck(s) != nil || s.Drifted() != nil || s.Failing.Count > 0 {
				b.t.Errorf("%s has %+v, %+v", name, s, s.Drift)
			}
		}
		if heard := events.heard(); strings.Contains(heard, "drift_check_failed") || strings.Contains(heard, "run_lost") {
			b.t.Errorf("events %s", heard)
		}
		b.now = b.now.Add(25 * time.Hour)
		if checks := b.tick().Checks; len(checks) != 1 || checks[0].Runs[0].Task != "new" {
			b.t.Errorf("a day later, there are the checks %+v", checks)
		}
	}},
	{"a run was given up, and continues", "runs again", func(b *renameBench) {
		b.changes("B")
		b.tick()
		launch := b.launcher.launches()[0]
		b.claimed(launch.Runs[0], "container")
		b.launcher.forget() // nobody knows whether its runner lives
		b.changes("A")
		b.now = b.now.Add(time.Hour)
		b.tick()
		b.ends(state.RunSucceeded, "A")
		for _, name := range []string{"new", "newest"} { // it is renamed twice
			if b.is.Name = name; name == "newest" {
				b.is.MovedFrom = []string{"new"}
			}
			b.rename()
			b.ends(state.RunSucceeded, "A")
			b.tick()
		}
		if got := b.run(launch.Runs[0]).Data.State; got != state.RunLost || b.task("newest").Applied.At.IsZero() {
			b.t.Fatalf("the run is %s, and the new name has %+v", got, b.task("newest"))
		}
		b.stop(launch, "container", "the container stopped") // only now
		b.tickAfterEnd()
		if run := b.runs("newest"); run == nil || run.Reason.Code != state.ReasonDoubt || b.task("task-0").Applied.Doubt != "" {
			b.t.Errorf("the run of the new name is %+v: %+v; the former one has the doubt %q", run, b.task("newest").Reason, b.task("task-0").Applied.Doubt)
		}
	}},
	{"what a run has applied is being verified", "waits for the end", func(b *renameBench) {
		b.changes("B")
		b.tick()
		b.rename()
		if r := b.task("new").Reason; r.Code != state.ReasonRenamed {
			b.t.Errorf("before the verification has ended: %+v", r)
		}
		b.verified(state.VerifyFailed)
		b.rests(state.ReasonOnHold)
		if h := b.task("new").OnHold; h == nil || h.By != "verification vip" {
			b.t.Errorf("the hold is %+v", h)
		}
		b.must(b.people().Release(b.t.Context(), "new", "ann"))
		b.runsAs(state.ReasonDefinition)
	}},
	{"not verified", "moves", func(b *renameBench) {
		b.changes("B")
		b.tick()
		b.verified(state.VerifyCancelled)
		b.rename()
		b.runsAs(state.ReasonDefinition)
		if u := b.task("new").Applied.Unverified; u == nil || u.Names != "vip" {
			b.t.Errorf("the new name has %+v", u)
		}
		b.ends(state.RunSucceeded, "B")
		b.tick()
		if s := b.task("new"); s.Applied.Unverified != nil || s.Reason.Code != state.ReasonUnchanged {
			b.t.Errorf("after a run that is verified: %+v, %+v", s.Applied.Unverified, s.Reason)
		}
	}},
	{"removed", "becomes the new name's", func(b *renameBench) {
		b.reload()
		b.now = b.now.Add(20 * 24 * time.Hour)
		b.tick()
		b.rename()
		if run := b.runsAs(state.ReasonDefinition); !run.Moves.Expected || b.task("task-0").Gone.MovedTo != "new" {
			b.t.Errorf("%+v, %+v", run.Moves, b.task("task-0"))
		}
	}},
}

func TestRename_StopsOfATaskGoAlong(t *testing.T) {
	table := map[string]string{}
	for _, stop := range lifecycle.Stops {
		if stop.Rename != string(lifecycle.Never) {
			table[stop.Name] = stop.Rename
		}
	}
	for _, other := range lifecycle.Renames {
		table[other.Before] = other.After
	}
	for _, tt := range renameCases {
		if cell := table[tt.row]; !strings.HasPrefix(cell, tt.cell) {
			t.Errorf("%s: the table says %q, and the test shows %q", tt.row, cell, tt.cell)
		}
		delete(table, tt.row)
		t.Run(tt.row, func(t *testing.T) {
			b := &renameBench{newBench(t, tasks(1)...), renamedTask("task-0")}
			b.catalog.identity = oldConsul
			b.settle()
			b.launcher.forget()
			b.now = b.now.Add(time.Minute)
			tt.test(b)
		})
	}
	for row := range table {
		t.Errorf("%s: no test shows what a rename does to it", row)
	}
}
