package hcp_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// settle runs the task as the engine does, until a run of it succeeds. A run that fails is
// followed by another one, and each step may come from a new process. It returns what
// failed.
func (s *task) settle() (failed []error) {
	s.t.Helper()
	for i := range 6 {
		s.next(fmt.Sprintf("attempt%d", i+1))
		for range 12 {
			s.driver = s.newDriver()
			wait, _, err := s.step()
			if err != nil {
				failed = append(failed, err)
				break
			}
			switch {
			case wait == nil:
				return failed
			case wait.Wait.For == state.WaitRemote:
				s.poll(state.RemoteEnded)
			default:
				s.pollPast(state.RemotePlanning)
			}
		}
	}
	s.t.Fatalf("the task never succeeds: %v\n%s", failed, s.out.String())
	return nil
}

// appliedOnce makes sure that the content was applied once, and that nothing is left.
func (s *task) appliedOnce() {
	s.t.Helper()
	applied := 0
	for _, r := range s.runs() {
		switch r.Status {
		case "applied":
			applied++
		case "discarded", "canceled", "errored", "planned_and_finished":
		default:
			s.t.Errorf("a run is left: %+v", r)
		}
	}
	if applied != 1 {
		s.t.Errorf("%d runs applied the same content: %+v", applied, s.runs())
	}
}

var element = regexp.MustCompile(`^([a-z]+-[0-9]{6,}|acme|net-web|upload-.*|log-.*|plan-.*)$`)

// requests are the kinds of requests that a whole run makes.
func requests(t *testing.T) []string {
	t.Helper()
	s := newTask(t, hcptest.WithoutTerraform())
	s.settle()
	var all []string
	for _, request := range s.hcp.Requests() {
		method, path, _ := strings.Cut(request, " ")
		parts := strings.Split(path, "/")
		for i, p := range parts {
			if element.MatchString(p) {
				parts[i] = "*"
			}
		}
		all = append(all, method+" "+strings.Join(parts, "/"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestDriver_AnyFaultOfARequestEndsInOneRun(t *testing.T) {
	t.Parallel()
	all := requests(t)
	if len(all) < 12 {
		t.Fatalf("a run makes only the requests %v", all)
	}
	for name, fault := range map[string]hcptest.Fault{
		"lost before":    {Lost: true},
		"lost after":     {Lost: true, After: true},
		"error before":   {Status: http.StatusBadGateway},
		"error after":    {Status: http.StatusServiceUnavailable, After: true},
		"conflict":       {Status: http.StatusConflict},
		"conflict after": {Status: http.StatusConflict, After: true},
		"too many":       hcptest.RateLimited("", 2),
		"denied":         {Status: http.StatusForbidden},
	} {
		for _, request := range all {
			t.Run(name+" "+request, func(t *testing.T) {
				t.Parallel()
				s, fault := newTask(t, hcptest.WithoutTerraform()), fault
				fault.Request = request
				s.hcp.Fail(fault)
				failed := s.settle()
				s.appliedOnce()
				if len(failed) > 1 {
					t.Errorf("one fault lets %d runs fail: %v", len(failed), failed)
				}
				for _, err := range failed {
					if strings.Contains(err.Error(), "signed") || strings.Contains(err.Error(), s.hcp.Token) {
						t.Errorf("the error shows a secret: %v", err)
					}
				}
				if name == "too many" && len(failed) > 0 {
					t.Errorf("a rate limit lets the run fail: %v", failed)
				}
			})
		}
	}
}

func TestDriver_ProcessThatDiesBetweenAnyTwoRecordsLeavesOneRun(t *testing.T) {
	t.Parallel()
	records := 0
	s := newTask(t, hcptest.WithoutTerraform())
	s.fail = func(state.Remote) error { records++; return nil }
	s.settle()
	if records < 4 {
		t.Fatalf("a run records %d times", records)
	}
	for dies := range records {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprintf("record %d, written %v", dies+1, written), func(t *testing.T) {
				t.Parallel()
				s := newTask(t, hcptest.WithoutTerraform())
				n, deaths := 0, 0
				s.fail = func(r state.Remote) error {
					if n++; n != dies+1 {
						return nil
					}
					deaths++
					if written {
						s.rec = r
					}
					return errors.New("the claim is lost")
				}
				// A run that is polled more often may record more than another.
				if failed := s.settle(); len(failed) != deaths {
					t.Errorf("%d runs failed, and %d processes died: %v", len(failed), deaths, failed)
				}
				s.appliedOnce()
			})
		}
	}
}

func TestDriver_UnknownStatusIsNeitherSuccessNorFailure(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	hold := s.hcp.Hold("planning")
	s.waits(state.WaitRemotePlan)
	s.hcp.Await(s.rec.Run.ID, "planning")
	s.hcp.Show(s.rec.Run.ID, "pondering")
	if status := s.poll(state.RemotePlanning); status.Text != "pondering" {
		t.Errorf("the status is %+v", status)
	}
	s.waits(state.WaitRemotePlan)
	hold.Release()
	s.poll(state.RemoteReady) // it can be confirmed, whatever its status is called
	s.waits(state.WaitRemote)
	s.hcp.Show(s.rec.Run.ID, "")
	s.poll(state.RemoteEnded)
	s.succeeds()
	s.appliedOnce()
}

func TestDriver_ServerWithoutAListOfAllRunsIsPolledRunByRun(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Fail(hcptest.Fault{Request: "GET organizations/*/runs", Status: http.StatusNotFound, Times: -1})
	s.waits(state.WaitRemotePlan)
	gone := state.RemoteRun{ID: "run-gone000000000000", Workspace: "net-gone"}
	found, err := s.driver.Poll(t.Context(), s.job.Config, []state.RemoteRun{gone, s.rec.Run})
	if _, said := found[gone.ID]; said || err == nil || !strings.Contains(err.Error(), gone.ID) || found[s.rec.Run.ID].Phase == "" {
		t.Errorf("beside a run that is gone: %+v, %v", found, err)
	}
	s.succeeds()
	s.appliedOnce()
}

// TestDriver_PlanThatFailedBeforeAnApprovalIsMadeAgain begins anew with data that a guard
// has held, of which no plan could be made.
func TestDriver_PlanThatFailedBeforeAnApprovalIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.module("variable \"services\" {}\nvariable \"name\" {}\nresource \"terraform_data\" \"x\" {\n  input = file(\"/missing\")\n}\n")
	s.waits(state.WaitRemotePlan)
	s.poll(state.RemoteEnded)
	if _, _, err := s.step(); err == nil {
		t.Fatal("the plan succeeds")
	}
	s.job.Run.Remote, s.job.Run.Resumed = nil, &state.Resume{} // it has waited for an approval
	s.waits(state.WaitRemotePlan)
	if runs := s.runs(); len(runs) != 2 || runs[0].Status != "errored" {
		t.Errorf("the runs are %+v", runs)
	}
}

func TestDriver_RunsAreListedOnlyIfARequestMayHaveBeenLost(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	for _, id := range []string{"run1", "run2", "run3"} {
		s.next(id)
		s.name(id)
		s.succeeds()
	}
	if n := s.hcp.Count("GET workspaces/*/runs"); n != 0 {
		t.Errorf("the runs of the workspace were listed %d times", n)
	}
}

func TestDriver_PollThatIsRefusedIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.waits(state.WaitRemotePlan)
	s.hcp.Fail(hcptest.RateLimited("GET organizations/*/runs", 1))
	if _, err := s.driver.Poll(t.Context(), s.job.Config, []state.RemoteRun{s.rec.Run}); err == nil || !strings.Contains(err.Error(), "too many requests") {
		t.Errorf("the poll: %v", err)
	}
	if n := s.hcp.Count("GET organizations/*/runs"); n != 1 {
		t.Errorf("it made %d requests", n)
	}
	s.pollPast(state.RemotePlanning)
	s.succeeds()
}
