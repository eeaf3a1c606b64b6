package hcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// limited permits 30 lists of runs a minute, as HCP Terraform does. All runs have ended.
type limited struct {
	hcp.API
	lists int
	fails string // a workspace of which no runs can be listed
}

func (l *limited) ActiveRuns(_ context.Context, _ string, workspaces []string) ([]hcp.Run, error) {
	switch l.lists++; {
	case l.lists > 30:
		return nil, &hcp.Error{Status: http.StatusTooManyRequests}
	case slices.Contains(workspaces, l.fails):
		return nil, errors.New("the answer cannot be read")
	}
	return nil, nil
}

// waitingRuns are runs of workspaces with long names.
func waitingRuns(n int) (runs []state.RemoteRun) {
	for i := range n {
		runs = append(runs, state.RemoteRun{ID: fmt.Sprintf("run-%d", i), Workspace: fmt.Sprintf("network-frankfurt-production-firewall-policy-web-%08d", i)})
	}
	return runs
}

func driverOf(api hcp.API) (*hcp.Driver, *config.Config) {
	return hcp.New(hcp.Options{Connect: func(hcp.Connection) (hcp.API, error) { return api, nil }}),
		&config.Config{OtherDriver: &config.Cloud{Hostname: "https://app.terraform.io", Organization: "o"}}
}

// TestDriver_PollContinuesWhereTheRateLimitHasEndedTheLastOne has more runs that wait than one
// minute of requests can poll.
func TestDriver_PollContinuesWhereTheRateLimitHasEndedTheLastOne(t *testing.T) {
	for _, n := range []int{2900, 3200, 6000} {
		api := &limited{}
		d, cfg := driverOf(api)
		known := map[string]bool{}
		for range 3 { // minutes
			api.lists = 0
			found, err := d.Poll(t.Context(), cfg, waitingRuns(n))
			if err != nil || len(found) == 0 {
				t.Errorf("%d runs: a poll found %d, %v", n, len(found), err)
			}
			for id := range found {
				known[id] = true
			}
		}
		if len(known) != n {
			t.Errorf("in 3 minutes, the status of %d of %d runs is known", len(known), n)
		}
	}
}

func TestDriver_PollThatFindsNothingIsAnError(t *testing.T) {
	d, cfg := driverOf(&limited{lists: 30})
	if found, err := d.Poll(t.Context(), cfg, waitingRuns(1)); err == nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestDriver_RunsThatCannotBePolledHideNoOthers(t *testing.T) {
	runs := waitingRuns(300)
	api := &limited{fails: runs[0].Workspace}
	d, cfg := driverOf(api)
	for range 3 {
		found, err := d.Poll(t.Context(), cfg, runs)
		_, said := found[runs[0].ID]
		if _, other := found[runs[299].ID]; !other || said || err == nil {
			t.Errorf("%d statuses, %v", len(found), err)
		}
	}
}

// TestDriver_StrayRunIsStoppedOnAnyServer has each run created twice. The first of the two is never
// recorded, and would be first in the workspace for ever.
func TestDriver_StrayRunIsStoppedOnAnyServer(t *testing.T) {
	t.Parallel()
	for _, gaps := range [][]hcptest.Gap{nil, {hcptest.NoRunList}, {hcptest.NoRunList, hcptest.NoSavePlan}, {hcptest.NoRunList, hcptest.BrokenConflicts}} {
		t.Run(fmt.Sprint(gaps), func(t *testing.T) {
			t.Parallel()
			s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(append(gaps, hcptest.TwiceCreated)...))
			s.settle()
			s.appliedOnce()
		})
	}
}

func TestDriver_MissingListOfRunsIsNotRequestedByEachPoll(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(hcptest.NoRunList))
	s.hcp.Hold("planning")
	s.waits(state.WaitRemotePlan)
	for range 5 {
		s.poll(state.RemotePlanning)
	}
	if n := s.hcp.Count("GET organizations/*/runs"); n != 1 {
		t.Errorf("%d requests for a list that does not exist", n)
	}
}

// TestDriver_PendingRunNamesWhatHoldsTheWorkspace tells a lock that a person can release from the
// lock of another run, which ends with that run.
func TestDriver_PendingRunNamesWhatHoldsTheWorkspace(t *testing.T) {
	t.Parallel()
	for _, gaps := range [][]hcptest.Gap{nil, {hcptest.NoRunList}} {
		t.Run(fmt.Sprint(gaps), func(t *testing.T) {
			t.Parallel()
			s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(gaps...))
			s.hcp.Create("net-web", nil, config.CloudTag)
			s.hcp.Upload("net-web")
			other := s.hcp.Start("net-web", "jane")
			s.hcp.Await(other, "planned")
			wait := s.waits(state.WaitRemotePlan)
			polled := s.poll(state.RemotePlanning).Text
			for _, text := range []string{wait.Wait.Text, polled} {
				if !strings.Contains(text, "the run "+other+" of the same workspace is first") || strings.Contains(text, "unlock") {
					t.Errorf("behind another run: %q", text)
				}
			}
			s.hcp.Discard(other, "jane", "")
			s.pollPast(state.RemotePlanning)
			s.succeeds()

			s.next("run2")
			s.name("two")
			s.hcp.Lock("net-web", "jane")
			s.waits(state.WaitRemotePlan)
			contains(t, s.poll(state.RemotePlanning).Text, "pending: the workspace net-web is locked by jane: unlock it in HCP Terraform")
		})
	}
}
