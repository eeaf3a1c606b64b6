// Package approval says which plans need the approval of a person, how many people must approve,
// who they may be, and how long an approval lasts: the block approval and the keys approval_expires
// and require_distinct_approver of a task, or of the whole configuration.
package approval

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
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
	Require          int           `json:"require,omitempty"` // how many different people must approve; 0 and 1 are one
	From             []string      `json:"from,omitempty"`    // who they may be, as in roles.Means; everybody with the role if it is empty
	// People are who has several identities. They are no part of the rule, so that an approval is
	// judged by what the configuration says at that time.
	People roles.People `json:"-"`
}

// Default is the rule of a task that configures none.
var Default = Spec{Rule: Never, Expires: 24 * time.Hour}

// Keys are the keys of a task or of the whole configuration.
type Keys struct {
	Approval                ApprovalKeys   `key:"approval" short:"mode" doc:"which plans people must approve before they are applied, how many people, and who"`
	ApprovalExpires         block.Duration `key:"approval_expires" default:"24h" form:"delay" example:"8h" doc:"how long an approval lasts; '0s': no limit"`
	RequireDistinctApprover block.Bool     `key:"require_distinct_approver" default:"false" doc:"'true': people who created or changed the task through the API cannot approve its plans"`
}

// ApprovalKeys are the keys of an approval block.
type ApprovalKeys struct {
	block.Origin
	Mode    block.String  `key:"mode" default:"never" one:"never always destructive" doc:"which plans a person must approve before they are applied; 'destructive': plans that destroy or replace a resource"`
	Require block.Int     `key:"require" default:"1" form:"count" example:"2" doc:"how many different people must approve"`
	From    block.Strings `key:"from" unset:"everybody with the role approve" example:"group:network user:ann@example.com" doc:"who may approve: identities, groups and people, as in the grants of 'api.access'"`
}

// Spec checks the keys, and returns the rule: a key that is not set has the value of
// parent.
func (k *Keys) Spec(r *block.Report, parent Spec) Spec {
	mode := k.Approval.Mode
	rule := Rule(mode.Or(string(parent.Rule)))
	if mode.Set && rule != Never && rule != Always && rule != Destructive {
		r.Fail(mode.Origin, "invalid approval "+block.Quoted(mode.V), "allowed: never, always, destructive")
	}
	if k.ApprovalExpires.V < 0 {
		r.Fail(k.ApprovalExpires.Origin, fmt.Sprintf("%s is negative", block.Quoted(k.ApprovalExpires.Text)), `a duration such as "8h", or "0s" for no limit`)
	}
	spec := Spec{
		Rule:             rule,
		Expires:          k.ApprovalExpires.Or(parent.Expires),
		DistinctApprover: k.RequireDistinctApprover.Or(parent.DistinctApprover),
		People:           parent.People,
	}
	spec.Require, spec.From = k.Approval.people(r, parent)
	return spec
}

// people checks the keys, and returns how many people must approve, and who they may be.
func (k *ApprovalKeys) people(r *block.Report, parent Spec) (require int, from []string) {
	if k.Require.Set && (k.Require.V < 1 || k.Require.V > maxApprovers) {
		r.Fail(k.Require.Origin, fmt.Sprintf("%s people cannot approve", block.Quoted(k.Require.Text)), fmt.Sprintf("a number from 1 to %d", maxApprovers))
	}
	require, from = parent.Require, parent.From
	if k.Require.Set {
		require = k.Require.V
	}
	if require == 1 {
		require = 0 // the digest of the rules is that of a task without the key
	}
	if !k.From.Set {
		return require, from
	}
	from = make([]string, 0, len(k.From.V))
	for i, entry := range k.From.V {
		name, wrong, hint := parseEntry(entry)
		if wrong != "" {
			r.Fail(k.From.Element(i), block.Quoted(entry)+" "+wrong, hint)
		}
		from = append(from, name)
	}
	slices.Sort(from)
	return require, slices.Compact(from)
}

// maxApprovers is how many people a plan may need: their approvals are kept in the record of its task.
const maxApprovers = 10

// parseEntry returns an entry of from in the form in which it is compared, or what is wrong with it.
func parseEntry(entry string) (name, wrong, hint string) {
	for _, kind := range []string{roles.GroupKind, roles.PersonKind} {
		if strings.HasPrefix(entry, kind) && entry != kind {
			return entry, "", ""
		}
	}
	name, wrong, hint = roles.ParseName(entry)
	if wrong != "" && hint != "" {
		hint += "; or group:NAME or person:NAME"
	}
	return name, wrong, hint
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
		text = "no plan needs an approval, unless a guard or a check holds it"
		if who := s.Approvers(); who != "" {
			text += "; then " + who
		}
		return text
	}
	if who := s.Approvers(); who != "" {
		text += ", for which " + who
	}
	if s.Expires > 0 {
		text += ", which is valid for " + block.Brief(s.Expires)
	}
	if s.DistinctApprover {
		text += "; who created or changed the task through the API cannot give it"
	}
	return text
}

// Approvers says in words how many people must approve, and who they may be; "" if anybody with the
// role may.
func (s Spec) Approvers() string { return Approvers(s.Needed(), s.From) }

// Approvers says in words of how many people, and of which, approvals are needed.
func Approvers(needed int, from []string) string {
	who := strings.Join(from, ", ")
	switch {
	case needed > 1 && who != "":
		return fmt.Sprintf("%d different people of %s must approve", needed, who)
	case needed > 1:
		return fmt.Sprintf("%d different people must approve", needed)
	case who != "":
		return "someone of " + who + " must approve"
	}
	return ""
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
