package hcp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// live returns what people see of the run that waits now: what its steps have printed, and
// what HCP Terraform has printed since then.
func (s *task) live() string {
	s.t.Helper()
	run := s.job.Run
	remote := s.rec.Run
	run.State, run.Remote = state.RunWaiting, &remote
	cfg := *s.job.Config
	cfg.Tasks = append(cfg.Tasks, *s.job.Task)
	text, err := s.driver.Output(s.t.Context(), &cfg, run)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.out.String() + text
}

func (s *task) liveUntil(part string) string {
	s.t.Helper()
	text := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if text = s.live(); strings.Contains(text, part) {
			return text
		}
	}
	s.t.Fatalf("%q does not come:\n%s", part, text)
	return ""
}

func TestOutput_IsShownDuringTheRemoteRunAndCopiedByTheNextStep(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.withProvider("correct-horse")
	now := time.Now()
	options := s.driver.Options
	options.Now = func() time.Time { now = now.Add(10 * time.Second); return now } // each read is a new one
	s.driver = hcp.New(options)
	goOn := filepath.Join(t.TempDir(), "go-on")
	s.module(module + `
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "echo the token is ${nonsensitive(var.name)}; until test -e ` + goOn + `; do sleep 0.02; done"
  }
}
`)
	s.waits(state.WaitRemotePlan)
	planning := s.liveUntil("Plan: 2 to add")
	s.pollPast(state.RemotePlanning)
	s.waits(state.WaitRemote)
	if text := s.out.String(); !strings.HasPrefix(text, strings.TrimRight(planning, "\n")) {
		t.Errorf("the step has printed\n%s\nwhich does not begin with what was shown before:\n%s", text, planning)
	}
	applying := s.liveUntil("the token is")
	if strings.Contains(applying, "horse") || !strings.Contains(applying, redact.Redacted) {
		t.Errorf("a secret is shown:\n%s", applying)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.poll(state.RemoteEnded)
	wait, changes, err := s.step()
	if wait != nil || err != nil || changes.Add != 2 {
		t.Fatalf("%+v, %+v, %v", wait, changes, err)
	}
	text := s.out.String()
	if !strings.HasPrefix(text, strings.TrimRight(applying, "\n")) {
		t.Errorf("the step has printed\n%s\nwhich does not begin with what was shown before:\n%s", text, applying)
	}
	contains(t, text, "was created in the workspace", "Plan: 2 to add", "The plan is confirmed", "Apply complete!")
	if strings.Count(text, "Plan: 2 to add") != 1 || strings.Contains(text, "horse") {
		t.Errorf("the output of the run:\n%s", text)
	}
}

func TestOutput_ReadersShareRequests(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	var stopped time.Time
	options := s.driver.Options
	options.Now = func() time.Time {
		if stopped.IsZero() {
			return time.Now()
		}
		return stopped
	}
	s.driver = hcp.New(options)
	s.waits(state.WaitRemotePlan)
	s.liveUntil("Plan:")
	stopped = time.Now()
	before := len(s.hcp.Requests())
	for range 50 {
		s.live()
	}
	if made := s.hcp.Requests()[before:]; len(made) > 2 {
		t.Errorf("50 reads made %d requests: %v", len(made), made)
	}
}

func TestOutput_PlanOfARunThatAPersonConfirmedIsCopied(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.planned()
	s.hcp.Confirm(s.rec.Run.ID, "jane")
	s.hcp.Await(s.rec.Run.ID, "applied")
	s.poll(state.RemoteEnded)
	s.succeeds()
	contains(t, s.out.String(), "Plan: 1 to add", "Apply complete!")
	if n := strings.Count(s.out.String(), "Plan: 1 to add"); n != 1 {
		t.Errorf("the plan is copied %d times:\n%s", n, s.out.String())
	}
}

func TestOutput_LastStepHasEverythingIfEarlierOutputCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.job.Continued = false
	s.waits(state.WaitRemotePlan)
	s.pollPast(state.RemotePlanning)
	hold := s.hcp.Hold("applying")
	s.waits(state.WaitRemote)
	hold.Release()
	s.poll(state.RemoteEnded)
	before := len(s.out.String())
	s.succeeds()
	contains(t, s.out.String()[before:], "Plan: 1 to add", "Apply complete!")
}
