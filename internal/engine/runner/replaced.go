package runner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// judgeConsul requires an approval if entries are gone and Consul was replaced since
// they were applied, however few they are. The tick may have decided the run before
// that, so Consul is identified here, too. What a person has accepted may go.
func (j *judgement) judgeConsul(ctx context.Context, launch state.Launch, planned state.PlannedRun) error {
	if j.claimed.Kind != state.KindApply {
		return nil
	}
	a, err := j.approval(ctx)
	if err != nil {
		return err
	}
	if a != nil && j.task.Approval.Enough(*a, j.Now()) && a.Content == j.content(driver.Plan{}) {
		j.input, j.until, j.accepted = nil, nil, true
		return nil
	}
	gone := removed(j.sources)
	if gone == "" {
		return nil
	}
	why, err := j.consulReplaced(ctx, launch, planned, j.task)
	if err == nil && why != "" {
		j.input = append([]state.Cause{replacedCause(gone, why)}, j.input...)
	}
	return err
}

// removed says which entries are gone; "" if none is.
func removed(sources []guard.Source) string {
	var gone []string
	for _, s := range sources {
		if s.Changes.Removed > 0 {
			gone = append(gone, guard.Removed(s))
		}
	}
	return strings.Join(gone, "; ")
}

func replacedCause(gone, why string) state.Cause {
	return state.Cause{Rule: state.RuleReplaced, Text: gone + state.LostByReplaced + ": " + why}
}

// Identifier identifies the Consul of a datacenter, as *consul.Client does.
type Identifier interface {
	Identify(ctx context.Context, dc string) (state.Identity, error)
}

// Replacement is what decides whether a plan that is not to be applied would wait because Consul was replaced.
type Replacement struct {
	Task    *config.Task
	All     state.Reconcile
	Record  state.Task     // of the task
	Content state.Content  // without a plan
	Sources []guard.Source // compared with what was applied
	Unknown bool           // it is not known what was applied
}

// Causes returns why the plan would need an approval because Consul was replaced, as a tick and a run
// judge that. What a person has accepted may go.
func (r Replacement) Causes(ctx context.Context, c Identifier, now time.Time) ([]state.Cause, error) {
	gone := removed(r.Sources)
	if r.Unknown {
		gone = "it is not known which entries are gone"
	}
	if gone == "" || r.Record.Applied.At.IsZero() {
		return nil, nil
	}
	if a := r.Record.Accepted; a != nil && a.Content == r.Content && r.Task.Approval.Enough(a.Approval, now) {
		return nil, nil
	}
	datacenters := consul.Places(r.Task)
	why := ""
	if r.All.Replaced.Concerns(r.Record.Unconfirmed, datacenters) {
		why = r.All.Replaced.Why
	} else {
		var err error
		if why, err = anotherConsul(ctx, c, datacenters, r.All.Consuls); err != nil {
			return nil, err
		}
	}
	if why == "" {
		return nil, nil
	}
	return []state.Cause{replacedCause(gone, why)}, nil
}

// consulReplaced says why Consul is another one than the one that showed what was
// applied; "" if it is the same. A tick may have found out since the run was decided, and
// recorded the new one by now.
func (c *claim) consulReplaced(ctx context.Context, launch state.Launch, planned state.PlannedRun, task *config.Task) (string, error) {
	datacenters := consul.Places(task)
	if launch.Replaced.Concerns(planned.Unconfirmed, datacenters) {
		return launch.Replaced.Why, nil
	}
	rec, err := retry(ctx, func() (state.Stored[state.Reconcile], error) { return state.ReadReconcile(ctx, c.Store) }, backoff.WithMaxTries(claimTries))
	if err != nil {
		return "", fmt.Errorf("find out whether Consul was replaced since the run was decided: %w", err)
	}
	if r := rec.Data.Replaced; r.In(datacenters) && (launch.Replaced == nil || !launch.Replaced.Since.Equal(r.Since)) {
		return r.Why, nil
	}
	return anotherConsul(ctx, c.Consul, datacenters, launch.Consuls, rec.Data.Consuls)
}

// anotherConsul says why Consul is another one now than those that were known, by datacenter; "" if it is the
// same. The first ones decide which datacenters are examined.
func anotherConsul(ctx context.Context, c Identifier, datacenters []string, known ...map[string]state.Identity) (string, error) {
	for _, dc := range datacenters {
		if _, identified := known[0][dc]; !identified {
			continue
		}
		now, err := c.Identify(ctx, dc)
		if err != nil {
			return "", fmt.Errorf("find out whether Consul was replaced since it showed the entries that are gone: %w", err)
		}
		for _, was := range known {
			if why := was[dc].Replaced(now); why != "" {
				return why + condition.ScopeAt(dc).String(), nil
			}
		}
	}
	return "", nil
}
