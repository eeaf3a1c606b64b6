//go:build !windows

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/policycheck"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// script is a check that runs a script.
func script(name, onFail, text string) policycheck.Spec {
	return policycheck.Spec{Name: name, Enabled: true, Command: []string{"sh", "-c", text}, OnFail: onFail, Timeout: time.Minute}
}

// checked is a task whose plans these checks judge. Its first run, without checks,
// has applied 60 instances.
func checked(t *testing.T, checks ...policycheck.Spec) *judging {
	t.Helper()
	j := newJudging(t, config.Rules{})
	j.driver.plan.JSON = func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(`{"format_version":"1.2"}`), nil
	}
	j.driver.plan.Clean = func(text string) string { return strings.ReplaceAll(text, "known-secret", "(redacted)") }
	j.Config().Tasks[0].Rules = config.Rules{Checks: checks}
	return j
}

func TestCheck_PlanThatEveryCheckAcceptsIsApplied(t *testing.T) {
	off := script("off", "fail", "exit 1")
	off.Enabled = false
	j := checked(t, script("good", "hold", "true"), off, script("also good", "fail", "true"))
	if run := j.apply(); run.State != state.RunSucceeded || j.driver.judged != 1 || j.driver.applied != 2 {
		t.Errorf("%s %s: %d plans, %d applies", run.State, run.Error, j.driver.judged, j.driver.applied)
	}
}

func TestCheck_PlanWithoutChangesIsNotChecked(t *testing.T) {
	j := checked(t, script("bad", "fail", "exit 1"))
	j.driver.plan.Changes = &state.Changes{}
	if run := j.apply(); run.State != state.RunSucceeded {
		t.Errorf("%s %s", run.State, run.Error)
	}
}

func TestCheck_RefusedPlanWaitsWithEveryVerdict(t *testing.T) {
	j := checked(t, script("names", "hold", "echo 'web is known-secret'; exit 1"), script("good", "hold", "true"), script("times", "hold", "exit 2"))
	var out testtools.Output
	j.Watch = func(state.Run) io.Writer { return &out }
	run := j.apply()
	j.waits(run, "check names refused the plan: web is (redacted); check times refused the plan with exit code 2", state.RuleCheck, state.RuleCheck)
	if j.driver.applied != 1 || !run.Wait.Guards() || j.task().Failing.Count != 0 {
		t.Errorf("%d applies, the task has %d failures", j.driver.applied, j.task().Failing.Count)
	}
	for _, line := range []string{"Check names refused the plan after ", "\n  web is (redacted)\n", "Check good passed after ", "Check times refused the plan after "} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the output of the run does not have %q:\n%s", line, out.String())
		}
	}
	// An approval of the content permits it.
	if run = j.resume(time.Time{}); run.State != state.RunSucceeded || j.driver.applied != 2 {
		t.Errorf("approved: %s %s", run.State, run.Error)
	}
}

func TestCheck_ApprovedPlanIsJudgedAgainIfItIsAnother(t *testing.T) {
	j := checked(t, script("bad", "hold", "exit 1"))
	j.waits(j.apply(), "check bad", state.RuleCheck)
	j.driver.plan.Digest = "other"
	j.waits(j.resume(time.Time{}), "ann approved another plan: since then, the planned changes changed", state.RuleCheck, state.RuleChanged)
	if j.driver.applied != 1 {
		t.Error("it was applied")
	}
}

func TestCheck_NoApprovalHelpsAgainstACheckThatFailsTheRun(t *testing.T) {
	dir := t.TempDir()
	j := checked(t, script("bad", "fail", "test ! -e "+dir+"/deny || { echo no; exit 1; }"))
	j.Config().Tasks[0].Approval = approval.Spec{Rule: approval.Always}
	first := j.apply()
	j.waits(first, "every plan", state.RuleApproval)
	if err := os.WriteFile(filepath.Join(dir, "deny"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := j.resume(time.Time{})
	if run.State != state.RunFailed || run.Error != "check bad refused the plan: no" || j.driver.applied != 1 {
		t.Errorf("%s %q, %d applies", run.State, run.Error, j.driver.applied)
	}
}

func TestCheck_FailsClosed(t *testing.T) {
	for _, onFail := range []string{"hold", "fail"} {
		for name, check := range map[string]policycheck.Spec{
			"no program":  {Command: []string{"no-such-program"}, Timeout: time.Minute},
			"no time":     {Command: []string{"sleep", "600"}, Timeout: 100 * time.Millisecond},
			"killed":      {Command: []string{"sh", "-c", "kill -9 $$"}, Timeout: time.Minute},
			"a directory": {Command: []string{"/"}, Timeout: time.Minute},
		} {
			t.Run(fmt.Sprint(name, ", ", onFail), func(t *testing.T) {
				t.Parallel()
				check.Name, check.Enabled, check.OnFail = "broken", true, onFail
				j := checked(t, check)
				switch run := j.apply(); {
				case onFail == "fail" && (run.State != state.RunFailed || !strings.Contains(run.Error, "check broken")), j.driver.applied != 1:
					t.Errorf("%s %q, %d applies", run.State, run.Error, j.driver.applied)
				case onFail == "hold":
					j.waits(run, "check broken", state.RuleCheck)
				}
			})
		}
	}
	j := checked(t, script("good", "hold", "true"))
	j.driver.plan.JSON = func(context.Context) (json.RawMessage, error) { return nil, errors.New("Terraform crashed") }
	if run := j.apply(); run.State != state.RunFailed || run.Error != "show the plan to checks: Terraform crashed" {
		t.Errorf("%s %q", run.State, run.Error)
	}
}

func TestCheck_GuardIsNotInPlaceOfAVerdict(t *testing.T) {
	j := checked(t, script("bad", "hold", "exit 1"))
	j.Config().Tasks[0].Guard = guard.Default
	j.consul.count = 20
	j.waits(j.apply(), "40 of 60", state.RuleInputGuard, state.RuleCheck)
}

func TestCheck_GetsTheCauseAndNoCredentials(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"CONSUL_HTTP_TOKEN", "CONSUL_TOKEN", "CONSUL_HTTP_AUTH", "VAULT_TOKEN", "TERRAPULSE_TOKEN", "TF_VAR_password"} {
		t.Setenv(name, "own-secret")
	}
	t.Setenv("FROM_THE_MACHINE", "shown")
	j := checked(t, script("copy", "fail", "cat >"+dir+"/input; env >"+dir+"/environment"))
	j.Environ = terraformcli.Environ
	j.consul.count = 58
	run := j.apply()
	if run.State != state.RunSucceeded {
		t.Fatalf("%s %s", run.State, run.Error)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "input"))
	if err != nil {
		t.Fatal(err)
	}
	var in policycheck.Input
	if err := json.Unmarshal(raw, &in); err != nil {
		t.Fatal(err)
	}
	if in.Task != "web" || in.Run.ID != run.ID || in.Run.Kind != state.KindApply || in.Reason != run.Reason ||
		fmt.Sprint(in.Entries) != "{[] [web-58 web-59] []}" || string(in.Plan) != `{"format_version":"1.2"}` {
		t.Errorf("the input is %s", raw)
	}
	env, err := os.ReadFile(filepath.Join(dir, "environment"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(env); strings.Contains(text, "own-secret") || !strings.Contains(text, "FROM_THE_MACHINE=shown") {
		t.Errorf("the environment is\n%s", text)
	}
}
