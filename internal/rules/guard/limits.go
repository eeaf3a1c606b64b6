package guard

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Limit is one limit in force, with what it limits.
type Limit struct {
	Key   string // as in a guard block
	Value int
	// Count is that of a limit of entries; nil if it is not known.
	Count *state.Count
	// Exceeded is set if what is there now, or the plan that waits, exceeds the limit.
	Exceeded bool
	Text     string // all of it in words
}

// Limits returns the limits in force. counts are the entries of each source, if they are
// known, and waiting are the numbers of the plan that waits; nil if none waits.
func (s Spec) Limits(counts []state.Count, waiting *state.Changes) []Limit {
	if !s.Enabled {
		return nil
	}
	limits := s.unknown()
	if len(counts) > 0 {
		limits = nil
	}
	for _, of := range counts {
		limits = append(limits, s.of(of)...)
	}
	return append(limits, s.ofPlan(waiting)...)
}

// unknown returns the limits of entries where it is not known how many there are.
func (s Spec) unknown() (limits []Limit) {
	if s.MaxRemoved != nil {
		limits = append(limits, Limit{Key: "max_removed", Value: *s.MaxRemoved, Text: fmt.Sprintf("at most %d entries may go at once", *s.MaxRemoved)})
	}
	if s.MaxRemovedPercent < 100 {
		limits = append(limits, Limit{Key: "max_removed_percent", Value: s.MaxRemovedPercent,
			Text: fmt.Sprintf("at most %d %% of the entries may go at once, if at least %d were applied", s.MaxRemovedPercent, s.MinEntries)})
	}
	if s.HoldEmpty {
		limits = append(limits, Limit{Key: "on_empty", Text: "a change that leaves no entries waits for an approval"})
	}
	return limits
}

// of returns the limits of the entries of one source.
func (s Spec) of(c state.Count) (limits []Limit) {
	removed := c.Applied - c.Now
	numbers := fmt.Sprintf("%d were applied, %d are there now", c.Applied, c.Now)
	if s.MaxRemoved != nil {
		limits = append(limits, Limit{"max_removed", *s.MaxRemoved, &c, s.overNumber(removed),
			fmt.Sprintf("at most %d %s may go at once: %s", *s.MaxRemoved, c.Of, numbers)})
	}
	switch percent := s.MaxRemovedPercent; {
	case percent >= 100:
	case c.Applied < s.MinEntries:
		limits = append(limits, Limit{"max_removed_percent", percent, &c, false,
			fmt.Sprintf("at most %d %% of the %s may go at once, if at least %d were applied: %s", percent, c.Of, s.MinEntries, numbers)})
	default:
		limits = append(limits, Limit{"max_removed_percent", percent, &c, s.overPercent(removed, c.Applied),
			fmt.Sprintf("at most %d %% of the %s, which is %d, may go at once: %s", percent, c.Of, c.Applied*percent/100, numbers)})
	}
	if s.HoldEmpty {
		limits = append(limits, Limit{"on_empty", 0, &c, removed > 0 && c.Now == 0, fmt.Sprintf("a change that leaves no %s waits for an approval: %s", c.Of, numbers)})
	}
	return limits
}

// ofPlan returns the limits of a plan.
func (s Spec) ofPlan(waiting *state.Changes) (limits []Limit) {
	numbers := ""
	switch {
	case waiting == nil:
	case waiting.Unknown:
		numbers = ": the plan that waits does not say how many it would destroy or replace"
	default:
		numbers = fmt.Sprintf(": the plan that waits would destroy or replace %d", waiting.Destroy)
	}
	if most := s.MaxDestroy; most != nil {
		things := "resources"
		if *most == 1 {
			things = "resource"
		}
		limits = append(limits, Limit{Key: "max_destroy", Value: *most, Exceeded: waiting != nil && (waiting.Unknown || waiting.Destroy > *most),
			Text: fmt.Sprintf("a plan may destroy or replace at most %d %s%s", *most, things, numbers)})
	}
	if most := s.MaxDestroyPercent; most != nil {
		limits = append(limits, Limit{Key: "max_destroy_percent", Value: *most,
			Text: fmt.Sprintf("a plan may destroy or replace at most %d %% of the resources in the state%s", *most, numbers)})
	}
	return limits
}
