package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/policycheck"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// check runs the task's checks on the plan, and returns why it must not be applied
// without an approval. The error says that it must not be applied at all.
func (j *judgement) check(ctx context.Context) ([]state.Cause, error) {
	if len(policycheck.Active(j.task.Checks)) == 0 {
		return nil, nil
	}
	if err := j.details(ctx); err != nil {
		return nil, err
	}
	return Check(ctx, j.task, j.done.plan, policycheck.Input{
		Task: j.task.Name, Run: policycheck.Run{ID: j.claimed.ID, Kind: j.claimed.Kind}, Reason: j.claimed.Reason,
		Entries: policycheck.Entries(consul.AllNames(j.done.differences)),
	}, j.dir, j.environ(), j.out)
}

// Check runs a task's checks on a plan, in a folder and with an environment, and returns why it
// must not be applied without an approval. The error says that it must not be applied at all.
func Check(ctx context.Context, t *config.Task, plan driver.Plan, in policycheck.Input, dir string, env []string, out io.Writer) ([]state.Cause, error) {
	checks := policycheck.Active(t.Checks)
	if len(checks) == 0 {
		return nil, nil
	}
	if plan.JSON == nil {
		return nil, errors.New("the driver shows no plan that checks can judge: remove the task's checks")
	}
	document, err := plan.JSON(ctx)
	if err != nil {
		return nil, fmt.Errorf("show the plan to checks: %w", err)
	}
	in.Plan = document
	results, err := policycheck.Judge(ctx, checks, dir, env, in, plan.Clean)
	if err != nil {
		return nil, fmt.Errorf("run the checks: %w", err)
	}
	var causes []state.Cause
	var failed []string
	for _, r := range results {
		showCheck(out, r)
		switch {
		case r.Refused == "":
		case r.OnFail == policycheck.Fail:
			failed = append(failed, r.Refused)
		default:
			causes = append(causes, state.Cause{Rule: state.RuleCheck, Text: r.Refused})
		}
	}
	if len(failed) > 0 {
		return nil, errors.New(strings.Join(failed, "; "))
	}
	return causes, nil
}

// showCheck writes what a check found.
func showCheck(out io.Writer, r policycheck.Result) {
	verdict := "passed"
	if r.Refused != "" {
		verdict = "refused the plan"
	}
	text := fmt.Sprintf("\nCheck %s %s after %s.\n", r.Name, verdict, r.Took.Round(time.Millisecond))
	for line := range strings.Lines(r.Output) {
		text += strings.TrimRight("  "+line, " \n") + "\n"
	}
	fmt.Fprint(out, text)
}
