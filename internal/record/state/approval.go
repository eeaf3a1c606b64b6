package state

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/identity"
)

// Approval is the permission to apply one content. If several people must give it, the fields
// about a person are those of the last one.
type Approval struct {
	Given
	Content Content `json:"content"`
	Before  []Given `json:"before,omitempty"` // by whom it was given before, in order
}

// Given is the approval of one person.
type Given struct {
	ID string `json:"id,omitempty"` // of its GivenRecord; "" if another system took the approval
	By string `json:"by"`
	// Authenticated is set if By was proven, here or by another system. Else it is what the
	// caller says.
	Authenticated bool           `json:"authenticated,omitempty"`
	Proof         identity.Proof `json:"proof,omitempty"`   // what proved By; "" if another system did
	Account       string         `json:"account,omitempty"` // as in identity.Identity
	As            string         `json:"as,omitempty"`      // the entry of the rule that permits the person to approve, if it has any
	At            time.Time      `json:"at"`
	Comment       string         `json:"comment,omitempty"`
	Expires       time.Time      `json:"expires,omitzero"`  // never if zero
	Revoked       bool           `json:"revoked,omitempty"` // nothing proves it any more: its record is gone, or its token was revoked
}

// ApprovalPrefix is the collection of the approvals.
const ApprovalPrefix = "approval/"

func approvalsOf(task string) string { return ApprovalPrefix + element(task) + "/" }

// ApprovalKey returns the key of the record of one approval.
func ApprovalKey(task, id string) string { return approvalsOf(task) + element(id) }

// GivenRecord proves an approval: the records of tasks and runs only repeat it, and runners write these. The program
// that receives a person's request, or the leader, creates the record, and no program changes it. The approval
// counts as long as its record exists.
type GivenRecord struct {
	Given
	Content Content `json:"content"`
}

// keptApprovals is how long the record of an approval is kept after the approval has expired.
const keptApprovals = 24 * time.Hour

// Record returns the change that records the approval of a content of a task. An approval that never expires is
// kept as long as the task.
func (g Given) Record(task string, content Content) Change {
	change := Create(ApprovalKey(task, g.ID), Encode(GivenRecord{g, content}))
	if g.Expires.IsZero() {
		return change
	}
	return change.Until(g.Expires.Add(keptApprovals))
}

// Proves reports whether the record is that of an approval of a content.
func (r GivenRecord) Proves(g Given, content Content) bool {
	g.Revoked = false
	return g.ID != "" && bytes.Equal(Encode(r), Encode(GivenRecord{g, content}))
}

// Valid reports whether the approval is not revoked, and has not expired at a time.
func (g Given) Valid(now time.Time) bool {
	return !g.Revoked && (g.Expires.IsZero() || now.Before(g.Expires))
}

// ApprovalOf returns the approval that people have given together.
func ApprovalOf(content Content, given []Given) Approval {
	last := len(given) - 1
	a := Approval{Given: given[last], Content: content}
	if last > 0 {
		a.Before = slices.Clone(given[:last])
	}
	return a
}

// All are the approvals of each person, in order.
func (a Approval) All() []Given { return append(slices.Clone(a.Before), a.Given) }

// Valid reports whether no part of the approval has expired at a time.
func (a Approval) Valid(now time.Time) bool {
	return !slices.ContainsFunc(a.All(), func(g Given) bool { return !g.Valid(now) })
}

// IsRevoked reports whether a part of the approval is revoked.
func (a Approval) IsRevoked() bool {
	return slices.ContainsFunc(a.All(), func(g Given) bool { return g.Revoked })
}

// Until is when the first part of the approval expires; never if zero.
func (a Approval) Until() time.Time { return FirstExpiry(a.All()) }

// FirstExpiry is when the first of the approvals expires; never if zero.
func FirstExpiry(given []Given) (first time.Time) {
	for _, g := range given {
		first = clock.Earlier(first, g.Expires)
	}
	return first
}

// Names are who approved, in words.
func (a Approval) Names() string { return NamesOf(a.All()) }

// NamesOf are who gave the approvals, in words.
func NamesOf(given []Given) string {
	names := make([]string, len(given))
	for i, g := range given {
		names[i] = g.By
	}
	if last := len(names) - 1; last > 0 {
		names = []string{strings.Join(names[:last], ", "), names[last]}
	}
	return strings.Join(names, " and ")
}

// Same reports whether two approvals are one.
func (a Approval) Same(b Approval) bool {
	return a.Given == b.Given && a.Content == b.Content && slices.Equal(a.Before, b.Before)
}
