package runner

import (
	"context"
	"fmt"
	"strings"

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
	if a := j.claimed.Approval; a != nil && j.task.Approval.Enough(*a, j.Now()) && a.Content == j.content(driver.Plan{}) {
		j.input, j.until, j.done.based = nil, nil, true
		return nil
	}
	var gone []string
	for _, s := range j.sources {
		if s.Changes.Removed > 0 {
			gone = append(gone, guard.Removed(s))
		}
	}
	if len(gone) == 0 {
		return nil
	}
	why, err := j.consulReplaced(ctx, launch, planned, j.task)
	if err == nil && why != "" {
		text := fmt.Sprintf("%s, and Consul was replaced since they were applied: %s", strings.Join(gone, "; "), why)
		j.input = append([]state.Cause{{Rule: state.RuleReplaced, Text: text}}, j.input...)
	}
	return err
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
	for _, dc := range datacenters {
		before, known := launch.Consuls[dc]
		if !known {
			continue
		}
		now, err := c.Consul.Identify(ctx, dc)
		if err != nil {
			return "", fmt.Errorf("find out whether Consul was replaced since it showed the entries that are gone: %w", err)
		}
		for _, was := range []state.Identity{before, rec.Data.Consuls[dc]} {
			if why := was.Replaced(now); why != "" {
				return why + condition.ScopeAt(dc).String(), nil
			}
		}
	}
	return "", nil
}
