package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
)

// Plan is what an apply would change, as data and as text. It holds no secrets.
type Plan struct {
	// Resources lists every resource that would be changed, read, imported, moved or
	// forgotten, and every action of a provider that would be invoked. It is nil if the backend runs the plan remotely: then only
	// Changes is known.
	Resources []ResourceChange `json:"resources"`
	Outputs   []OutputChange   `json:"outputs,omitempty"`
	// Drift lists the changes outside of Terrapulse since the last run.
	Drift []ResourceChange `json:"drift,omitempty"`
	// Digest identifies Resources and Outputs. Two plans that differ only in
	// sensitive values have the same digest. Empty if Resources is nil.
	Digest string `json:"digest,omitempty"`
	// Omitted counts the resources, drift and outputs whose values or entries are
	// left out by Bounded.
	Omitted int `json:"omitted,omitempty"`

	// Detail returns this plan with Resources, Outputs, Drift and Digest, which are not
	// set, and Print returns Text. Each starts Terraform once more, so that a plan that
	// nothing holds is applied sooner. They are nil if all of it is set, and work until
	// the judge has returned.
	Detail func(ctx context.Context) (Plan, error)   `json:"-"`
	Print  func(ctx context.Context) (string, error) `json:"-"`

	// State identifies the state that the plan was made for; "" if there is none yet.
	State   string `json:"-"`
	InState *int   `json:"-"` // managed resources in that state that are still there; nil if that is not known

	// Commits is set if an apply has an effect even if the plan changes nothing: it
	// commits on a firewall what an earlier run has left uncommitted.
	Commits bool `json:"-"`

	// JSON returns the plan in the format of `terraform show -json`, without secrets,
	// for programs that judge it. It is nil if Resources is nil.
	JSON func(ctx context.Context) (json.RawMessage, error) `json:"-"`
	// Clean removes from a text the secrets that the driver knows.
	Clean func(text string) string `json:"-"`

	// Causes are why the system that runs Terraform requires an approval by a person.
	Causes []state.Cause `json:"-"`

	Changes *state.Changes `json:"-"` // the counts, and the first resources
	New     bool           `json:"-"` // the task has no state yet
	Text    string         `json:"-"` // the plan for people
	// Setup is what a run would change in another system besides resources, in words, such
	// as settings of a workspace. It is nil unless the driver was made to say it.
	Setup []string `json:"-"`
	// URL is the page of the plan in another system; "" if it was made here. It is set
	// even if the plan has failed there.
	URL string `json:"-"`
}

// Counted are the numbers of the plan, for the guard.
func (p Plan) Counted() guard.Planned {
	return guard.Planned{Changes: *p.Changes, InState: p.InState, State: p.State}
}

// Action is what happens to a resource.
type Action string

// The actions. A resource that is imported or moved and changed besides has the
// action of the change.
const (
	Create  Action = "create"
	Update  Action = "update"
	Delete  Action = "delete"
	Replace Action = "replace"
	Read    Action = "read" // of a data source
	Forget  Action = "forget"
	Import  Action = "import"
	Move    Action = "move"
	Invoke  Action = "invoke" // of a provider's action, since Terraform 1.14
	NoOp    Action = "no-op"
)

// ResourceChange is what happens to one resource.
type ResourceChange struct {
	Address  string `json:"address"`
	Type     string `json:"type"`
	Provider string `json:"provider,omitempty"`
	Action   Action `json:"action"`
	// CreateFirst is set if the replacement is created before the old one is deleted.
	CreateFirst bool              `json:"create_first,omitempty"`
	Previous    string            `json:"previous_address,omitempty"` // it is moved from there
	Imported    bool              `json:"imported,omitempty"`
	Deposed     bool              `json:"deposed,omitempty"` // the rest of an earlier replacement
	Reason      string            `json:"reason,omitempty"`  // Terraform's code, such as replace_because_tainted
	Attributes  []AttributeChange `json:"attributes,omitempty"`
	// Causes are the names of the entries in Consul that cause the change, as far as that
	// is clear. Only WithCauses sets them: they are no part of a digest.
	Causes []string `json:"causes,omitempty"`
}

// AttributeChange is a change of one value of a resource.
type AttributeChange struct {
	Path   string `json:"path"` // such as tags["name"] or rule[0].port
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
	// Sensitive is set if both values are hidden.
	Sensitive bool `json:"sensitive,omitempty"`
	// Unknown is set if the value is known only after the apply.
	Unknown bool `json:"unknown,omitempty"`
	// Replaces is set if this change is why the resource is replaced.
	Replaces bool `json:"replaces,omitempty"`
}

// OutputChange is a change of one output of the root module.
type OutputChange struct {
	Name   string            `json:"name"`
	Action Action            `json:"action"`
	Values []AttributeChange `json:"values,omitempty"`
}

const (
	// boundedEntries is how many resources Bounded keeps, with and without
	// attributes.
	boundedEntries = 5000

	// boundedAttributes is how many attributes Bounded keeps.
	boundedAttributes = 2000
)

// Count counts the changes like Terraform: a replacement is one to add and one to
// destroy. What an action does that is not known here is not known, either.
func Count(resources []ResourceChange) *state.Changes {
	c := &state.Changes{}
	for _, r := range resources {
		switch r.Action {
		case Create:
			c.Add++
		case Update:
			c.Change++
		case Delete:
			c.Destroy++
		case Replace:
			c.Add, c.Destroy = c.Add+1, c.Destroy+1
		case Read, Forget, Import, Move, Invoke, NoOp:
		case "create+forget", "forget+create": // OpenTofu, and Terraform since 1.16: the former resource stays
			c.Add++
		default:
			c.Unknown = true
		}
		c.Name(r.Address, string(r.Action))
	}
	return c
}

// DigestOf returns the digest of a plan with these changes.
func DigestOf(resources []ResourceChange, outputs []OutputChange) (string, error) {
	raw, err := json.Marshal(Plan{Resources: resources, Outputs: outputs})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// Bounded returns the plan as it fits into a record: it omits first the attributes of
// the last resources, then the last resources.
func (p Plan) Bounded() Plan {
	entries, attributes := boundedEntries, boundedAttributes
	// fits reports whether n more attributes fit. After the first that do not, none do.
	fits := func(n int) bool {
		if n > attributes {
			p.Omitted, attributes = p.Omitted+1, 0
			return false
		}
		attributes -= n
		return true
	}
	cut := func(all []ResourceChange) []ResourceChange {
		kept := min(len(all), entries)
		p.Omitted, entries = p.Omitted+len(all)-kept, entries-kept
		all = slices.Clone(all[:kept])
		for i := range all {
			if !fits(len(all[i].Attributes)) {
				all[i].Attributes = nil
			}
		}
		return all
	}
	p.Resources, p.Drift, p.Outputs = cut(p.Resources), cut(p.Drift), slices.Clone(p.Outputs)
	for i := range p.Outputs {
		if !fits(len(p.Outputs[i].Values)) {
			p.Outputs[i].Values = nil
		}
	}
	return p
}
