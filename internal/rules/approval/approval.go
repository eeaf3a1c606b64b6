// Package approval says which plans need the approval of a person, and how long an
// approval lasts: the keys approval, approval_expires and require_distinct_approver
// of a task, or of the whole configuration.
package approval

import (
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Rule says which plans need an approval.
type Rule string

// The rules.
const (
	Never       Rule = "never"
	Always      Rule = "always"
	Destructive Rule = "destructive" // plans that destroy or replace a resource
)

// Spec is the rule of a task.
type Spec struct {
	Rule             Rule          `json:"approval"`
	Expires          time.Duration `json:"approval_expires"` // how long an approval lasts; 0 for no limit
	DistinctApprover bool          `json:"require_distinct_approver,omitempty"`
}

// Default is the rule of a task that configures none.
var Default = Spec{Rule: Never, Expires: 24 * time.Hour}

// Keys are the keys of a task or of the whole configuration.
type Keys struct {
	Approval                block.String   `key:"approval" default:"never" one:"never always destructive" doc:"plans that a person must approve before they are applied; 'destructive': those that destroy or replace a resource"`
	ApprovalExpires         block.Duration `key:"approval_expires" default:"24h" form:"delay" example:"8h" doc:"how long an approval lasts; '0s': no limit"`
	RequireDistinctApprover block.Bool     `key:"require_distinct_approver" default:"false" doc:"'true': who created or changed the task through the API cannot approve its plans"`
}

// Spec checks the keys, and returns the rule: a key that is not set has the value of
// parent.
func (k *Keys) Spec(r *block.Report, parent Spec) Spec {
	rule := Rule(k.Approval.Or(string(parent.Rule)))
	if k.Approval.Set && rule != Never && rule != Always && rule != Destructive {
		r.Fail(k.Approval.Origin, "invalid approval "+block.Quoted(k.Approval.V), "allowed: never, always, destructive")
	}
	if k.ApprovalExpires.V < 0 {
		r.Fail(k.ApprovalExpires.Origin, fmt.Sprintf("%s is negative", block.Quoted(k.ApprovalExpires.Text)), `a duration such as "8h", or "0s" for no limit`)
	}
	return Spec{
		Rule:             rule,
		Expires:          k.ApprovalExpires.Or(parent.Expires),
		DistinctApprover: k.RequireDistinctApprover.Or(parent.DistinctApprover),
	}
}

// String says in words which plans need an approval, and of whom.
func (s Spec) String() string {
	var text string
	switch s.Rule {
	case Always:
		text = "every plan needs an approval"
	case Destructive:
		text = "a plan that destroys or replaces a resource needs an approval"
	default:
		return "no plan needs an approval, unless a guard or a check holds it"
	}
	if s.Expires > 0 {
		text += ", which is valid for " + block.Brief(s.Expires)
	}
	if s.DistinctApprover {
		text += "; who created or changed the task through the API cannot give it"
	}
	return text
}

// MayApprove reports whether somebody may approve what others have changed. Only a name
// that was proven shows that it is somebody else.
func (s Spec) MayApprove(changedBy []string, by string, authenticated bool) bool {
	return !s.DistinctApprover || len(changedBy) == 0 || authenticated && !slices.Contains(changedBy, by)
}

// Plan says why a plan with these numbers needs an approval; "" if it needs none. If it
// is not known what it destroys or replaces, it may be something.
func (s Spec) Plan(plan state.Changes) string {
	destroyed := plan.Destroy
	switch {
	case s.Rule == Always:
		return "every plan of the task needs an approval"
	case s.Rule == Destructive && plan.Unknown:
		return "the plan does not say how many resources it destroys or replaces"
	case s.Rule == Destructive && destroyed == 1:
		return "1 resource would be destroyed or replaced"
	case s.Rule == Destructive && destroyed > 0:
		return fmt.Sprintf("%d resources would be destroyed or replaced", destroyed)
	}
	return ""
}
