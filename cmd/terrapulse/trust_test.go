package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// instances registers the instances of the service web that are numbered from first to
// last, or removes them: all at the same moment.
func (s *site) instances(first, last int, there bool) {
	s.t.Helper()
	const node = "racks"
	ops := api.TxnOps{{Node: &api.NodeTxnOp{Verb: api.NodeSet, Node: api.Node{Node: node, Address: "10.0.0.1"}}}}
	verb := api.ServiceDelete
	if there {
		verb = api.ServiceSet
	}
	for n := first; n <= last; n++ {
		ops = append(ops, &api.TxnOp{Service: &api.ServiceTxnOp{Verb: verb, Node: node,
			Service: api.AgentService{Service: "web", ID: fmt.Sprintf("web-%02d", n), Port: 8000 + n}}})
	}
	if ok, answer, _, err := s.consul.Client().Txn().Txn(ops, nil); err != nil || !ok {
		s.t.Fatalf("%v: %+v", err, answer)
	}
}

// applied is how many instances the module of the task lb was applied with.
func (s *site) applied() int { return strings.Count(s.read("lb.txt"), "\n") }

// overview is the task lb as status shows it.
func (s *site) overview() apispec.TaskOverview {
	s.t.Helper()
	if all := s.tasks(); len(all) > 0 {
		return all[0]
	}
	return apispec.TaskOverview{}
}

// tasks are all tasks as status shows them.
func (s *site) tasks() []apispec.TaskOverview {
	s.t.Helper()
	var shown apispec.Overview
	if err := json.Unmarshal([]byte(s.runInTest("status", "-json").stdout), &shown); err != nil {
		return nil
	}
	return shown.Tasks
}

// inPhase waits until the task lb is in a phase, and its reason has a text.
func (s *site) inPhase(phase apispec.Phase, text string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("phase %s: %s", phase, text), func() bool {
		got := s.overview()
		return got.Phase == phase && strings.Contains(got.Reason.Text, text)
	})
}

func TestGuard_ManyVanishedInstancesAreHeldUntilApproved(t *testing.T) {
	s := newParallelSite(t)
	s.instances(1, 60, true)
	file := s.config(s.task("lb", onWeb))
	p := s.start("-config-file", file)
	eventually(t, "60 instances are applied", func() bool { return s.applied() == 60 })

	// Data that comes back releases the task by itself.
	s.instances(1, 40, false)
	s.inPhase(apispec.PhaseWaiting, "40 of 60")
	s.inPhase(apispec.PhaseWaiting, "`terrapulse approve -plan=")
	s.instances(1, 40, true)
	s.inPhase(apispec.PhaseApplied, "")
	if runs := s.runInTest("runs", "lb").stdout; s.applied() != 60 || strings.Count(runs, "succeeded") != 1 {
		t.Errorf("%d instances are applied:\n%s", s.applied(), runs)
	}

	// Shown and rejected.
	s.instances(1, 40, false)
	s.inPhase(apispec.PhaseWaiting, "40 of 60")
	shown := s.run("plan", "show", "-config-file", file, "lb")
	wantCode(t, shown, exitOK)
	wantText(t, shown.stdout, "40 of 60", "An approval applies to", "1 to add, 0 to change, 1 to destroy", "local_file.out")
	r := s.run("plan", "show", "-json", "lb")
	wantCode(t, r, exitOK)
	var plan apispec.WaitingPlan
	if err := json.Unmarshal([]byte(r.stdout), &plan); err != nil || plan.ID == "" || plan.Content.Plan == nil || plan.Plan == nil || len(plan.Causes) == 0 || plan.Causes[0].Rule != "input_guard" {
		t.Errorf("%v: %s", err, r.stdout)
	}
	wantCode(t, s.run("approve", "-config-file", file, "-plan=none", "lb"), exitError)
	wantCode(t, s.run("reject", "-config-file", file, "lb"), exitMissing)
	wantCode(t, s.run("reject", "-config-file", file, "-comment=they come back", "lb"), exitOK)
	s.inPhase(apispec.PhaseStopped, "rejected by")
	wantCode(t, s.run("plan", "show", "lb"), exitError)
	wantText(t, p.stderr.String(), "plan rejected")

	// New input is planned again, and is approved through the API.
	s.instances(41, 41, false)
	s.inPhase(apispec.PhaseWaiting, "41 of 60")
	at := "-http-addr=" + p.served()
	waits := s.run("run", at, "lb")
	wantCode(t, waits, exitWaits)
	wantText(t, waits.stdout+waits.stderr, "waiting", "41 of 60", "terrapulse approve -http-addr="+p.served()+" -plan=")
	if s.applied() != 60 {
		t.Errorf("%d instances are applied before the approval", s.applied())
	}
	approved := s.run("approve", at, "-comment=decommissioned", "lb")
	wantCode(t, approved, exitOK)
	wantText(t, approved.stdout, "41 of 60", "1 to add, 0 to change, 1 to destroy", "Approved")
	eventually(t, "the approved change is applied", func() bool { return s.applied() == 19 })
	s.inPhase(apispec.PhaseApplied, "")

	// A person's hold.
	wantCode(t, s.run("hold", at, "-comment=change freeze", "lb"), exitOK)
	s.instances(1, 1, true)
	s.inPhase(apispec.PhaseStopped, "change freeze")
	wantCode(t, s.run("run", at, "lb"), exitWaits)
	if s.applied() != 19 {
		t.Errorf("%d instances are applied while the task is on hold", s.applied())
	}
	wantCode(t, s.run("release", "-config-file", file, "lb"), exitOK)
	eventually(t, "the change is applied after the release", func() bool { return s.applied() == 20 })
	wantCode(t, s.run("release", at, "lb"), exitError)

	// A pause of all tasks, from another process than the one that leads.
	paused := s.run("pause", "-config-file", file, "-reason=new switches")
	wantCode(t, paused, exitOK)
	wantText(t, paused.stdout, "new switches", "terrapulse resume")
	s.instances(2, 2, true)
	s.inPhase(apispec.PhaseStopped, "new switches")
	requested := s.run("run", at, "lb")
	wantCode(t, requested, exitWaits)
	wantText(t, requested.stderr, "new switches", "The request stays: task lb runs when nothing stops it any more.")
	wantText(t, s.run("status", at).stdout, "Paused by", "new switches")
	wantText(t, s.run("pause", "-json", at).stdout, `"paused"`, "new switches")
	wantText(t, s.run("audit", at, "-action=approve", "-task=lb").stdout, "approve", "lb", "(not proven)", "local", "decommissioned")
	if s.applied() != 20 {
		t.Errorf("%d instances are applied while everything is paused", s.applied())
	}
	wantText(t, s.run("resume", at).stdout, "Resumed", "new switches")
	eventually(t, "the change is applied after the resume", func() bool { return s.applied() == 21 })
	eventually(t, "the run that was requested during the pause begins after the resume", func() bool {
		return strings.Contains(s.run("runs", at, "lb").stdout, "why: forced: requested by ")
	})
	wantText(t, s.run("resume", at).stdout, "Nothing is paused")
}

func TestOnce_TaskThatNeedsAnApprovalExitsWithItsOwnCode(t *testing.T) {
	s := newParallelSite(t)
	s.instances(1, 3, true)
	file := s.config(s.task("lb", "approval = \"always\"\n"+onWeb))
	for range 2 {
		r := s.run("-once", "-config-file", file)
		wantCode(t, r, exitWaits)
		wantText(t, r.stdout, "lb", "waiting")
		wantText(t, r.stderr, "waits for approval", "`terrapulse approve -store=", " -plan=")
	}
	if s.applied() != 0 {
		t.Error("it was applied without an approval")
	}
	wantCode(t, s.run("approve", "-config-file", file, "lb"), exitOK)
	wantCode(t, s.run("-once", "-config-file", file), exitOK)
	if s.applied() != 3 {
		t.Errorf("%d instances are applied", s.applied())
	}
	wantCode(t, s.run("hold", "-config-file", file, "lb"), exitOK)
	r := s.run("-once", "-json", "-config-file", file)
	wantCode(t, r, exitWaits)
	wantText(t, r.stdout, `"outcome": "stopped"`, `"on_hold"`)
}

func TestApproval_OutlivesARestartAndAKilledLeaderAndPermitsNoOtherData(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to expire")
	}
	s := newParallelSite(t)
	s.instances(1, 60, true)
	lb := s.task("lb", onWeb)
	file := s.config(lb)
	p := s.start("-config-file", file)
	eventually(t, "60 instances are applied", func() bool { return s.applied() == 60 })
	s.instances(1, 40, false)
	s.inPhase(apispec.PhaseWaiting, "40 of 60")
	plan := func() string {
		var shown apispec.WaitingPlan
		if r := s.runInTest("plan", "show", "-json", "lb"); json.Unmarshal([]byte(r.stdout), &shown) != nil {
			t.Fatalf("%s%s", r.stdout, r.stderr)
		}
		return shown.ID
	}
	first := plan()

	// It is started again with another task while the plan waits.
	p.stop()
	s.config(s.task("zone", onWeb) + lb)
	p = s.start("-config-file", file)
	eventually(t, "the other task is applied", func() bool { return strings.Count(s.read("zone.txt"), "\n") == 20 })
	if now := plan(); now != first || s.applied() != 60 {
		t.Errorf("plan %s waits after the restart, %s did before; %d instances are applied", now, first, s.applied())
	}

	// The data changes once more before that plan is approved.
	s.config(lb)
	p.stop()
	p = s.start("-config-file", file)
	s.instances(41, 41, false)
	s.run("approve", "-config-file", file, "-plan="+first, "lb") // in time or not
	s.inPhase(apispec.PhaseWaiting, "41 of 60")
	if s.applied() != 60 {
		t.Fatalf("%d instances are applied: an approval of other data was used", s.applied())
	}

	// The leader is killed after the approval, before it is used.
	wantCode(t, s.run("hold", "-config-file", file, "lb"), exitOK)
	wantCode(t, s.run("approve", "-config-file", file, "-comment=decommissioned", "lb"), exitOK)
	p.Process.Signal(syscall.SIGKILL)
	<-p.ended
	wantCode(t, s.run("release", "-config-file", file, "lb"), exitOK)
	if s.applied() != 60 {
		t.Errorf("%d instances are applied, and nobody leads", s.applied())
	}
	s.start("-config-file", file)
	eventually(t, "the next leader applies what was approved", func() bool { return s.applied() == 19 })
	eventually(t, "one run was applied for it", func() bool { return s.runsOf("lb")[apispec.RunStateSucceeded] == 2 })
}
