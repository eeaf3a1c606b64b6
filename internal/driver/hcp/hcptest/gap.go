package hcptest

import (
	"net/http"
	"slices"
	"strings"
)

// Gap is something that a server with the same API lacks, or does otherwise than HCP
// Terraform: an older Terraform Enterprise, or an independent implementation.
type Gap string

// The gaps.
const (
	// NoCounts: plans, applies and workspaces do not say how many resources they have.
	NoCounts Gap = "no counts"
	// ZeroCounts: workspaces say that they have no resources.
	ZeroCounts Gap = "zero counts"
	// RelativeAddresses: signed addresses are relative to the server's.
	RelativeAddresses Gap = "relative addresses"
	// NoStateAddress: a state does not say where its content is.
	NoStateAddress Gap = "no address of the state"
	// NoMessages: runs have no message.
	NoMessages Gap = "no messages"
	// NoParts: answers about runs do not include their plans and applies.
	NoParts Gap = "no parts"
	// NoRunList: there is no list of the runs of an organization.
	NoRunList Gap = "no list of runs"
	// NoSafeDelete: a workspace can only be deleted with its state.
	NoSafeDelete Gap = "no safe-delete"
	// NoSavePlan: a list of runs refuses the filter save_plan.
	NoSavePlan Gap = "no save_plan"
	// NoStatus: plans and applies have no status.
	NoStatus Gap = "no status"
	// RefusedNotifications: a notification whose address does not answer is created, but not
	// enabled.
	RefusedNotifications Gap = "refused notifications"
	// NoCurrentVersion: a workspace does not say which configuration version is its current one.
	NoCurrentVersion Gap = "no current version"
	// BrokenConflicts: what the state of a run or a workspace does not permit is answered
	// with 500 instead of 409.
	BrokenConflicts Gap = "500 instead of 409"
	// ValueOnly: a request that changes a sensitive variable may name its value alone.
	ValueOnly Gap = "value only"
	// TwiceCreated: each request to create a run creates two, of which the answer names the
	// second: as behind a proxy that repeats requests.
	TwiceCreated Gap = "stray runs"
)

// With gives a stand-in gaps.
func With(gaps ...Gap) Option { return func(s *Server) { s.gaps = gaps } }

func (s *Server) has(g Gap) bool { return slices.Contains(s.gaps, g) }

// refused is the answer to a request that the gaps do not let through; nil if they do.
func (s *Server) refused(r *http.Request) *fault {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v2/"), "/")
	last := parts[len(parts)-1]
	switch {
	case s.has(NoRunList) && parts[0] == "organizations" && last == "runs", s.has(NoSafeDelete) && last == "safe-delete":
		return &fault{Fault: Fault{Status: http.StatusNotFound}}
	case s.has(NoSavePlan) && last == "runs" && strings.Contains(r.URL.Query().Get("filter[operation]"), "save_plan"):
		return &fault{Fault: Fault{Status: http.StatusUnprocessableEntity, Title: "invalid filter"}}
	}
	return nil
}

// counted returns the attributes of a plan, an apply or a workspace, without what a gap hides.
func (s *Server) counted(attributes object) object {
	for name := range attributes {
		if s.has(NoCounts) && strings.HasPrefix(name, "resource-") || s.has(NoStatus) && name == "status" {
			delete(attributes, name)
		}
	}
	return attributes
}
