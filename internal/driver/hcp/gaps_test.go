package hcp_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// two is a module with two resources, of which a change replaces both.
const two = `
variable "services" {}
variable "name" { default = "web" }
resource "terraform_data" "named" {
  count            = 2
  triggers_replace = var.name
}
`

// replaces applies two resources, and returns the plan that replaces both as the judge gets it.
func replaces(t *testing.T, s *task) driver.Plan {
	t.Helper()
	s.module(two)
	s.job.Judge = func(context.Context, driver.Plan) error { return nil }
	if c := s.succeeds(); c.Add != 2 && !c.Unknown {
		t.Errorf("the first run changed %+v", c)
	}
	s.next("run2")
	s.job.Task.Variables = map[string]cty.Value{"name": cty.StringVal("two")}
	var judged driver.Plan
	s.job.Judge = func(ctx context.Context, p driver.Plan) error { judged = p; return approval(ctx, p) }
	s.waitsForApproval()
	return judged
}

// TestDriver_NumbersThatAreMissingAreReadOrUnknown has a server whose plans, applies and workspaces do
// not say how many resources they have: a guard must not take that for none.
func TestDriver_NumbersThatAreMissingAreReadOrUnknown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rights  hcptest.Rights
		changes state.Changes
		inState *int
	}{
		"the plan can be read":    {hcptest.Rights{}, state.Changes{Add: 2, Destroy: 2}, new(2)},
		"the plan cannot be read": {hcptest.Rights{NoPlanJSON: true}, state.Changes{Unknown: true}, new(2)},
		"nothing can be read":     {hcptest.Rights{NoPlanJSON: true, NoState: true}, state.Changes{Unknown: true}, nil},
	} {
		s := newTask(t, hcptest.With(hcptest.NoCounts))
		s.hcp.Restrict(s.hcp.Token, test.rights)
		plan := replaces(t, s)
		if diff := cmp.Diff(test.changes, *plan.Changes.Counts()); diff != "" || !plan.Changes.Any() || plan.Digest == "" {
			t.Errorf("%s: the judge gets the plan %q with changes (-want +got):\n%s", name, plan.Digest, diff)
		}
		if diff := cmp.Diff(test.inState, plan.InState); diff != "" {
			t.Errorf("%s: resources in the state (-want +got):\n%s", name, diff)
		}
		s.job.Judge = func(context.Context, driver.Plan) error { return nil }
		s.resume(state.RemoteReady)
		if diff := cmp.Diff(test.changes, *s.succeeds()); diff != "" {
			t.Errorf("%s: the run has changed (-want +got):\n%s", name, diff)
		}
	}
}

// TestDriver_OwnRunIsFoundWithoutAMessage has the process die after it has created a run and before it has recorded
// that, on a server that keeps no messages.
func TestDriver_OwnRunIsFoundWithoutAMessage(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(hcptest.NoMessages))
	s.fail = func(r state.Remote) error {
		if r.Run.ID != "" {
			return errors.New("the process dies")
		}
		return nil
	}
	if _, _, err := s.step(); err == nil {
		t.Fatal("the run was recorded")
	}
	s.fail, s.driver = nil, s.newDriver()
	s.next("run2")
	s.succeeds()
	if s.appliedOnce(); len(s.runs()) != 1 {
		t.Errorf("there are the runs %+v", s.runs())
	}
}

func TestDriver_PlanThatIsNotIncludedIsRead(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.With(hcptest.NoParts))
	if c := replaces(t, s).Changes; c.Destroy != 2 || c.Unknown {
		t.Errorf("the judge got %+v", c)
	}
	contains(t, s.out.String(), "2 to add, 0 to change, 0 to destroy")
}

// TestDriver_FailureWithoutAReasonIsNotSaidToBeAPolicy has a run that ends with an error of which the
// server says nothing.
func TestDriver_FailureWithoutAReasonIsNotSaidToBeAPolicy(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(hcptest.NoStatus))
	s.planned()
	s.hcp.Show(s.rec.Run.ID, "errored")
	if _, _, err := s.step(); err == nil {
		t.Error("the run succeeds")
	} else {
		contains(t, err.Error(), "neither its plan (no status) nor its apply (no status) says why", s.rec.Run.URL)
	}
}

func TestDriver_ServerWithoutSafeDeleteIsNotAMissingRight(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(hcptest.NoSafeDelete))
	var log testtools.Output
	s.driver.Log = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := s.driver.Plan(t.Context(), s.job); err != nil { // it creates a workspace, and would delete it
		t.Error(err)
	}
	if contains(t, log.String(), "a workspace that no task needs any more is not deleted", "workspace=net-web"); strings.Contains(log.String(), "destroy") {
		t.Errorf("a plan is called a destroy:\n%s", log.String())
	}
	s.next("run1b")
	s.succeeds()
	s.next("run2")
	s.job.Run.Kind = state.KindDestroy
	s.succeeds()
	contains(t, s.out.String(), "The workspace net-web is not deleted: this server cannot delete a workspace only if it manages no resources")
}

// TestDriver_ConflictThatIsAnsweredAsAnErrorLeavesTheWorkspace locks the workspace before it would be
// deleted, on a server that answers this with 500.
func TestDriver_ConflictThatIsAnsweredAsAnErrorLeavesTheWorkspace(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(hcptest.BrokenConflicts))
	s.succeeds()
	s.next("run2")
	s.job.Run.Kind = state.KindDestroy
	s.planned()
	hold := s.hcp.Hold("applying")
	s.waits(state.WaitRemote)
	hold.Release()
	s.poll(state.RemoteEnded)
	s.hcp.Lock("net-web", "jane")
	if _, _, err := s.step(); err != nil {
		t.Errorf("the destroy fails: %v", err)
	}
	contains(t, s.out.String(), "The workspace net-web is not deleted: HCP Terraform says that it still manages resources, or that a run of it goes on")
}

func TestDriver_RunSaysThatItsNotificationIsRefused(t *testing.T) {
	t.Parallel()
	for _, gaps := range [][]hcptest.Gap{nil, {hcptest.RefusedNotifications}} {
		s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(gaps...))
		s.job.Config.Cloud().NotificationURL, s.job.Config.Cloud().NotificationToken = s.hcp.URL, "signing-secret" // which does not accept it
		s.succeeds()
		if s.rec.Notification != "" {
			t.Errorf("%v: a notification is recorded", gaps)
		}
		contains(t, s.out.String(), "There are no notifications of the workspace net-web, so its runs are polled: set the notification to "+s.hcp.URL)
	}
}

// second is another Terrapulse with the same organization and prefix, and a store of its own.
func (s *task) second() *task {
	other := &task{t: s.t, hcp: s.hcp, driver: s.newDriver(), job: s.job}
	other.job.Output = &other.out
	other.job.Run = state.Run{ID: "other1", Task: "web", Fence: 1}
	other.job.Remote = other
	t := *s.job.Task
	other.job.Task = &t
	return other
}

// judged is a judge that keeps the causes of the plan, and permits it.
func judged(causes *string) func(context.Context, driver.Plan) error {
	return func(_ context.Context, p driver.Plan) error {
		*causes = ""
		for _, c := range p.Causes {
			*causes += c.Text + "; "
		}
		return nil
	}
}

// TestDriver_SecondInstanceInOneWorkspaceIsHeld has two instances with the same organization and
// prefix: each would destroy what the other one has created. Some servers say 0 of the resources that they
// do not count. Then the state decides, and if its content cannot be read, the workspace may have resources.
func TestDriver_SecondInstanceInOneWorkspaceIsHeld(t *testing.T) {
	t.Parallel()
	for _, server := range []struct {
		gaps   []hcptest.Gap
		rights hcptest.Rights
		status int // of each request of a state's content
	}{
		{}, {gaps: []hcptest.Gap{hcptest.NoCurrentVersion}},
		{gaps: []hcptest.Gap{hcptest.ZeroCounts}},
		{gaps: []hcptest.Gap{hcptest.ZeroCounts}, rights: hcptest.Rights{NoState: true}},
		{gaps: []hcptest.Gap{hcptest.ZeroCounts}, status: http.StatusForbidden},
		{gaps: []hcptest.Gap{hcptest.ZeroCounts}, status: http.StatusNotFound},
		{gaps: []hcptest.Gap{hcptest.ZeroCounts, hcptest.NoStateAddress}},
	} {
		first := newTask(t, hcptest.With(server.gaps...))
		first.hcp.Restrict(first.hcp.Token, server.rights)
		if server.status > 0 {
			first.hcp.Fail(hcptest.Fault{Request: "GET signed/state-*", Status: server.status, Times: -1})
		}
		first.module(two)
		var causes string
		first.job.Judge = judged(&causes)
		first.succeeds()
		first.next("run2")
		first.name("two")
		if first.succeeds(); causes != "" {
			t.Errorf("an instance alone waits: %s", causes)
		}

		second := first.second()
		second.name("of the second")
		second.job.Judge = judged(&causes)
		second.succeeds()
		contains(t, causes, "was created by Terrapulse and has resources, but this store has no record of it")

		first.next("run3")
		first.name("three")
		first.job.Judge = judged(&causes)
		first.succeeds()
		contains(t, causes, "another program has changed the workspace net-web since the last run", "no second Terrapulse uses the same organization and prefix")
		contains(t, first.out.String(), "Another program has changed the workspace net-web")

		first.next("run4")
		first.name("four")
		if first.succeeds(); causes != "" {
			t.Errorf("after the approval, the instance waits again: %s", causes)
		}
	}
}
