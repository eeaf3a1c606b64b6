package hcp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestDriver_DestroyWhoseOutcomeWasLostEndsWithoutAWorkspace(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.succeeds()
	s.next("run2")
	s.job.Run.Kind, s.job.Applied = state.KindDestroy, true
	s.succeeds() // and the process dies before it records that
	s.next("run3")
	s.job.Run.Kind = state.KindDestroy
	s.succeeds()
	contains(t, s.out.String(), "there is nothing to destroy")
}

func TestDriver_RunWithoutRemoteRunWaitsForNone(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Check(hcptest.Checks{Policy: "hard_failed"})
	s.waits(state.WaitRemotePlan)
	s.poll(state.RemoteEnded)
	if _, _, err := s.step(); err == nil {
		t.Fatal("a failed plan is not reported")
	}
	s.job.Run.Remote = nil // the run waited for an approval of its input, which came
	s.driver = hcp.New(hcp.Options{Connect: func(c hcp.Connection) (hcp.API, error) {
		client, err := hcp.NewClient(c)
		return silent{client}, err
	}})
	if wait, _, err := s.step(); err == nil {
		t.Errorf("no poll ends the wait %+v", wait)
	}
}

// silent is an HCP Terraform that does not answer when a run is to begin.
type silent struct{ hcp.API }

func (silent) CreateVersion(context.Context, string, bool) (hcp.Version, error) {
	return hcp.Version{}, hcp.ErrUnknown
}

func TestDriver_VariableThatWasPerhapsWrittenIsWrittenAgain(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.withProvider("first")
	s.succeeds()
	s.next("run2")
	s.values("second")
	s.hcp.Fail(hcptest.Fault{Request: "POST workspaces/*/configuration-versions", Status: http.StatusForbidden})
	if _, _, err := s.step(); err == nil {
		t.Fatal("a run without its upload does not fail")
	}
	s.next("run3")
	s.values("first")
	s.name("two")
	s.withProvider("first")
	s.succeeds()
	if v := s.variables()["name"].Value; v != `"first"` {
		t.Errorf("the variable is %s", v)
	}
}

func TestDriver_RunOfAnotherDefinitionIsNotAdopted(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.withProvider("first")
	s.planned()
	s.next("run2")
	s.job.Config.Providers = []config.Provider{{Name: "local", Body: s.job.Config.Providers[0].Body, Env: map[string]string{"APP_TOKEN": "of another system"}}}
	s.succeeds()
	if runs := s.runs(); len(runs) != 2 || runs[0].Status == runs[1].Status {
		t.Errorf("a plan that was made for another provider was applied: %s and %s", runs[0].Status, runs[len(runs)-1].Status)
	}
}

func TestDriver_PersonWhoCancelsTheApplyOfAReplacedRunCancels(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.planned()
	s.name("two")
	hold := s.hcp.Hold("applying")
	s.fail = func(r state.Remote) error {
		if r.Intent == state.RemoteStop && r.Run.Phase != state.RemoteApplying {
			s.hcp.Confirm(r.Run.ID, "jane")
			s.hcp.Await(r.Run.ID, "applying")
		}
		return nil
	}
	s.waits(state.WaitRemote)
	s.fail = nil
	s.hcp.Cancel(s.rec.Run.ID, "jane")
	hold.Release()
	s.poll(state.RemoteEnded)
	_, _, err := s.step()
	if cancelled := new(driver.EndedError); !errors.As(err, &cancelled) || cancelled.Action != audit.Cancel || cancelled.By != "jane in HCP Terraform" {
		t.Errorf("the run ends with %v", err)
	}
	if runs := s.runs(); len(runs) != 1 || runs[0].Status != "canceled" {
		t.Errorf("%d runs: the first is %s", len(runs), runs[0].Status)
	}
}
