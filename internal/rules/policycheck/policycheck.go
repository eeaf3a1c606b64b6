// Package policycheck has programs judge plans: the check blocks of a task, or of the
// whole configuration. A check gets the plan and its cause on its standard input, and
// refuses the plan by its exit code. docs/trust.md has the format.
//
// Checks fail closed: a check that cannot be run, is killed, or takes too long has
// refused the plan.
package policycheck

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Spec is a check of a task.
type Spec struct {
	Name    string        `json:"name"`
	Enabled bool          `json:"enabled"`
	Command []string      `json:"command"` // program and arguments
	OnFail  string        `json:"on_fail"`
	Timeout time.Duration `json:"timeout"`
	Files   []string      `json:"files,omitempty"` // that the check reads, as written
	// Content identifies what these files have. Empty for a check of a task that was
	// made through the API.
	Content string `json:"content,omitempty"`
}

// The values of OnFail.
const (
	Hold = "hold" // the plan waits for an approval
	Fail = "fail" // the run fails
)

// String says in words what the check does.
func (s Spec) String() string {
	what := "waits for an approval"
	if s.OnFail == Fail {
		what = "is not applied, and its run fails"
	}
	return fmt.Sprintf("check %s judges each plan; a plan that it refuses %s", s.Name, what)
}

// Active returns the checks that are enabled.
func Active(checks []Spec) []Spec {
	var active []Spec
	for _, c := range checks {
		if c.Enabled {
			active = append(active, c)
		}
	}
	return active
}

// Input is what a check gets on its standard input, as one JSON object.
type Input struct {
	Task    string       `json:"task"`
	Run     Run          `json:"run"`
	Reason  state.Reason `json:"reason"`
	Entries Entries      `json:"entries"`
	// Plan is the plan as `terraform show -json` prints it, without secrets.
	Plan json.RawMessage `json:"plan"`
}

// Run is the run that a check judges.
type Run struct {
	ID   string     `json:"id"`
	Kind state.Kind `json:"kind"`
}

// Entries are the differences between the entries that Consul shows and those that
// were applied last, by their identities: the keys of the module's variables.
type Entries struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
}

// Result is what a check found.
type Result struct {
	Spec
	Refused string // why the plan must not be applied, one sentence without a full stop; "" if it may
	Output  string // of the program
	Took    time.Duration
}

// Judge runs the checks, all at the same time, in a folder and with an environment.
// The results have the order of the checks. clean removes secrets from what they print.
func Judge(ctx context.Context, checks []Spec, dir string, env []string, in Input, clean func(string) string) ([]Result, error) {
	input, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode the input of checks: %w", err)
	}
	input = append(input, '\n')
	results := make([]Result, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() {
			start := time.Now()
			refused, output := run(ctx, c, dir, env, input, clean)
			results[i] = Result{Spec: c, Refused: refused, Output: output, Took: time.Since(start)}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // the checks were killed
	}
	return results, nil
}
