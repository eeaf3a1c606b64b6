package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/terrapulse/terrapulse/internal/aws/awsrole"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// roles assumes the roles of tasks with the credentials of the container.
type roles struct{ cfg aws.Config }

// assume assumes the role of a task, or that of its plans for a run that does not apply: such a container has
// PlanRole, which cannot assume the other.
func (r roles) assume(ctx context.Context, kind state.Kind, role, task string) (env map[string]string, end func(), err error) {
	if kind.Applies() {
		return awsrole.Assume(ctx, r.cfg, role, task)
	}
	return awsrole.AssumeForPlan(ctx, r.cfg, role, task)
}
