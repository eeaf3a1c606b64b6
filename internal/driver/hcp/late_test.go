package hcp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// HCP Terraform only queues an action on a run. Until it has its effect, the run is shown as before.

func TestDriver_ConfirmationThatTakesEffectLateIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	hold := s.hcp.HoldAction("apply")
	s.waits(state.WaitRemotePlan)
	s.pollPast(state.RemotePlanning)
	s.waits(state.WaitRemote)
	if now := s.pollUntil(func(state.RemotePhase) bool { return true }); now.Phase != state.RemoteReady {
		t.Fatalf("before the effect, it is %+v", now)
	}
	s.waits(state.WaitRemote)
	hold.Release()
	s.hcp.Await(s.rec.Run.ID, "applied")
	s.resume(state.RemoteEnded)
	s.succeeds()
	if runs := s.runs(); len(runs) != 1 {
		t.Errorf("the runs are %+v", runs)
	}
}

func TestDriver_DiscardThatTakesEffectLateLeavesOneRun(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	hold := s.hcp.HoldAction("discard")
	s.waits(state.WaitRemotePlan)
	s.pollPast(state.RemotePlanning)
	s.name("two")
	first := s.rec.Run.ID
	wait, _, err := s.step()
	if err != nil || wait == nil {
		t.Fatalf("the run waits for %+v: %v", wait, err)
	}
	hold.Release()
	s.hcp.Await(first, "discarded")
	s.resume(state.RemotePlanning)
	s.succeeds()
	applied := 0
	for _, r := range s.runs() {
		if r.Status == "applied" {
			applied++
		} else if r.Status != "discarded" {
			t.Errorf("a run is left: %+v", r)
		}
	}
	if applied != 1 {
		t.Errorf("%d runs were applied", applied)
	}
}

func TestDriver_UploadThatIsReadLateIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	hold := s.hcp.HoldAction("upload")
	go func() {
		s.hcp.AwaitRequest("GET configuration-versions/*", 2)
		hold.Release()
	}()
	s.succeeds()
	if runs := s.runs(); len(runs) != 1 || runs[0].Status != "applied" {
		t.Errorf("the runs are %+v", runs)
	}
}

func TestDriver_TokenThatLosesItsRightsLeavesOneRun(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*task){
		"may not confirm": func(s *task) { s.hcp.Restrict(s.hcp.Token, hcptest.Rights{NoRuns: true}) },
		"revoked":         func(s *task) { s.hcp.Revoke(s.hcp.Token) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTask(t, hcptest.WithoutTerraform())
			s.waits(state.WaitRemotePlan)
			s.pollPast(state.RemotePlanning)
			lose(s)
			wait, _, err := s.step()
			if wait != nil || err == nil {
				t.Fatalf("the run waits for %+v: %v", wait, err)
			}
			contains(t, err.Error(), "token")
			s.hcp.Restrict(s.hcp.Token, hcptest.Rights{})
			s.next("run2")
			s.succeeds()
			if runs := s.runs(); len(runs) != 1 || runs[0].Status != "applied" {
				t.Errorf("the runs are %+v", runs)
			}
		})
	}
}

func TestDriver_RequestThatTakesEffectLateLeavesNoSecondRun(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	late := make(chan struct{})
	s.hcp.Fail(hcptest.Fault{Request: "POST runs", Hold: late})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		s.hcp.AwaitRequest("POST runs", 1)
		stop() // the process dies while the request is under way
	}()
	if _, err := s.driver.Apply(ctx, s.job); err == nil {
		t.Fatal("a run without an answer succeeds")
	}
	s.next("run2")
	s.name("two")
	s.waits(state.WaitRemotePlan)
	close(late)
	s.hcp.AwaitRun("net-web", 2)
	s.succeeds()
	s.nothingLeft()
	s.next("run3")
	s.name("three")
	s.succeeds()
	s.nothingLeft()
}

// nothingLeft makes sure that no run goes on.
func (s *task) nothingLeft() {
	s.t.Helper()
	for _, r := range s.runs() {
		if !slices.Contains([]string{"applied", "discarded", "canceled", "planned_and_finished"}, r.Status) {
			s.t.Errorf("a run is left: %+v", r)
		}
	}
}

// Such a run may be first in the workspace, so that the one of the task would wait for ever.
func TestDriver_RunThatNoRecordKnowsDoesNotBlockTheWorkspace(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.succeeds()
	version := s.hcp.Upload("net-web")
	stray := s.post("runs", fmt.Sprintf(`{"data": {"type": "runs", "attributes": {"message": "Terrapulse task web, run lost (fence 1): apply", "auto-apply": false}, "relationships": {
		"workspace": {"data": {"type": "workspaces", "id": %q}}, "configuration-version": {"data": {"type": "configuration-versions", "id": %q}}}}}`, s.rec.Workspace, version))
	s.hcp.Await(stray, "planned", "cost_estimated", "policy_checked")
	s.next("run2")
	s.name("two")
	s.succeeds()
	s.nothingLeft()
	if r := s.hcp.Run(stray); r.Status != "discarded" {
		t.Errorf("the other run is %+v", r)
	}
}

// A process that was frozen, and whose task was given to another run, has created a run.
func TestDriver_RunThatCannotBeRecordedIsStopped(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.fail = func(r state.Remote) error {
		if r.Run.ID == "" {
			return nil
		}
		s.rec.By, s.rec.Run = "run2", state.RemoteRun{Version: "cv-other", Workspace: "net-web"}
		return errors.New("the claim is lost")
	}
	if _, _, err := s.step(); err == nil || !strings.Contains(err.Error(), "the claim is lost") {
		t.Errorf("a run without its claim: %v", err)
	}
	s.hcp.Await(s.hcp.AwaitRun("net-web", 1).ID, "discarded", "canceled")
}
