// Package doctor makes the checks of `terrapulse doctor`: those from outside, with the rights of the
// user, and those from inside functions/reconcile.
package doctor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
)

// Check is a check that can be made.
type Check struct {
	Name string
	// Look returns what it found. A NotCheckedError says that the check could not be made.
	Look func(ctx context.Context) (found string, err error)
	Fix  string // what to do if the check fails
}

// A NotCheckedError says why a check could not be made, such as a missing right of the user:
// nothing is known to be wrong.
type NotCheckedError struct{ Err error }

func (e *NotCheckedError) Error() string { return "not checked: " + e.Err.Error() }
func (e *NotCheckedError) Unwrap() error { return e.Err }

// Run makes the checks in parallel. Each may take as long as the limit.
func Run(ctx context.Context, limit time.Duration, checks []Check) []invoke.Check {
	results := make([]invoke.Check, len(checks))
	var work sync.WaitGroup
	for i, c := range checks {
		work.Go(func() {
			ctx, stop := context.WithTimeout(ctx, limit)
			defer stop()
			found, err := c.Look(ctx)
			results[i] = invoke.Check{Name: c.Name, OK: err == nil, Found: found}
			switch notChecked := (*NotCheckedError)(nil); {
			case errors.As(err, &notChecked):
				results[i].OK, results[i].Skipped, results[i].Found = true, true, err.Error()
			case err != nil:
				results[i].Found, results[i].Fix = err.Error(), c.Fix
			}
		})
	}
	work.Wait()
	return results
}
