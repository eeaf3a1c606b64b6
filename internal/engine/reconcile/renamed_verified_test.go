package reconcile

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// verifyBench is a bench with task-0, whose run has applied B and is being verified, and task-1, which
// comes after it and has seen the same change.
type verifyBench struct {
	*bench
	run     state.PlannedRun
	applied string // digest of the definition that the run has applied
}

// toVerify returns such a bench. If the verification waits, the process that verified had to end, and the
// next tick has another one continue.
func toVerify(t *testing.T, waits bool) *verifyBench {
	t.Helper()
	b := &verifyBench{bench: newBench(t, afterEachOther(2)...)}
	if waits {
		other := &otherSystem{}
		other.says(state.RemoteEnded, "")
		b.Remote = other
	}
	b.settleInOrder()
	b.catalog.set("B", nil)
	b.tick()
	b.run = b.launcher.launches()[0].Runs[0]
	b.applied = b.run.Definition
	b.launcher.forget()
	b.claimed(b.run, "container")
	if waits {
		b.change(b.run, func(r *state.Run) { r.Verifying = &state.Verifying{Since: b.now, Definition: b.applied} })
		b.waitRemotely(b.run, state.Wait{For: state.WaitVerify, ID: "w1"})
	} else {
		b.launcher.status = map[string]LaunchStatus{b.runs("task-0").Launch: {Running: true}}
	}
	return b
}

// named are the tasks of the bench, the first with another name and the former names in its moved_from.
func (b *verifyBench) named(name string, before ...string) []config.Task {
	all := afterEachOther(2)
	all[0].Name, all[0].MovedFrom, all[1].After = name, before, []string{name}
	return all
}

// verified ends the run as its runner does: everything is applied, and this came of its verification.
func (b *verifyBench) verified(how state.VerifyState) {
	b.t.Helper()
	run := b.bench.run(b.run).Data
	run.State, run.Ended, run.Digest, run.Expires, run.Verifying = state.RunSucceeded, b.now, "B", b.now, nil
	run.Verification = state.NewVerification([]state.Verified{{Name: "vip", State: how, Holds: true}})
	next, _ := b.task(b.run.Task).Conclude(run, b.applied)
	b.change(b.run, func(r *state.Run) { *r = run })
	b.changeTask(b.run.Task, func(t *state.Task) { *t = next })
	b.launcher.status = nil
	b.now = b.now.Add(liveCheck)
}

// nothingBegins fails the test if anything begins but the rest of the verification.
func (b *verifyBench) nothingBegins(when string) {
	b.t.Helper()
	for _, launch := range b.launcher.launches() {
		for _, run := range launch.Runs {
			if run.ID != b.run.ID {
				b.t.Fatalf("%s, a run of %s begins", when, run.Task)
			}
		}
	}
	if r := b.task("task-1").Reason; r.Code != state.ReasonAfter {
		b.t.Errorf("%s, what comes after it says %+v", when, r)
	}
}

// goesOn ends the run of the new name, which must have begun, and fails the test unless only then the task
// after it runs.
func (b *verifyBench) goesOn(name string) {
	b.t.Helper()
	run := b.runs(name)
	if run == nil || run.Moves == nil || !slices.Contains(run.Moves.From, b.run.Task) {
		b.t.Fatalf("the run of the new name is %+v: %+v", run, b.task(name).Reason)
	}
	b.nothingBeginsAfter(name)
	b.launcher.forget()
	b.end(state.RunSucceeded, "B")
	b.now = b.now.Add(liveCheck)
	b.tickAfterEnd()
	if got := b.began(); got != "task-1" {
		b.t.Errorf("after the run of the new name, %q begins: %+v", got, b.task("task-1").Reason)
	}
}

func (b *verifyBench) nothingBeginsAfter(name string) {
	b.t.Helper()
	if began := b.launchedRuns(); began["task-1"] > 0 {
		b.t.Fatalf("task-1 begins before %s is applied and verified: %v", name, began)
	}
}

// verifiesWhere are the ways in which a task is being verified.
var verifiesWhere = map[string]bool{"its runner verifies it": false, "the next process continues": true}

// TestRename_WaitsForTheVerificationOfTheFormerName renames a task while it is not known whether what was
// applied works: nothing counts as verified before, nothing overtakes it, and no hold is lost.
func TestRename_WaitsForTheVerificationOfTheFormerName(t *testing.T) {
	for where, waits := range verifiesWhere {
		for _, how := range []state.VerifyState{state.VerifyPassed, state.VerifyFailed, state.VerifyInterrupted, state.VerifyCancelled} {
			t.Run(where+", "+string(how), func(t *testing.T) {
				b := toVerify(t, waits)
				for range 3 {
					b.reload(b.named("new", "task-0")...)
					b.nothingBegins("before the verification has ended")
				}
				if r := b.task("new").Reason; r.Code != state.ReasonRenamed || !strings.Contains(r.Text, "run "+b.run.ID+" of task task-0") {
					t.Errorf("before the verification has ended, the new name says %+v", r)
				}
				if is := b.bench.run(b.run).Data; waits && is.State != state.RunIntended || !waits && is.State != state.RunRunning {
					t.Fatalf("the run is %s", is.State)
				}
				b.verified(how)
				b.tick()
				b.holdsAs("new", how)
			})
		}
	}
}

// holdsAs checks what a verification that ended in this way means for the new name of the task.
func (b *verifyBench) holdsAs(name string, how state.VerifyState) {
	b.t.Helper()
	is := b.task(name)
	if was := b.task("task-0"); name != "task-0" && (was.Gone.MovedTo == "" || was.OnHold != nil) {
		b.t.Errorf("the former name has %+v", was)
	}
	if (is.Applied.Unverified != nil) != (how != state.VerifyPassed) || is.Applied.Digest != "B" {
		b.t.Errorf("the new name has %q applied, and %+v", is.Applied.Digest, is.Applied.Unverified)
	}
	if how == state.VerifyFailed {
		if is.OnHold == nil || is.OnHold.By != "verification vip" || is.Reason.Code != state.ReasonOnHold {
			b.t.Fatalf("on hold by %+v: %+v", is.OnHold, is.Reason)
		}
		b.nothingBegins("while it is on hold")
		b.must(b.people().Release(b.t.Context(), name, "ann"))
		b.tick()
	}
	b.goesOn(name)
}

// TestRename_InTheTickThatSeesTheEndOfTheVerification renames a task a moment before or after its
// verification ends: no tick was between.
func TestRename_InTheTickThatSeesTheEndOfTheVerification(t *testing.T) {
	for where, waits := range verifiesWhere {
		for _, how := range []state.VerifyState{state.VerifyPassed, state.VerifyFailed} {
			t.Run(where+", "+string(how), func(t *testing.T) {
				b := toVerify(t, waits)
				b.verified(how)
				b.reload(b.named("new", "task-0")...)
				b.holdsAs("new", how)
			})
			t.Run(where+", "+string(how)+", while the tick works", func(t *testing.T) {
				b := toVerify(t, waits)
				b.Reconciler.Store = &endsWhenRead{Store: b.store, end: func() { b.verified(how) }}
				b.reload(b.named("new", "task-0")...)
				b.nothingBeginsAfter("new")
				b.tickAfterEnd()
				b.holdsAs("new", how)
			})
		}
	}
}

// endsWhenRead has something happen just after the records of all tasks were first read.
type endsWhenRead struct {
	state.Store
	end func()
}

func (e *endsWhenRead) List(ctx context.Context, prefix string) ([]state.Record, error) {
	records, err := e.Store.List(ctx, prefix)
	if prefix == state.TaskPrefix && e.end != nil {
		end := e.end
		e.end = nil
		end()
	}
	return records, err
}

// TestRename_BackAndOnWhileItIsVerified renames a task back, or once more, while its verification has not
// ended, and after it has failed.
func TestRename_BackAndOnWhileItIsVerified(t *testing.T) {
	for where, waits := range verifiesWhere {
		t.Run(where+", back before its end", func(t *testing.T) {
			b := toVerify(t, waits)
			b.reload(b.named("new", "task-0")...)
			b.reload(b.named("task-0")...)
			b.nothingBegins("before the verification has ended")
			b.verified(state.VerifyFailed)
			b.tick()
			if is := b.task("task-0"); is.OnHold == nil || is.Applied.Digest != "B" || is.Gone.MovedTo != "" || b.task("new").Gone.MovedTo != "" {
				t.Fatalf("on hold by %+v; it has %q applied, and is now %q", is.OnHold, is.Applied.Digest, is.Gone.MovedTo)
			}
			b.nothingBegins("while it is on hold")
		})
		t.Run(where+", twice before its end", func(t *testing.T) {
			b := toVerify(t, waits)
			b.reload(b.named("new", "task-0")...)
			b.reload(b.named("newest", "new", "task-0")...)
			b.nothingBegins("before the verification has ended")
			b.verified(state.VerifyFailed)
			b.tick()
			b.holdsAs("newest", state.VerifyFailed)
		})
		t.Run(where+", back after it has failed", func(t *testing.T) {
			b := toVerify(t, waits)
			b.reload(b.named("new", "task-0")...)
			b.verified(state.VerifyFailed)
			b.tick()
			b.reload(b.named("task-0", "new")...)
			is := b.task("task-0")
			if is.OnHold == nil || is.OnHold.By != "verification vip" || is.Applied.Unverified == nil || b.task("new").OnHold != nil {
				t.Fatalf("on hold by %+v, %+v; the other name is on hold by %+v", is.OnHold, is.Applied.Unverified, b.task("new").OnHold)
			}
			b.nothingBegins("while it is on hold")
		})
	}
}

// TestRename_OutOfAPatternWaitsForTheVerification renames a task so that the pattern of the task after it
// matches nothing any more: what is being verified still comes first.
func TestRename_OutOfAPatternWaitsForTheVerification(t *testing.T) {
	for where, waits := range verifiesWhere {
		t.Run(where, func(t *testing.T) {
			b := toVerify(t, waits)
			all := b.named("new", "task-0")
			all[1].After = []string{"task-0*"}
			b.reload(all...)
			b.nothingBegins("before the verification has ended")
			b.verified(state.VerifyPassed)
			b.tick()
			if began := b.launchedRuns(); began["task-1"] != 1 || began["new"] != 1 {
				t.Errorf("afterwards, there begin %v", began)
			}
		})
	}
}

// TestRemoval_RecordsWhatWasVerified removes a task while its verification has not ended, without a new
// name that says what it was: what has failed is not forgotten when it comes back.
func TestRemoval_RecordsWhatWasVerified(t *testing.T) {
	b := toVerify(t, true)
	other := afterEachOther(2)[1]
	other.After = nil
	b.Config, b.effective = &config.Config{Tasks: []config.Task{other}, KeepRemoved: keptRemoved}, nil
	b.removed()
	if is := b.bench.run(b.run).Data; is.State != state.RunIntended {
		t.Fatalf("the run is %s: %s", is.State, is.Error)
	}
	b.verified(state.VerifyFailed)
	b.tick()
	b.launcher.forget()
	b.reload(b.named("task-0")...)
	if is := b.task("task-0"); is.OnHold == nil || is.Applied.Unverified == nil || is.Applied.Digest != "B" || b.begun("task-0") > 0 {
		t.Errorf("on hold by %+v, %+v; %d runs begin", is.OnHold, is.Applied.Unverified, b.begun("task-0"))
	}
}

// verified ends the run under way: it has applied B, and this came of its verification.
func (b *renameBench) verified(how state.VerifyState) {
	b.t.Helper()
	run := b.runs("task-0")
	b.change(state.PlannedRun{ID: run.ID, Task: "task-0"}, func(r *state.Run) {
		r.Verification = state.NewVerification([]state.Verified{{Name: "vip", State: how, Holds: true}})
	})
	b.ends(state.RunSucceeded, "B")
}
