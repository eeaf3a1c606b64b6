package reconcile

import (
	"errors"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// replacedDuringARemoteRun has two tasks that were applied with A. The first one has a remote run
// with B, which waits and is in a phase, when Consul is replaced by one that shows A.
func replacedDuringARemoteRun(t *testing.T, wait state.Wait, phase state.RemotePhase) (*bench, *otherSystem, state.PlannedRun) {
	t.Helper()
	all := tasks(2)
	b := newBench(t, all...)
	b.catalog.identity = oldConsul
	other := &otherSystem{}
	b.Remote = other
	b.settle()
	b.appliedWith(all...)
	b.launcher.forget()

	b.catalog.set("B", nil)
	b.must(b.Tick(t.Context(), TickOptions{Only: map[string]bool{"task-0": true}}))
	planned := b.launcher.launches()[0].Runs[0]
	b.claimed(planned, "container")
	other.says(phase, "")
	b.waitRemotely(planned, wait)
	b.catalog.set("A", nil)
	b.catalog.identity = newConsul
	b.launcher.forget()
	b.now = b.now.Add(refreshEvery)
	b.tickAfterEnd()
	if rec := b.record(); rec.Consuls[""] != newConsul || rec.Replaced == nil || rec.Replaced.Unconfirmed != 1 || !b.task("task-0").Unconfirmed || b.task("task-1").Unconfirmed {
		t.Fatalf("%+v, %+v", rec.Consuls, rec.Replaced)
	}
	return b, other, planned
}

// endsRemotely has the remote run end, and the run with it: B is applied.
func (b *bench) endsRemotely(other *otherSystem, planned state.PlannedRun) {
	b.t.Helper()
	other.says(state.RemoteEnded, "")
	b.now = b.now.Add(pollMax)
	b.tick()
	for _, launch := range b.launcher.launches() {
		if run := launch.Runs[0]; run.ID != planned.ID || !run.Unconfirmed {
			b.t.Fatalf("it goes on as %+v", run)
		}
	}
	if b.begun("task-0") != 1 {
		b.t.Fatalf("%d launches of the run", b.begun("task-0"))
	}
	b.must(state.SaveInputs(b.t.Context(), b.store, "task-0", state.Inputs{Elements: map[string]string{"B": "1"}, Kind: "services"}))
	b.claimed(planned, "container")
	b.succeed(planned, "B")
	b.launcher.forget()
	b.tickAfterEnd()
}

// TestRemote_RunWithTheDataOfAReplacedConsulIsAwaited has a remote run that applies what a Consul
// has shown that was replaced since: that its entries are gone then is no change of the new one.
func TestRemote_RunWithTheDataOfAReplacedConsulIsAwaited(t *testing.T) {
	for name, wait := range map[string]state.Wait{"it applies": remoteApply, "a person has confirmed its plan there": approval} {
		t.Run(name, func(t *testing.T) {
			b, other, planned := replacedDuringARemoteRun(t, wait, state.RemoteApplying)
			b.endsRemotely(other, planned)
			if r := b.task("task-0").Reason; r.Code != state.ReasonReplaced || len(b.launcher.launches()) > 0 || !b.task("task-0").Unconfirmed {
				t.Fatalf("%+v, %d launches", r, len(b.launcher.launches()))
			}
			if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 1 || rec.Replaced.Entries != 1 {
				t.Errorf("%+v", rec.Replaced)
			}
			b.approveAll()
			b.tick()
			if n := b.begun("task-0"); n != 1 || b.record().Replaced != nil || b.task("task-0").Unconfirmed {
				t.Errorf("%d runs began; %+v", n, b.record().Replaced)
			}
		})
	}
}

// TestRemote_OutageOfTheOtherSystemKeepsAnUnconfirmedLoss has HCP Terraform answer nothing while it
// applies what the Consul of before has shown, and another process take over meanwhile.
func TestRemote_OutageOfTheOtherSystemKeepsAnUnconfirmedLoss(t *testing.T) {
	b, other, planned := replacedDuringARemoteRun(t, remoteApply, state.RemoteApplying)
	other.status, other.err = nil, errors.New("HCP Terraform does not answer")
	for range 3 {
		b.now = b.now.Add(refreshEvery)
		b.tick()
	}
	remote := b.Remote
	b.Reconciler = b.another(b.Config.Tasks)
	b.Remote = remote
	b.must(b.Tick(t.Context(), TickOptions{Leads: true}))
	if s := b.task("task-0"); !s.Unconfirmed || s.Run == nil || len(b.launcher.launches()) > 0 {
		t.Fatalf("%+v, %d launches", s, len(b.launcher.launches()))
	}
	other.err = nil
	b.endsRemotely(other, planned)
	if r := b.task("task-0").Reason; r.Code != state.ReasonReplaced {
		t.Errorf("%+v", r)
	}
}

// TestRemote_RunThatIsReplacedEndsAnUnconfirmedLoss has the remote run plan what the new Consul does
// not show any more: it is not applied, and so nothing is lost.
func TestRemote_RunThatIsReplacedEndsAnUnconfirmedLoss(t *testing.T) {
	b, _, planned := replacedDuringARemoteRun(t, approval, state.RemoteReady)
	for range 3 {
		b.now = b.now.Add(pollMax)
		b.again()
	}
	if run, s := b.run(planned).Data, b.task("task-0"); run.State != state.RunSuperseded || s.Run != nil || s.Unconfirmed || b.record().Replaced != nil {
		t.Errorf("the run is %s: %+v, %+v", run.State, s.Reason, b.record().Replaced)
	}
}
