// Package guard says whether a change is larger than a task may make without a
// person's approval: the guard block of a task, or of the whole configuration.
//
// There are two guards. The input guard compares the entries that Consul shows with
// those that were applied last, before anything is planned. The plan guard limits
// what a plan may destroy.
package guard

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Spec are the limits of a task.
type Spec struct {
	Enabled bool `json:"enabled"`

	// MaxRemovedPercent is how many percent of the entries of one source may go at
	// once, by number. It holds if at least MinEntries were applied.
	MaxRemovedPercent int `json:"max_removed_percent"`
	MinEntries        int `json:"min_entries"`
	// MaxRemoved is how many entries of one source may go at once, by number; nil
	// for no limit.
	MaxRemoved *int `json:"max_removed,omitempty"`
	// HoldEmpty holds a change that leaves a source without entries, however few
	// were applied.
	HoldEmpty bool `json:"hold_empty,omitempty"`

	// MaxDestroy is how many resources a plan may destroy or replace; nil for no
	// limit.
	MaxDestroy *int `json:"max_destroy,omitempty"`
	// MaxDestroyPercent is the same in percent of the resources in the state.
	MaxDestroyPercent *int `json:"max_destroy_percent,omitempty"`
}

// Default are the limits of a task that configures none.
var Default = Spec{Enabled: true, MaxRemovedPercent: 50, MinEntries: 10}

// Differs says in what the guard of a task differs from Consul-Terraform-Sync; "" if
// it does not.
func (s Spec) Differs() string {
	if !s.Enabled {
		return ""
	}
	return fmt.Sprintf("if more than %d %% of at least %d entries of a task vanish from Consul at once, Terrapulse holds the change until the data is back or a person approves it; "+
		"Consul-Terraform-Sync applies it, and so does Terrapulse with guard { enabled = false }", s.MaxRemovedPercent, s.MinEntries)
}

// PlanLimited reports whether a plan is needed to judge a change.
func (s Spec) PlanLimited() bool {
	return s.Enabled && (s.MaxDestroy != nil || s.MaxDestroyPercent != nil)
}

// Source is where entries come from: the condition of a task, or a module input.
type Source struct {
	state.Count
	Changes state.EntryChanges
}

// Input says why the entries that are there now must not be applied without an
// approval; "" if they may.
func (s Spec) Input(sources []Source) string {
	if !s.Enabled {
		return ""
	}
	var all []string
	for _, of := range sources {
		if why := s.source(of); why != "" {
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}

func (s Spec) source(of Source) string {
	applied, now := of.Applied, of.Now
	removed := applied - now
	if removed <= 0 {
		return ""
	}
	var limit string
	switch {
	case s.overNumber(removed):
		limit = fmt.Sprintf("max_removed is %d", *s.MaxRemoved)
	case s.overPercent(removed, applied):
		limit = fmt.Sprintf("max_removed_percent is %d", s.MaxRemovedPercent)
	case s.HoldEmpty && now == 0:
		limit = `on_empty is "hold"`
	default:
		return ""
	}
	return fmt.Sprintf("%s, and %s", Removed(of), limit)
}

func (s Spec) overNumber(removed int) bool { return s.MaxRemoved != nil && removed > *s.MaxRemoved }

func (s Spec) overPercent(removed, applied int) bool {
	return applied >= s.MinEntries && removed*100 > s.MaxRemovedPercent*applied
}

// namesShown is how many names a text has.
const namesShown = 5

// Removed says in words how many entries are gone, and which.
func Removed(of Source) string {
	var gone []string
	for _, e := range of.Changes.Entries {
		if e.Action != state.EntryRemoved || len(gone) == namesShown {
			continue
		}
		name := e.String()
		if e.ID != "" && !strings.Contains(e.ID, e.Group) {
			name = e.Group + " " + name
		}
		gone = append(gone, name)
	}
	text := fmt.Sprintf("%d of %d %s are gone", of.Changes.Removed, of.Applied, of.Of)
	if added := of.Changes.Added; added > 0 {
		text += fmt.Sprintf(" (%d are new)", added)
	}
	if len(gone) > 0 {
		text += ": " + strings.Join(gone, ", ")
	}
	if more := of.Changes.Removed - len(gone); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Plan says why a plan with these numbers must not be applied without an approval; ""
// if it may. A replacement is one resource destroyed. inState is how many resources the
// state has; nil if that is not known. What is not known may exceed each limit.
func (s Spec) Plan(plan state.Changes, inState *int) string {
	destroyed := plan.Destroy
	if !s.PlanLimited() || destroyed == 0 && !plan.Unknown {
		return ""
	}
	of := "resources"
	switch {
	case inState == nil && destroyed == 1:
		of = "resource"
	case inState != nil:
		of = fmt.Sprintf("of %d resources", *inState)
	}
	var limit string
	switch {
	case s.MaxDestroy != nil && (plan.Unknown || destroyed > *s.MaxDestroy):
		limit = fmt.Sprintf("max_destroy is %d", *s.MaxDestroy)
	case s.MaxDestroyPercent == nil:
		return ""
	case plan.Unknown:
		limit = fmt.Sprintf("max_destroy_percent is %d", *s.MaxDestroyPercent)
	case inState == nil:
		limit = fmt.Sprintf("max_destroy_percent is %d, but it is not known how many resources the state has", *s.MaxDestroyPercent)
	case destroyed*100 > *s.MaxDestroyPercent**inState:
		limit = fmt.Sprintf("max_destroy_percent is %d", *s.MaxDestroyPercent)
	default:
		return ""
	}
	switch {
	case plan.Unknown:
		return "the plan does not say how many resources it destroys or replaces, and " + limit
	case inState != nil && *inState == 1:
		return "the only resource would be destroyed or replaced, and " + limit
	}
	return fmt.Sprintf("%d %s would be destroyed or replaced, and %s", destroyed, of, limit)
}
