package runner

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/environ"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// verify finds out whether what was applied works. It does so under the claim of the run, before the
// outcome is recorded: one write says that the task is applied, and whether it is verified. If the run is
// stopped meanwhile, the outcome says that it was applied and not verified. The limit of the run does not
// count here: a verification has its own.
func (c *claim) verify(ctx context.Context, task *config.Task, done *result, dir string, out io.Writer) {
	found := driver.Checks{Err: errors.New("the driver does not show them")}
	if done.checks != nil {
		found = *done.checks
	}
	done.verified = verify.OfChecks(task.Verify, found.Failing, found.Unknown, found.Err)
	if own := verify.Active(task.Verify); len(own) > 0 {
		env := environ.Shared
		if c.Environ != nil {
			env = c.Environ
		}
		carryOut := c.Verify
		if carryOut == nil {
			carryOut = verify.Impossible
		} else {
			fmt.Fprintln(out, "\nVerifying what was applied.")
		}
		results := carryOut(ctx, own, verify.Applied{Task: task.Name, Run: c.claimed.ID, Dir: dir, Env: env()})
		cancelled := errors.As(context.Cause(ctx), new(*cancelledError))
		for i := range results {
			if cancelled && results[i].State == state.VerifyInterrupted {
				results[i].State = state.VerifyCancelled
			}
		}
		done.verified = append(done.verified, results...)
	}
	for _, r := range done.verified {
		fmt.Fprintf(out, "Verification %s %s after %s, attempts: %d.%s\n", r.Name, r.State, block.Brief(r.Took), r.Attempts, indented(r.Detail))
	}
}

func indented(detail string) string {
	if detail == "" {
		return ""
	}
	return "\n  " + detail
}
