package hcp_test

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestDriver_PlansAppliesAndDestroys(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	wait := s.waits(state.WaitRemotePlan)
	contains(t, wait.Wait.Text, s.rec.Run.ID)
	run := s.runs()[0]
	if run.AutoApply || run.ConfigurationVersion != s.rec.Run.Version || s.rec.By != "run1" || !s.rec.Created {
		t.Errorf("the run is %+v, and %+v was recorded", run, s.rec)
	}
	contains(t, run.Message, "task web, run run1 (fence 7)")
	contains(t, run.Upload["main.tf"], `source   = "./modules"`)
	contains(t, run.Upload["terrapulse.auto.tfvars"], "services = {")
	if changes := s.succeeds(); changes.Add != 1 || changes.Change != 0 {
		t.Errorf("the run changed %+v", changes)
	}
	contains(t, s.out.String(), "Plan: 1 to add", "Apply complete!", s.hcp.URL+"/app/acme/workspaces/net-web/runs/"+run.ID)

	s.next("run2")
	if changes := s.succeeds(); changes.Any() {
		t.Errorf("a run without changes changed %+v", changes)
	}
	s.next("run3")
	s.name("two")
	if changes := s.succeeds(); changes.Change != 1 {
		t.Errorf("the run changed %+v", changes)
	}
	if runs := s.runs(); len(runs) != 3 || runs[1].Status != "planned_and_finished" {
		t.Errorf("HCP Terraform has %+v", runs)
	}

	s.next("run4")
	s.job.Run.Kind = state.KindDestroy
	if changes := s.succeeds(); changes.Destroy != 1 {
		t.Errorf("the destroy changed %+v", changes)
	}
	if names := s.hcp.Workspaces(); len(names) != 0 {
		t.Errorf("the workspaces %v are left", names)
	}
	contains(t, s.out.String(), "The workspace net-web was deleted.")

	s.next("run5") // the task comes back
	if changes := s.succeeds(); changes.Add != 1 {
		t.Errorf("after the destroy, the run changed %+v", changes)
	}
	for _, request := range s.hcp.Requests() {
		if strings.Contains(request, "?") {
			t.Error(request)
		}
	}
}

func TestDriver_LineBreakAfterTheTokenDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Config.Cloud().Token += "\n" // as secrets have that were stored from a file
	s.waits(state.WaitRemotePlan)
	if _, err := s.driver.Poll(t.Context(), s.job.Config, []state.RemoteRun{s.rec.Run}); err != nil {
		t.Error(err)
	}
}
