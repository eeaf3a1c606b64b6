// Package guard says whether a change is larger than a task may make without a
// person's approval: the guard block of a task, or of the whole configuration.
//
// There are two guards. The input guard compares the entries that Consul shows with
// those that were applied last, before anything is planned. The plan guard compares the
// resources that a plan leaves with those that the state had. Both compare with the most within a
// window, so that a loss in small steps is one loss.
package guard

import (
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Spec are the limits of a task.
type Spec struct {
	Enabled bool `json:"enabled"`

	// Within is the window: the entries are compared with the most that were applied in
	// it, and the resources with the most that the state had in it. With 0, only what was applied
	// last counts, and each plan alone.
	Within time.Duration `json:"within"`

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
var Default = Spec{Enabled: true, Within: 15 * time.Minute, MaxRemovedPercent: 50, MinEntries: 10}

// Differs says in what the guard of a task differs from Consul-Terraform-Sync; "" if
// it does not.
func (s Spec) Differs() string {
	if !s.Enabled {
		return ""
	}
	return fmt.Sprintf("if more than %d %% of at least %d entries of a task vanish from Consul "+s.span()+", Terrapulse holds the change until the data is back or a person approves it; "+
		"Consul-Terraform-Sync applies it, and so does Terrapulse with guard { enabled = false }", s.MaxRemovedPercent, s.MinEntries)
}

// PlanLimited reports whether a plan is needed to judge a change.
func (s Spec) PlanLimited() bool {
	return s.Enabled && (s.MaxDestroy != nil || s.MaxDestroyPercent != nil)
}

// Window is how far back losses count; 0 if the guard is off. What is applied without a
// guard is a new base for the guard.
func (s Spec) Window() time.Duration {
	if !s.Enabled {
		return 0
	}
	return s.Within
}

// span is the window in words.
func (s Spec) span() string {
	if s.Within == 0 {
		return "at once"
	}
	return "within " + block.Brief(s.Within)
}

// Source is where entries come from: the condition of a task, or a module input.
type Source struct {
	state.Count
	Changes state.EntryChanges
}

// Verdict says whether a change may be applied without an approval.
type Verdict struct {
	Text string // why it may not; "" if it may
	// Until is when it may if nothing changes until then, because the losses before it have left
	// the window; zero if only a person can permit it.
	Until time.Time
}

// and returns the verdict of several limits.
func (v Verdict) and(other Verdict) Verdict {
	switch {
	case other.Text == "":
		return v
	case v.Text == "":
		return other
	}
	both := Verdict{Text: v.Text + "; " + other.Text}
	if !v.Until.IsZero() && !other.Until.IsZero() {
		if both.Until = v.Until; other.Until.After(both.Until) {
			both.Until = other.Until
		}
	}
	return both
}

// Input judges the entries that are there now.
func (s Spec) Input(sources []Source, now time.Time) (v Verdict) {
	if !s.Enabled {
		return v
	}
	for _, of := range sources {
		v = v.and(s.source(of, now))
	}
	return v
}

func (s Spec) source(of Source, now time.Time) Verdict {
	base := s.base(of.Count, now)
	limit := s.exceeded(of.Count, base)
	if limit == "" {
		return Verdict{}
	}
	v := Verdict{Text: Removed(of)}
	if base > of.Applied && limit != emptyHeld {
		v.Text = fmt.Sprintf("%d of the %d %s that were applied within the last %s are gone (%s)", base-of.Now, base, of.Of, block.Brief(s.Within), lastGone(of))
	}
	v.Text += ", and " + limit
	v.Until = s.until(of.Peaks, now, func(rest state.Peaks) bool {
		return s.exceeded(of.Count, rest.Most(of.Applied, s.Within, now)) == ""
	})
	return v
}

// until is when so many peaks have left the window that the rest permits a change; zero if that is never so.
func (s Spec) until(peaks state.Peaks, now time.Time, permitted func(rest state.Peaks) bool) time.Time {
	for i, peak := range peaks {
		if left := s.leaves(peak.Until, now); left.After(now) && permitted(peaks[i+1:]) {
			return left
		}
	}
	return time.Time{}
}

// base is how many entries those that are there now are compared with.
func (s Spec) base(c state.Count, now time.Time) int { return c.Peaks.Most(c.Applied, s.Within, now) }

// leaves is when what ended at a time leaves the window. A clock that was ahead has recorded a time
// to come.
func (s Spec) leaves(at, now time.Time) time.Time {
	if at.After(now) {
		at = now
	}
	return at.Add(s.Within)
}

// emptyHeld is the limit of a change that leaves no entries.
const emptyHeld = `on_empty is "hold"`

// exceeded says which limit the entries exceed. A change that takes nothing away by number exceeds
// none, whatever was taken away before it.
func (s Spec) exceeded(c state.Count, base int) string {
	switch removed := base - c.Now; {
	case c.Now >= c.Applied:
		return ""
	case s.overNumber(removed):
		return fmt.Sprintf("max_removed is %d", *s.MaxRemoved)
	case s.overPercent(removed, base):
		return fmt.Sprintf("max_removed_percent is %d", s.MaxRemovedPercent)
	case s.HoldEmpty && c.Now == 0:
		return emptyHeld // however many were applied before
	}
	return ""
}

// LastMayGo reports whether the guard lets the last entry of a source go.
func (s Spec) LastMayGo() bool { return !s.Enabled || s.exceeded(state.Count{Applied: 1}, 1) == "" }

// namesShown is how many names a text has.
const namesShown = 5

func (s Spec) overNumber(removed int) bool { return s.MaxRemoved != nil && removed > *s.MaxRemoved }

func (s Spec) overPercent(removed, applied int) bool {
	return applied >= s.MinEntries && removed*100 > s.MaxRemovedPercent*applied
}

// Removed says in words how many entries are gone, and which.
func Removed(of Source) string {
	text := fmt.Sprintf("%d of %d %s are gone", of.Changes.Removed, of.Applied, of.Of)
	if added := of.Changes.Added; added > 0 {
		text += fmt.Sprintf(" (%d are new)", added)
	}
	return text + names(of)
}

// lastGone says in words how many entries are gone since the last apply, and which.
func lastGone(of Source) string {
	text := fmt.Sprintf("%d since the last apply", of.Changes.Removed)
	if added := of.Changes.Added; added > 0 {
		text += fmt.Sprintf(", with %d new", added)
	}
	return text + names(of)
}

// names says in words which entries are gone.
func names(of Source) (text string) {
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
	if len(gone) > 0 {
		text += ": " + strings.Join(gone, ", ")
	}
	if more := of.Changes.Removed - len(gone); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Planned are the numbers of a plan. A replacement is one resource destroyed.
type Planned struct {
	state.Changes
	InState *int   // how many resources the state has; nil if that is not known
	State   string // from which it was planned, if that is known
}

// Begun is the apply of a plan, as later plans are judged by it.
func (s Spec) Begun(plan Planned) state.Begun {
	if !s.PlanLimited() || plan.Destroy == 0 || plan.InState == nil || s.Window() == 0 {
		return state.Begun{Window: s.Window()}
	}
	return state.Begun{Window: s.Window(), InState: plan.InState, Replaces: min(plan.Destroy, plan.Add), State: plan.State}
}

// Plan judges a plan. What is not known may exceed each limit. A plan that destroys nothing exceeds none. had are
// the resources before earlier applies.
func (s Spec) Plan(plan Planned, had state.Sizes, now time.Time) Verdict {
	if !s.PlanLimited() || plan.Destroy == 0 && !plan.Unknown {
		return Verdict{}
	}
	if plan.InState != nil && *plan.InState == 0 && plan.Destroy > 0 { // of a server that does not count
		plan.InState = nil
	}
	peaks := had.Before(plan.State)
	v := Verdict{Text: s.plan(plan, peaks, now)}
	if v.Text != "" {
		v.Until = s.until(peaks, now, func(rest state.Peaks) bool { return s.plan(plan, rest, now) == "" })
	}
	return v
}

// lost is how many resources are gone with a plan, of how many that there were in the window.
func (s Spec) lost(plan Planned, peaks state.Peaks, now time.Time) (lost, of int) {
	if plan.InState == nil {
		return plan.Destroy, 0
	}
	of = peaks.Most(*plan.InState, s.Within, now)
	return of - *plan.InState + plan.Destroy, of
}

func (s Spec) plan(plan Planned, peaks state.Peaks, now time.Time) string {
	all, most := s.lost(plan, peaks, now)
	var limit string
	switch {
	case s.MaxDestroy != nil && (plan.Unknown || all > *s.MaxDestroy):
		limit = fmt.Sprintf("max_destroy is %d", *s.MaxDestroy)
	case s.MaxDestroy != nil && plan.InState == nil && s.Within > 0:
		limit = fmt.Sprintf("max_destroy is %d, but it is not known how many resources the state has, and so not how many it has lost within %s", *s.MaxDestroy, block.Brief(s.Within))
	case s.MaxDestroyPercent == nil:
		return ""
	case plan.Unknown:
		limit = fmt.Sprintf("max_destroy_percent is %d", *s.MaxDestroyPercent)
	case plan.InState == nil:
		limit = fmt.Sprintf("max_destroy_percent is %d, but it is not known how many resources the state has", *s.MaxDestroyPercent)
	case all*100 > *s.MaxDestroyPercent*most:
		limit = fmt.Sprintf("max_destroy_percent is %d", *s.MaxDestroyPercent)
	default:
		return ""
	}
	of := "resources"
	switch {
	case plan.InState == nil && all == 1:
		of = "resource"
	case plan.InState != nil:
		of = fmt.Sprintf("of %d resources", most)
	}
	switch {
	case plan.Unknown:
		return "the plan does not say how many resources it destroys or replaces, and " + limit
	case all > plan.Destroy:
		return fmt.Sprintf("%d %s would be destroyed or replaced within %s, %d of them by this plan, and %s", all, of, block.Brief(s.Within), plan.Destroy, limit)
	case plan.InState != nil && most == 1:
		return "the only resource would be destroyed or replaced, and " + limit
	}
	return fmt.Sprintf("%d %s would be destroyed or replaced, and %s", all, of, limit)
}
