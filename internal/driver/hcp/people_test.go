package hcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// approval is a judge by which plans wait for an approval.
func approval(context.Context, driver.Plan) error {
	return &driver.WaitError{Wait: state.Wait{For: state.WaitApproval}}
}

func TestDriver_PlanIsJudgedBeforeItIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	var judged driver.Plan
	s.job.Judge = func(ctx context.Context, p driver.Plan) (err error) {
		if p.Resources != nil || p.Changes.Add != 1 {
			t.Errorf("the judge got %+v", p)
		}
		if judged, err = p.Detail(ctx); err != nil {
			return err
		}
		if judged.Text, err = p.Print(ctx); err != nil {
			return err
		}
		return approval(ctx, p)
	}
	s.waitsForApproval()
	if len(judged.Resources) != 1 || judged.Digest == "" || !strings.Contains(judged.Text, "Plan: 1 to add") || !judged.New {
		t.Errorf("the details are %+v", judged)
	}
	first := judged.Digest
	s.resume(state.RemoteReady)
	s.waits(state.WaitApproval)
	if run := s.runs()[0]; len(s.runs()) != 1 || !run.Confirmable || judged.Digest != first {
		t.Errorf("after another judgement, the run is %+v", run)
	}
	s.job.Judge = func(context.Context, driver.Plan) error { return nil }
	s.resume(state.RemoteReady)
	if changes := s.succeeds(); changes.Add != 1 {
		t.Errorf("the run changed %+v", changes)
	}
	if run := s.runs()[0]; run.Decider != "team" {
		t.Errorf("the run was confirmed by %q", run.Decider)
	}
}

func TestDriver_WithoutPlanJSONThePlanHasNumbers(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.hcp.Restrict(s.hcp.Token, hcptest.Rights{NoPlanJSON: true})
	var digests []string
	s.job.Judge = func(ctx context.Context, p driver.Plan) error {
		p, err := p.Detail(ctx)
		if err != nil {
			return err
		}
		if p.Resources != nil || p.JSON != nil || p.Changes.Add != 1 {
			t.Errorf("the details are %+v", p)
		}
		digests = append(digests, p.Digest)
		return approval(ctx, p)
	}
	s.waitsForApproval()
	s.resume(state.RemoteReady)
	s.waits(state.WaitApproval)
	if len(digests) != 2 || digests[0] == "" || digests[0] != digests[1] {
		t.Errorf("the plan of one run is identified by %q", digests)
	}
}

func TestDriver_PersonWhoConfirmsThereApproves(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Judge = approval
	s.waitsForApproval()
	s.hcp.Confirm(s.rec.Run.ID, "jane")
	s.hcp.Await(s.rec.Run.ID, "applied")
	s.poll(state.RemoteEnded)
	wait := s.waits(state.WaitRemote)
	if wait.Confirmed == nil || wait.Confirmed.By != "jane in HCP Terraform" || wait.Confirmed.At.IsZero() {
		t.Fatalf("the decision is %+v", wait.Confirmed)
	}
	s.job.Judge = nil
	s.poll(state.RemoteEnded)
	if changes := s.succeeds(); changes.Add != 1 || len(s.runs()) != 1 {
		t.Errorf("the run changed %+v, and there are %+v", changes, s.runs())
	}
}

func TestDriver_PersonWhoConfirmsThereIsKnownAfterAnApplyThatFailed(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.module("variable \"services\" {}\nvariable \"name\" {}\nresource \"terraform_data\" \"x\" {\n  provisioner \"local-exec\" {\n    command = \"exit 1\"\n  }\n}\n")
	s.job.Judge = approval
	s.waitsForApproval()
	s.hcp.Confirm(s.rec.Run.ID, "jane")
	s.hcp.Await(s.rec.Run.ID, "errored")
	s.poll(state.RemoteEnded)
	if wait := s.waits(state.WaitRemote); wait.Confirmed == nil || wait.Confirmed.By != "jane in HCP Terraform" {
		t.Fatalf("the decision is %+v", wait.Confirmed)
	}
	s.poll(state.RemoteEnded)
	if _, _, err := s.step(); err == nil || !strings.Contains(err.Error(), "the apply in HCP Terraform failed") || !s.rec.Applied {
		t.Errorf("the error is %v, and %+v is recorded", err, s.rec)
	}
}

func TestDriver_PersonWhoDiscardsThereRejects(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Judge = approval
	s.waitsForApproval()
	s.hcp.Discard(s.rec.Run.ID, "jane", "not on a Friday")
	s.poll(state.RemoteEnded)
	_, _, err := s.step()
	if no := (*driver.EndedError)(nil); !errors.As(err, &no) || no.Action != audit.Reject || no.By != "jane in HCP Terraform" || no.Comment != "not on a Friday" {
		t.Errorf("the error is %v", err)
	}
}

func TestDriver_DecisionAboutAnEarlierAttemptIsAboutItsRun(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Judge = approval
	s.waitsForApproval()
	s.hcp.Discard(s.rec.Run.ID, "jane", "not on a Friday")
	s.rec.Run.ID = "" // the process died before it recorded the run that it had created
	s.next("run2")
	s.waits(state.WaitRemotePlan)
	if all := s.done.Decided; len(all) != 1 || all[0].Run != "run1" || all[0].Action != audit.Reject {
		t.Errorf("the decisions are %+v", all)
	}
}

// TestDriver_DecisionWithTheTokensAccountIsThatOfAPerson decides in the browser with the
// account whose token Terrapulse has.
func TestDriver_DecisionWithTheTokensAccountIsThatOfAPerson(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Judge = approval
	s.waitsForApproval()
	s.hcp.Discard(s.rec.Run.ID, "team", "no")
	s.poll(state.RemoteEnded)
	_, _, err := s.step()
	if no := (*driver.EndedError)(nil); !errors.As(err, &no) || no.Action != audit.Reject || no.Comment != "no" {
		t.Errorf("the error is %v", err)
	}

	s.next("run2")
	s.waitsForApproval()
	s.hcp.Confirm(s.rec.Run.ID, "team")
	s.hcp.Await(s.rec.Run.ID, "applied")
	s.poll(state.RemoteEnded)
	if wait := s.waits(state.WaitRemote); wait.Confirmed == nil {
		t.Error("the confirmation is no approval")
	}
}

// TestDriver_PersonWhoCancelsThereCancels tells that from a server that ends a run by itself, which is a failure.
func TestDriver_PersonWhoCancelsThereCancels(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"jane", ""} {
		s := newTask(t, hcptest.WithoutTerraform())
		s.hcp.Hold("planning")
		s.waits(state.WaitRemotePlan)
		s.hcp.Await(s.rec.Run.ID, "planning")
		s.hcp.Cancel(s.rec.Run.ID, user)
		s.poll(state.RemoteEnded)
		_, _, err := s.step()
		no := (*driver.EndedError)(nil)
		switch byPerson := errors.As(err, &no); {
		case user != "" && (!byPerson || no.Action != audit.Cancel || no.By != "jane in HCP Terraform"):
			t.Errorf("the error is %v", err)
		case user == "" && (err == nil || byPerson || !strings.Contains(err.Error(), "no person has decided that")):
			t.Errorf("after the server has ended the run, the error is %v", err)
		}
	}
}

func TestDriver_ManualApplyOfTheWorkspaceNeedsAnApproval(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Create("net-web", map[string]any{"auto-apply": false})
	var causes []state.Cause
	s.job.Judge = func(_ context.Context, p driver.Plan) error {
		causes = p.Causes
		return nil
	}
	s.succeeds()
	if len(causes) != 1 || causes[0].Rule != state.RuleApproval || !strings.Contains(causes[0].Text, "net-web is set to manual apply") {
		t.Errorf("the judge got the causes %+v", causes)
	}
}

func TestDriver_ChangedInputReplacesTheRunThatWaits(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Judge = approval
	s.waitsForApproval()
	first := s.rec.Run.ID

	s.name("two")
	s.next("run2")
	s.job.Run.Reason.Text = "services changed: web (1 added)"
	s.job.Judge = nil
	s.succeeds()
	runs := s.runs()
	if len(runs) != 2 || runs[0].ID != first || runs[0].Status != "discarded" || runs[1].Status != "applied" {
		t.Fatalf("HCP Terraform has %+v", runs)
	}
	contains(t, strings.Join(runs[0].Comments, "\n"), "services changed: web (1 added)", "run2")
}

func TestDriver_RunThatPlansOldInputIsCancelledFirst(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	hold := s.hcp.Hold("planning")
	s.waits(state.WaitRemotePlan)
	s.hcp.Await(s.rec.Run.ID, "planning")
	s.name("two")
	s.job.Run.Resumed = &state.Resume{}
	if wait, _, err := s.step(); err != nil || wait == nil || wait.Wait.For != state.WaitRemotePlan {
		t.Fatalf("the run waits for %+v: %v", wait, err)
	}
	hold.Release()
	s.succeeds()
	if runs := s.runs(); len(runs) != 2 || runs[0].Status != "canceled" || runs[1].Status != "applied" {
		t.Errorf("HCP Terraform has %+v", runs)
	}
}

func TestDriver_RunThatAppliesIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	hold := s.hcp.Hold("applying")
	s.planned()
	s.waits(state.WaitRemote)
	s.hcp.Await(s.rec.Run.ID, "applying")

	s.name("two")
	s.next("run2") // the first is lost
	s.waits(state.WaitRemote)
	if s.rec.By != "run1" {
		t.Errorf("the run that applies belongs to %s", s.rec.By)
	}
	hold.Release()
	s.poll(state.RemoteEnded)
	s.succeeds()
	if runs := s.runs(); len(runs) != 2 || runs[0].Status != "applied" || runs[1].Status != "applied" {
		t.Errorf("HCP Terraform has %+v", runs)
	}
}

func TestDriver_RunThatWasConfirmedAfterItWasGivenUpIsDoubtedUntilOneSucceeds(t *testing.T) {
	t.Parallel()
	for name, meets := range map[string]func(s *task, release func()){
		"it has ended": func(s *task, release func()) {
			release()
			s.hcp.Await(s.rec.Run.ID, "applied")
		},
		"it still applies": func(s *task, release func()) {
			s.waits(state.WaitRemote)
			release()
			s.poll(state.RemoteEnded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTask(t, hcptest.WithoutTerraform())
			s.job.Judge = approval
			s.waitsForApproval()
			late := s.rec.Run.ID
			hold := s.hcp.Hold("applying")
			s.hcp.Confirm(late, "jane")
			s.hcp.Await(late, "applying")
			s.name("two")
			s.next("run2") // the first was superseded
			meets(s, hold.Release)
			s.waits(state.WaitRemotePlan)
			if s.rec.ConfirmedLate != late {
				t.Errorf("the record says that %q was confirmed late, not %s", s.rec.ConfirmedLate, late)
			}
			s.job.Judge = nil
			s.pollPast(state.RemotePlanning)
			s.succeeds()
			if s.rec.ConfirmedLate != "" {
				t.Errorf("a run has succeeded, and it is still doubted: %s", s.rec.ConfirmedLate)
			}
			s.name("three")
			s.next("run3")
			s.waits(state.WaitRemotePlan)
			if s.rec.ConfirmedLate != "" {
				t.Errorf("a run that succeeded is doubted: %s", s.rec.ConfirmedLate)
			}
		})
	}
}

func TestDriver_StopsRunsThatAreGivenUp(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.planned()
	why := state.GivenUp{Comment: "Terrapulse has given up run run1: it is rejected"}
	left := s.rec.Run.GiveUp(why)
	for range 2 {
		if applied, err := s.driver.Stop(t.Context(), s.job.Config, left); err != nil || applied {
			t.Fatalf("applied %v: %v", applied, err)
		}
	}
	if run := s.runs()[0]; run.Status != "discarded" || len(run.Comments) != 1 {
		t.Errorf("the run is %+v", run)
	}

	s.next("run2")
	hold := s.hcp.Hold("applying")
	s.planned()
	s.hcp.Confirm(s.rec.Run.ID, "jane")
	s.hcp.Await(s.rec.Run.ID, "applying")
	if applied, err := s.driver.Stop(t.Context(), s.job.Config, s.rec.Run.GiveUp(why)); err != nil || !applied {
		t.Errorf("a run that applies: applied %v: %v", applied, err)
	}
	hold.Release()
	s.hcp.Await(s.rec.Run.ID, "applied")
	left = state.RemoteRun{Workspace: "net-web", Version: "cv-none"}.GiveUp(why)
	if applied, err := s.driver.Stop(t.Context(), s.job.Config, left); err != nil || applied {
		t.Errorf("a run that was never created: applied %v: %v", applied, err)
	}
}

// A run that was given up, then confirmed and cancelled by people, has perhaps applied a part.
func TestDriver_RunThatWasGivenUpAndCancelledWhileItAppliedHasBegun(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	started := filepath.Join(t.TempDir(), "started")
	s.module(module + `resource "terraform_data" "slow" {
  provisioner "local-exec" { command = "touch ` + started + `; sleep 60" }
}
`)
	s.planned()
	s.hcp.Confirm(s.rec.Run.ID, "jane")
	s.hcp.Await(s.rec.Run.ID, "applying")
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(started); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("Terraform has not begun to apply")
		}
	}
	s.hcp.Cancel(s.rec.Run.ID, "jane")
	s.hcp.Await(s.rec.Run.ID, "canceled")
	if applied, err := s.driver.Stop(t.Context(), s.job.Config, s.rec.Run.GiveUp(state.GivenUp{})); err != nil || !applied {
		t.Errorf("applied %v: %v", applied, err)
	}
}

// HCP Terraform answers 404 to a token that may not read a run.
func TestDriver_RunThatTheTokenMayNotReadIsNotTakenForStopped(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.planned()
	left := s.rec.Run.GiveUp(state.GivenUp{Since: time.Now()})
	for _, request := range []string{"GET runs/*", "GET organizations/*/workspaces/*"} {
		defer s.hcp.Fail(hcptest.Fault{Request: request, Status: http.StatusNotFound, Times: -1})()
	}
	if applied, err := s.driver.Stop(t.Context(), s.job.Config, left); err == nil || applied || !strings.Contains(err.Error(), "the token may not read it") {
		t.Errorf("applied %v: %v", applied, err)
	}
	left = s.rec.Run.GiveUp(state.GivenUp{Since: time.Now().Add(-2 * time.Hour)})
	if applied, err := s.driver.Stop(t.Context(), s.job.Config, left); err != nil || !applied {
		t.Errorf("what it has done is not known: applied %v, %v", applied, err)
	}
}

func TestDriver_RunWithoutPlanBeginsAnewWhenItsInputIsApproved(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.module(module + `resource "terraform_data" "two" { input = file("nothing") }`)
	s.waits(state.WaitRemotePlan)
	s.poll(state.RemoteEnded)
	if wait, _, err := s.step(); wait != nil || err == nil {
		t.Fatalf("the run waits for %+v, %v", wait, err)
	}
	s.module(module)
	s.job.Run.Wait, s.job.Run.Remote = &state.Wait{For: state.WaitApproval}, nil // as the engine does
	if s.succeeds(); len(s.runs()) != 2 {
		t.Errorf("there are %d runs", len(s.runs()))
	}
}

func TestDriver_PolicyThatRefusesThePlanFailsTheRun(t *testing.T) {
	t.Parallel()
	for name, checks := range map[string]hcptest.Checks{
		"a mandatory policy":       {Policy: "hard_failed"},
		"a run task after a plan":  {PostPlan: "failed"},
		"a run task before a plan": {PrePlan: "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTask(t, hcptest.WithoutTerraform())
			s.hcp.Check(checks)
			s.waits(state.WaitRemotePlan)
			s.poll(state.RemoteEnded)
			if _, _, err := s.step(); err == nil {
				t.Error("the run succeeds")
			} else {
				contains(t, err.Error(), "a mandatory policy or a run task failed", s.rec.Run.URL)
			}
		})
	}
}

func TestDriver_CostsAndRunTasksDelayTheConfirmation(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Check(hcptest.Checks{Cost: true, Policy: "passed", PrePlan: "passed", PostPlan: "passed", PreApply: "passed", PostApply: "passed"})
	s.succeeds()
	s.appliedOnce()
}

func TestDriver_TokenThatLosesItsRightsLeavesTheRunToTheNextOne(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.planned()
	s.hcp.Restrict(s.hcp.Token, hcptest.Rights{NoRuns: true})
	if _, _, err := s.step(); err == nil {
		t.Fatal("the run is confirmed without the right to do so")
	} else {
		contains(t, err.Error(), "confirm the run "+s.rec.Run.ID, "token")
	}
	s.hcp.Restrict(s.hcp.Token, hcptest.Rights{})
	s.next("run2")
	s.succeeds()
	if len(s.runs()) != 1 {
		t.Errorf("the runs are %+v", s.runs())
	}
	s.appliedOnce()
}

func TestDriver_RunThatItHasStoppedIsNoDecisionOfAPerson(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"before the process died": true, "not yet": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTask(t, hcptest.WithoutTerraform())
			s.waits(state.WaitRemotePlan)
			s.poll(state.RemoteReady)
			s.rec.Intent = state.RemoteStop
			if ended {
				s.hcp.Discard(s.rec.Run.ID, "team", "")
			}
			s.waits(state.WaitRemotePlan)
			if runs := s.runs(); len(runs) != 2 || runs[0].Status != "discarded" {
				t.Errorf("the runs are %+v", runs)
			}
			s.poll(state.RemoteReady)
			s.succeeds()
			s.appliedOnce()
		})
	}
}

// TestDriver_RunThatIsRecordedAsConfirmedIsJudgedFirst gets no judge, because a
// poll has not found the run.
func TestDriver_RunThatIsRecordedAsConfirmedIsJudgedFirst(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.planned()
	s.resume(state.RemoteEnded)
	s.waits(state.WaitRemotePlan)
	if run := s.runs()[0]; !run.Confirmable {
		t.Errorf("the run is %+v", run)
	}
}

// TestDriver_RunThatAPersonStartedWithTheUploadIsNotAdopted: a request to create a run was lost, and a
// person starts one with the configuration that was uploaded for it.
func TestDriver_RunThatAPersonStartedWithTheUploadIsNotAdopted(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Fail(hcptest.Fault{Request: "POST runs", Status: http.StatusBadGateway})
	if _, _, err := s.step(); err == nil {
		t.Fatal("the run was created")
	}
	defer s.hcp.Hold("planning").Release()
	theirs := s.byHand()
	s.next("run-again")
	s.waits(state.WaitRemotePlan)
	if s.rec.Run.ID == theirs {
		t.Error("the run of a person was taken for one of Terrapulse")
	}
	if status := s.hcp.Run(theirs).Status; status != "planning" && status != "pending" {
		t.Errorf("the run of the person is %s", status)
	}
}

// byHand starts a run of the configuration that was uploaded last, as a person does with
// the API, and returns its id.
func (s *task) byHand() string {
	s.t.Helper()
	body := fmt.Sprintf(`{"data": {"type": "runs", "attributes": {"message": "by hand"}, "relationships": {
		"workspace": {"data": {"type": "workspaces", "id": %q}}, "configuration-version": {"data": {"type": "configuration-versions", "id": %q}}}}}`,
		s.rec.Workspace, s.rec.Run.Version)
	return s.post("runs", body)
}
