package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
)

// Identity tells one Consul from another at the same address.
type Identity struct {
	Cluster string `json:"cluster,omitempty"` // it was created with the cluster's data; "" where Connect is off
	Index   uint64 `json:"index,omitempty"`   // of the latest change of the catalog
}

// Replaced says why now must be another Consul than i, or one with much older data;
// "" if it may be the same. The index of one Consul goes backwards only by repairs
// and upgrades, and then by little.
func (i Identity) Replaced(now Identity) string {
	switch {
	case i.Cluster != "" && now.Cluster != "" && i.Cluster != now.Cluster:
		return fmt.Sprintf("it is cluster %s, and was cluster %s", now.Cluster, i.Cluster)
	case now.Index < i.Index/2:
		return fmt.Sprintf("its index went back from %d to %d", i.Index, now.Index)
	}
	return ""
}

// Replaced is a Consul that is another one than the one whose data was applied.
// Tasks that lose entries by it are held.
type Replaced struct {
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
	// Now are the new identities, by datacenter; "" is that of the agent.
	Now     map[string]Identity `json:"now"`
	Tasks   int                 `json:"tasks"`           // how many tasks lose entries
	Entries int                 `json:"entries"`         // how many they lose
	Names   []string            `json:"names,omitempty"` // of the first of the tasks, MaxNames at most
	Shown   string              `json:"shown,omitempty"` // digest of what those tasks are shown
	// Approved is an approval of everything that Shown stands for, until the next tick.
	Approved *ReplacedApproval `json:"approved,omitempty"`
	// Earlier are approvals that were not enough for the tasks that are still held.
	Earlier []ReplacedApproval `json:"earlier,omitempty"`
	// Unconfirmed is how many tasks are marked with Task.Unconfirmed: it is not known what
	// they lose, or they require another approver. If there are any, the others are
	// confirmed, and are not held any more.
	Unconfirmed int  `json:"unconfirmed,omitempty"`
	Said        bool `json:"said,omitempty"` // there was an event
}

// LostByReplaced is what the reason of a task that is held because of a replaced Consul
// says after what the task would lose.
const LostByReplaced = ", and Consul was replaced since they were applied"

// In reports whether Consul was replaced in one of the datacenters.
func (r *Replaced) In(datacenters []string) bool {
	if r == nil {
		return false
	}
	for _, dc := range datacenters {
		if _, ok := r.Now[dc]; ok {
			return true
		}
	}
	return false
}

// HoldsAll reports whether every task is held that loses entries. Otherwise only those are
// that are marked with Task.Unconfirmed.
func (r *Replaced) HoldsAll() bool { return r != nil && r.Unconfirmed == 0 }

// Concerns reports whether a task that reads the datacenters is held if it loses
// entries. unconfirmed is Task.Unconfirmed.
func (r *Replaced) Concerns(unconfirmed bool, datacenters []string) bool {
	return r != nil && (unconfirmed || r.HoldsAll() && r.In(datacenters))
}

// Detail says in words what is held.
func (r *Replaced) Detail() string {
	text := fmt.Sprintf("%d tasks would lose %d entries: %s", r.Tasks, r.Entries, strings.Join(r.Names, ", "))
	if more := r.Tasks - len(r.Names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ReplacedApproval permits the tasks to lose what they lose by a replaced Consul.
type ReplacedApproval struct {
	By            string    `json:"by"`
	Authenticated bool      `json:"authenticated,omitempty"` // as in Approval
	At            time.Time `json:"at"`
	Comment       string    `json:"comment,omitempty"`
	Shown         string    `json:"shown"` // what was approved

	// Who By is, for the rules of tasks:
	Proof  identity.Proof `json:"proof,omitempty"`
	Also   []string       `json:"also,omitempty"`
	Groups []string       `json:"groups,omitempty"`

	Account string    `json:"account,omitempty"`
	Made    time.Time `json:"made,omitzero"`
}

// Same reports whether two approvals are one.
func (a ReplacedApproval) Same(b ReplacedApproval) bool {
	return a.By == b.By && a.At.Equal(b.At) && a.Shown == b.Shown && a.Proof == b.Proof && a.Comment == b.Comment
}

// Who is who gave the approval.
func (a ReplacedApproval) Who() identity.Identity {
	return identity.Identity{Name: a.By, Also: a.Also, Groups: a.Groups, Proof: a.Proof, Account: a.Account, Made: a.Made}
}

// Accepted is an approval of what Consul shows to one task, before there is a plan
// of it. It also permits later runs to apply that input: those that follow a failed one.
type Accepted struct {
	Approval
	Observed string `json:"observed"` // digest of what the condition shows in that input
}

// Records returns the changes that record its approvals of a task, but for those that another one has. Both may be nil.
func (a *Accepted) Records(task string, other *Accepted) (changes []Change) {
	if a == nil {
		return nil
	}
	for _, g := range a.All() {
		if other == nil || !slices.ContainsFunc(other.All(), func(had Given) bool { return had.ID == g.ID }) {
			changes = append(changes, g.Record(task, a.Content))
		}
	}
	return changes
}

// For is the attempt that is accepted.
func (a Accepted) For() Attempt { return Attempt{a.Content.Definition, a.Observed} }
