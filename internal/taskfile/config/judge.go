package config

import (
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
)

// InputCauses says why what was read of Consul must not be applied without an approval, and when a
// guard permits it, each. unknown says that it is not known what the task was applied with last.
func (t *Task) InputCauses(sources []guard.Source, unknown bool, now time.Time) ([]state.Cause, []time.Time) {
	why := t.Guard.Input(sources, now)
	if unknown && t.Guard.Enabled {
		why = guard.Verdict{Text: "the record of what was applied last is incomplete, so that it is not known what is gone"}
	}
	if why.Text == "" {
		return nil, nil
	}
	return []state.Cause{{Rule: state.RuleInputGuard, Text: why.Text}}, []time.Time{why.Until}
}

// PlanCauses says why a plan needs an approval: because of its input, of what it changes and the
// state has lost, and of what has refused it; and when the guard permits the plan.
func (t *Task) PlanCauses(input, refused []state.Cause, plan guard.Planned, had state.Sizes, now time.Time) (causes []state.Cause, until []time.Time) {
	causes = slices.Clone(input)
	if why := t.Guard.Plan(plan, had, now); why.Text != "" {
		causes, until = append(causes, state.Cause{Rule: state.RulePlanGuard, Text: why.Text}), append(until, why.Until)
	}
	causes = append(causes, refused...)
	if why := t.Approval.Plan(plan.Changes); why != "" {
		causes = append(causes, state.Cause{Rule: state.RuleApproval, Text: why})
	}
	return causes, until
}
