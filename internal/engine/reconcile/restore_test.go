package reconcile

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
)

// backup returns a new table with all records of the bench, as a restoration to a point in
// time makes one.
func (b *bench) backup(url string) state.Store {
	b.t.Helper()
	table := dynamo.New(dynamotest.Config(url), dynamotest.Table(b.t, url))
	for _, prefix := range []string{"lease/", "reconcile/", "task/", "run/", "launch/", state.RunnerPrefix, "inputs/", "definition/", "override/", "outbox/"} {
		all, err := b.store.List(b.t.Context(), prefix)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, rec := range all {
			if _, err := table.Apply(b.t.Context(), state.Create(rec.Key, rec.Value)); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	return table
}

// onTable moves a bench to a store, which another process then uses.
func (b *bench) onTable(store state.Store) {
	b.store = &statetest.Faulty{Store: summary.Keep(store)}
	b.Reconciler = b.another(b.Config.Tasks)
}

func TestRestore_EveryTaskRunsOnceMoreWithNewTokens(t *testing.T) {
	url := dynamotest.Start(t)
	for name, inPlace := range map[string]bool{"into the store in use": false, "the restored table itself": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tasks(2)...)
			b.onTable(dynamo.New(dynamotest.Config(url), dynamotest.Table(t, url)))
			b.settle()
			b.must(b.people().Hold(t.Context(), "task-1", "ann", "maintenance"))
			b.catalog.set("A2", nil)
			b.tick() // the backup has a run under way, and its claim
			b.lingers("c1")
			backup := b.backup(url)
			fence := b.begun("task-0")

			// After the backup, something else is applied, and Consul shows the old again.
			b.end(state.RunSucceeded, "A2")
			b.catalog.set("B", nil)
			b.settle()
			b.must(b.people().Release(t.Context(), "task-1", "ann"))
			b.settle()
			if applied := b.task("task-0").Applied.Digest; applied != "B" {
				t.Fatalf("%q is applied", applied)
			}
			b.catalog.set("A", nil)
			last, err := lease.Read(t.Context(), b.store, state.LeaderLease)
			if err != nil {
				t.Fatal(err)
			}

			target := state.Store(b.store)
			if inPlace {
				target = backup
				b.onTable(backup)
			}
			b.now = b.now.Add(time.Hour)
			n, err := control.Restore(t.Context(), target, backup, "ann", 0, func() time.Time { return b.now })
			if err != nil || n != 2 {
				t.Fatalf("%d tasks, %v", n, err)
			}
			if now, err := lease.Read(t.Context(), b.store, state.LeaderLease); err != nil || now.Fence <= last.Fence+1000 || now.Owner != "" {
				t.Errorf("the token was %d, and is %+v (%v)", last.Fence, now, err)
			}
			b.Reconciler = b.another(b.Config.Tasks)
			b.tick()
			if task := b.task("task-0"); task.Run != nil || task.Reason.Code != state.ReasonPaused || task.Applied.Doubt == "" {
				t.Errorf("right after the restoration: %+v", task)
			}
			if h := b.task("task-1").OnHold; h == nil || h.By != "ann" {
				t.Errorf("the hold of the backup is %+v", h)
			}
			for _, prefix := range []string{"launch/", state.RunnerPrefix} {
				if left, err := b.store.List(t.Context(), prefix); err != nil || len(left) > 0 {
					t.Errorf("%d records %s* of before are left (%v)", len(left), prefix, err)
				}
			}

			b.resume()
			b.tick()
			run := b.runs("task-0")
			if run == nil || run.Reason.Code != state.ReasonDoubt || run.Fence <= last.Fence {
				t.Fatalf("what Consul shows is what the backup says was applied, but not what is: %+v", run)
			}
			b.end(state.RunSucceeded, "A")
			b.now = b.now.Add(liveCheck)
			b.tick()
			if task := b.task("task-0"); task.Applied.Doubt != "" || task.Applied.Digest != "A" || task.Run != nil {
				t.Errorf("after its run: %+v", task)
			}
			if b.begun("task-0") == fence {
				t.Error("nothing ran")
			}
		})
	}
}

func TestRestore_WaitsForLiveRuns(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	run := *b.task("task-0").Run
	b.claimed(state.PlannedRun{Task: "task-0", ID: run.ID}, "one")
	now := func() time.Time { return b.now }
	if _, err := control.Restore(t.Context(), b.store, b.store, "ann", time.Second, now); !errors.Is(err, control.ErrAlive) {
		t.Errorf("restored beside a run: %v", err)
	}
	if b.record().Paused != nil || b.task("task-0").Run == nil {
		t.Error("something was restored")
	}
	b.now = b.now.Add(time.Hour)
	if _, err := control.Restore(t.Context(), b.store, b.store, "ann", time.Second, now); err != nil {
		t.Error(err)
	}
	if _, err := control.Restore(t.Context(), b.store, b.store, "ann", time.Second, now); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if b.task("task-0").Run != nil {
		t.Error("the run is still under way")
	}
}

// A process that led before finds its lease lost, also if its token was issued after the backup.
func TestRestore_FormerLeaderWritesNothing(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	held, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "former", lease.Options{TTL: time.Second, Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Hour)
	if _, err := control.Restore(t.Context(), b.store, b.store, "ann", 0, func() time.Time { return b.now }); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Apply(t.Context(), state.Create("launch/late", []byte("{}"))); !errors.Is(err, lease.ErrLost) {
		t.Errorf("it wrote: %v", err)
	}
}

// The store may be new, because its disk or its table is gone.
func TestRestore_NewStoreRepeatsNoTokenOfTheBackup(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	now := func() time.Time { return b.now }
	held, err := lease.Acquire(t.Context(), b.store, state.LeaderLease, "former", lease.Options{Now: now, Skip: 2_000_000_000}) // it was restored before
	if err != nil {
		t.Fatal(err)
	}
	store := newBench(t).store
	if _, err := control.Restore(t.Context(), store, b.store, "ann", 0, now); err != nil {
		t.Fatal(err)
	}
	if next, err := lease.Read(t.Context(), store, state.LeaderLease); err != nil || next.Fence <= held.Fence()+1000 {
		t.Errorf("the token of the backup is %d, the next one %d (%v)", held.Fence(), next.Fence, err)
	}
}

// A container that was starting, or that lingered, claims its run without the lease.
func TestRestore_RunThatBeginsMeanwhileKeepsItsRecord(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	run := state.PlannedRun{Task: "task-0", ID: b.task("task-0").Run.ID}
	began := false
	b.store.Before = func(changes []state.Change) error {
		if !began && slices.ContainsFunc(changes, func(c state.Change) bool { return c.Key == state.ReconcileKey }) {
			began = true
			b.claimed(run, "one")
		}
		return nil
	}
	now := func() time.Time { return b.now }
	if _, err := control.Restore(t.Context(), b.store, b.store, "ann", time.Second, now); !began || !errors.Is(err, control.ErrAlive) {
		t.Errorf("restored beside a run: %v", err)
	}
	if kept := b.run(run); kept.Data.State != state.RunRunning {
		t.Errorf("the record of the run reads %+v", kept.Data)
	}
	if b.record().Paused == nil {
		t.Error("not everything is paused")
	}
	b.now = b.now.Add(time.Hour)
	if _, err := control.Restore(t.Context(), b.store, b.store, "ann", time.Second, now); err != nil || b.task("task-0").Run != nil {
		t.Errorf("after the end of the run: %v", err)
	}
}

func TestRestore_RecordsOfTheBackupExpire(t *testing.T) {
	b, to := newBench(t, tasks(1)...), newBench(t).store
	b.settle()
	plan := state.Run{ID: "p", Task: "task-0", Kind: state.KindPlan, State: state.RunSucceeded, Created: b.now, Times: state.Times{Ended: b.now}}
	if _, err := b.store.Apply(t.Context(), state.Create(state.RunKey(plan.Task, plan.ID), state.Encode(plan))); err != nil {
		t.Fatal(err)
	}
	expires := map[string]time.Time{}
	to.Before = func(changes []state.Change) error {
		for _, c := range changes {
			expires[c.Key] = c.Expires
		}
		return nil
	}
	if _, err := control.Restore(t.Context(), to, b.store, "ann", 0, func() time.Time { return b.now }); err != nil {
		t.Fatal(err)
	}
	if until, ok := expires[state.RunKey("task-0", "p")]; !ok || until.IsZero() || !until.Equal(plan.KeptUntil()) {
		t.Errorf("the record of a plan expires at %s, want %s", until, plan.KeptUntil())
	}
	for _, id := range b.task("task-0").Ended.IDs {
		if until, ok := expires[state.RunKey("task-0", id)]; !ok || !until.IsZero() {
			t.Errorf("the record of run %s, which the history has, expires at %s", id, until)
		}
	}
}

// What the backup says of waits and approvals may be of other data, or be used up.
func TestRestore_PlanThatWaitedIsMadeAndApprovedAgain(t *testing.T) {
	for name, inPlace := range map[string]bool{"into another store": false, "into the store itself": true} {
		for _, approved := range []bool{false, true} {
			b, was := waiting(t, planned)
			if approved { // and the backup was made before the next tick
				b.must(b.people().Approve(t.Context(), "task-0", "", ann, ""))
			}
			backup := b.store
			if !inPlace {
				b.store = newBench(t).store
			}
			b.must(control.Restore(t.Context(), b.store, backup, "ann", 0, func() time.Time { return b.now }))
			b.Reconciler = b.another(b.Config.Tasks)
			b.tick()
			if task := b.task("task-0"); task.Run != nil || task.Reason.Code != state.ReasonPaused {
				t.Errorf("%s: after the restoration, the task reads %+v", name, task)
			}
			if err := b.people().Approve(t.Context(), "task-0", planned.ID, ann, ""); !errors.Is(err, state.ErrNoPlan) {
				t.Errorf("%s: the plan of the backup is approved: %v", name, err)
			}
			if left := b.approvals(); left != 0 {
				t.Errorf("%s: %d approvals are left", name, left)
			}

			b.resume()
			b.tick()
			run := b.runs("task-0")
			if run == nil || run.ID == was.ID || run.Approval != nil {
				t.Fatalf("%s: the new run is %+v", name, run)
			}
			again := state.PlannedRun{Task: "task-0", ID: run.ID}
			b.claimed(again, "container")
			b.wait(again, planned) // the same content
			b.tickAfterEnd()
			if got := b.run(again).Data; got.State != state.RunWaiting {
				t.Errorf("%s: the run goes on without another approval: %+v", name, got)
			}
			b.must(b.people().Approve(t.Context(), "task-0", "", ann, ""))
			b.tick()
			if got := b.run(again).Data; got.State != state.RunIntended || got.Approval == nil {
				t.Errorf("%s: approved again, the run is %+v", name, got)
			}
		}
	}
}
