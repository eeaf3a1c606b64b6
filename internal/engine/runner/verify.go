package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// verify finds out whether what was applied works. It does so under the claim of the run, before the
// outcome is recorded: one write says that the task is applied, and whether it is verified. If the run is
// stopped meanwhile, the outcome says that it was applied and not verified. If another system has applied
// it, the error is a *driver.WaitError then: the next process continues. The limit of the run does not
// count here: a verification has its own.
func (c *claim) verify(ctx context.Context, task *config.Task, done *result, dir string, out io.Writer) error {
	found := driver.Checks{Err: errors.New("the driver does not show them")}
	if done.Checks != nil {
		found = *done.Checks
	}
	v := state.Verifying{Since: c.Now(), Definition: done.definition, Results: verify.OfChecks(task.Verify, found.Failing, found.Unknown, found.Err)}
	show(out, v.Results...)
	own := verify.Active(task.Verify)
	if len(own) > 0 {
		fmt.Fprintln(out, "\nVerifying what was applied.")
	}
	return c.verifyBy(ctx, own, v, done, dir, out)
}

// continueVerifying continues a verification that another process has begun, unless that is pointless.
func (c *claim) continueVerifying(ctx context.Context, out io.Writer) (done result, err error) {
	v := *c.claimed.Verifying
	done.definition, done.Changes, done.applied = v.Definition, c.claimed.Changes, true
	if c.claimed.Cancel != "" {
		done.verified = v.Cancelled()
		return done, nil
	}
	var cfg *config.Config
	var task *config.Task
	if effective, _, err := c.effective(ctx); err == nil {
		if cfg, task = effective.Config, called(effective.Config, c.claimed.Task); task != nil && effective.Corrupt[task.Name] != nil {
			task = nil
		}
	}
	if task == nil || task.DigestNamed(cfg, c.claimed.Task) != v.Definition {
		fmt.Fprintln(out, "\nWhat was applied is not verified any further: the task has changed.")
		done.verified = v.Results
		return done, nil
	}
	known := v.Ended()
	var rest []verify.Spec
	for _, s := range verify.Active(task.Verify) {
		if !slices.ContainsFunc(known, func(r state.Verified) bool { return r.Name == s.Name }) {
			rest = append(rest, s.Rest(c.Now().Sub(v.Since)))
		}
	}
	v.Results = known
	fmt.Fprintln(out, "\nThe verification continues.")
	return done, c.verifyBy(ctx, rest, v, &done, cfg.Dir(), out)
}

// called returns the task with this name, or the one that had it before; nil if there is neither.
func called(cfg *config.Config, name string) *config.Task {
	if task, ok := cfg.Task(name); ok {
		return task
	}
	for i := range cfg.Tasks {
		if slices.Contains(cfg.Tasks[i].MovedFrom, name) {
			return &cfg.Tasks[i]
		}
	}
	return nil
}

// verifyBy carries out verifications, and adds their results to those that are known.
func (c *claim) verifyBy(ctx context.Context, all []verify.Spec, v state.Verifying, done *result, dir string, out io.Writer) error {
	var results []state.Verified
	if len(all) > 0 {
		ended := c.step("verify")
		results = c.Verify(ctx, all, verify.Applied{Task: c.claimed.Task, Run: c.claimed.ID, Dir: dir, Env: c.environ()})
		ended(notPassed(results))
	}
	cancelled, stopped := errors.As(context.Cause(ctx), new(*cancelledError)), false
	for i := range results {
		if results[i].State != state.VerifyInterrupted {
			continue
		}
		if stopped = true; cancelled {
			results[i].State = state.VerifyCancelled
		}
	}
	show(out, results...)
	v.Results = append(v.Results, results...)
	if stopped && !cancelled && c.claimed.Staged && c.Now().Sub(v.Since) < maxVerifying {
		done.verifying = &v
		return &driver.WaitError{Wait: state.Wait{For: state.WaitVerify, Text: "everything is applied, and the process that verified it had to end"}}
	}
	done.verified = v.Results
	return nil
}

// maxVerifying is for how long after an apply its verification is continued: it would begin anew with
// each process otherwise, if each ends soon.
const maxVerifying = 2 * verify.Longest

// show writes the results of verifications.
func show(out io.Writer, results ...state.Verified) {
	for _, r := range results {
		fmt.Fprintf(out, "Verification %s %s after %s, attempts: %d.%s\n", r.Name, r.State, block.Brief(r.Took), r.Attempts, indented(r.Detail))
	}
}

func indented(detail string) string {
	if detail == "" {
		return ""
	}
	return "\n  " + detail
}

// notPassed is the error of verifications that have not passed.
func notPassed(results []state.Verified) error {
	if v := state.NewVerification(slices.Clone(results)); !v.Passed() {
		return errors.New(v.String())
	}
	return nil
}
