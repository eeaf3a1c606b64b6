package hcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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

// unanswered never answers a poll.
type unanswered struct{ hcp.API }

func (unanswered) ActiveRuns(ctx context.Context, _ string, _ []string) ([]hcp.Run, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestDriver_PollWithoutAnswerIsAnErrorAtOnce has an outage just after a poll that was answered: only the rate limit
// is no error then.
func TestDriver_PollWithoutAnswerIsAnErrorAtOnce(t *testing.T) {
	api := &struct{ hcp.API }{&limited{}}
	d, cfg := driverOf(api)
	if _, err := d.Poll(t.Context(), cfg, waitingRuns(1)); err != nil {
		t.Fatal(err)
	}
	api.API = unanswered{}
	ctx, stop := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("no answer within 1ms"))
	defer stop()
	if _, err := d.Poll(ctx, cfg, waitingRuns(1)); err == nil || !strings.Contains(err.Error(), "no answer within 1ms") {
		t.Errorf("the poll says %v", err)
	}
}

func TestDriver_PollSaysHowTheServerFailsAndDoesNotRepeatIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		gap     hcptest.Gap
		request string
	}{{"", "GET organizations/*/runs"}, {hcptest.NoRunList, "GET runs/*"}} {
		s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(test.gap))
		s.planned()
		before := s.hcp.Count(test.request)
		s.hcp.Fail(hcptest.Fault{Request: test.request, Status: http.StatusServiceUnavailable, Times: -1})
		_, err := s.driver.Poll(t.Context(), s.job.Config, []state.RemoteRun{s.rec.Run})
		if n := s.hcp.Count(test.request) - before; err == nil || !strings.Contains(err.Error(), "answered 503") || n != 1 {
			t.Errorf("after %d requests, the poll says %v", n, err)
		}
	}
}

func TestReach_AsksForTheOrganization(t *testing.T) {
	t.Parallel()
	for _, gap := range []hcptest.Gap{"", hcptest.NoRunList} {
		s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(gap))
		if found, err := s.driver.Reach(t.Context(), s.job.Config); err != nil {
			t.Errorf("%q: %s, %v", gap, found, err)
		}
		s.job.Config.Cloud().Organization = "nobody"
		if _, err := s.driver.Reach(t.Context(), s.job.Config); err == nil || !strings.Contains(err.Error(), "read the organization nobody") {
			t.Errorf("%q: another organization: %v", gap, err)
		}
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
	for _, gaps := range [][]hcptest.Gap{nil, {hcptest.NoRunList}, {hcptest.NoRunList, hcptest.NoSavePlan}, {hcptest.NoRunList, hcptest.BrokenConflicts}, {hcptest.NoMessages}, {hcptest.NoRunList, hcptest.NoMessages}} {
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
			now := s.poll(state.RemotePlanning)
			polled := now.Text
			contains(t, polled, "confirm or discard it in HCP Terraform")
			if !now.Person {
				t.Error("behind another run that only a person ends, it does not need a person")
			}
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
