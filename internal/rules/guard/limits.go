package guard

import (
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Limit is one limit in force, with what it limits.
type Limit struct {
	Key   string // as in a guard block
	Value int
	// Count is that of a limit of entries; nil if it is not known.
	Count *state.Count
	Base  int // of Count: the most that were applied within the window, with which it is compared
	// Exceeded is set if what is there now, or the plan that waits, exceeds the limit.
	Exceeded bool
	Text     string // all of it in words
}

// Known is what is known of the task of which the limits are.
type Known struct {
	Counts  []state.Count // of each source; nil if they are not known
	Waiting *Planned      // the plan that waits; nil if none waits
	Had     state.Sizes
	Now     time.Time
}

// Limits returns the limits in force.
func (s Spec) Limits(of Known) []Limit {
	if !s.Enabled {
		return []Limit{{Key: "enabled", Text: "the guard is off, and lets every entry and resource go"}}
	}
	limits := s.unknown()
	if len(of.Counts) > 0 {
		limits = nil
	}
	for _, c := range of.Counts {
		limits = append(limits, s.of(c, of.Now)...)
	}
	if s.LastMayGo() {
		limits = append(limits, Limit{Key: "on_empty", Text: `the guard lets the last entry go: on_empty is "apply"`})
	}
	return append(limits, s.ofPlan(of)...)
}

// unknown returns the limits of entries where it is not known how many there are.
func (s Spec) unknown() (limits []Limit) {
	if s.MaxRemoved != nil {
		limits = append(limits, Limit{Key: "max_removed", Value: *s.MaxRemoved, Text: fmt.Sprintf("at most %d entries may go %s", *s.MaxRemoved, s.span())})
	}
	if s.MaxRemovedPercent < 100 {
		limits = append(limits, Limit{Key: "max_removed_percent", Value: s.MaxRemovedPercent,
			Text: fmt.Sprintf("at most %d %% of the entries may go %s, if at least %d were applied", s.MaxRemovedPercent, s.span(), s.MinEntries)})
	}
	if s.HoldEmpty {
		limits = append(limits, Limit{Key: "on_empty", Text: "a change that leaves no entries waits for an approval"})
	}
	return limits
}

// of returns the limits of the entries of one source.
func (s Spec) of(c state.Count, now time.Time) (limits []Limit) {
	base := s.base(c, now)
	removed, takes := base-c.Now, c.Now < c.Applied
	numbers := fmt.Sprintf("%d were applied, %d are there now", c.Applied, c.Now)
	if base > c.Applied {
		numbers = fmt.Sprintf("%d were applied within the last %s, %d were applied last, %d are there now", base, block.Brief(s.Within), c.Applied, c.Now)
	}
	add := func(key string, value int, exceeded bool, text string) {
		limits = append(limits, Limit{key, value, &c, base, exceeded && takes, text + ": " + numbers})
	}
	if s.MaxRemoved != nil {
		add("max_removed", *s.MaxRemoved, s.overNumber(removed), fmt.Sprintf("at most %d %s may go %s", *s.MaxRemoved, c.Of, s.span()))
	}
	switch percent := s.MaxRemovedPercent; {
	case percent >= 100:
	case base < s.MinEntries:
		add("max_removed_percent", percent, false, fmt.Sprintf("at most %d %% of the %s may go %s, if at least %d were applied", percent, c.Of, s.span(), s.MinEntries))
	default:
		add("max_removed_percent", percent, s.overPercent(removed, base), fmt.Sprintf("at most %d %% of the %s, which is %d, may go %s", percent, c.Of, base*percent/100, s.span()))
	}
	if s.HoldEmpty {
		add("on_empty", 0, c.Now == 0, fmt.Sprintf("a change that leaves no %s waits for an approval", c.Of))
	}
	return limits
}

// ofPlan returns the limits of a plan.
func (s Spec) ofPlan(of Known) (limits []Limit) {
	exceeded, numbers, plans := false, "", "a plan may destroy or replace"
	if s.Within > 0 {
		plans = "plans " + s.span() + " may destroy or replace"
	}
	switch w := of.Waiting; {
	case w == nil:
	case w.Unknown:
		numbers, exceeded = ": the plan that waits does not say how many it would destroy or replace", true
	default:
		all, _ := s.lost(*w, of.Had.Before(w.State), of.Now)
		numbers = fmt.Sprintf(": the plan that waits would destroy or replace %d", w.Destroy)
		if before := all - w.Destroy; before > 0 {
			numbers += fmt.Sprintf(", and %d were before it", before)
		}
		exceeded = w.Destroy > 0 && s.MaxDestroy != nil && all > *s.MaxDestroy
	}
	if most := s.MaxDestroy; most != nil {
		things := "resources"
		if *most == 1 {
			things = "resource"
		}
		limits = append(limits, Limit{Key: "max_destroy", Value: *most, Exceeded: exceeded, Text: fmt.Sprintf("%s at most %d %s%s", plans, *most, things, numbers)})
	}
	if most := s.MaxDestroyPercent; most != nil {
		limits = append(limits, Limit{Key: "max_destroy_percent", Value: *most, Text: fmt.Sprintf("%s at most %d %% of the resources in the state%s", plans, *most, numbers)})
	}
	return limits
}
