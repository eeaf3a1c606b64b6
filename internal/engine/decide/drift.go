package decide

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// atRest reports whether nothing is to be done about a task, so that what a plan
// changes was changed by somebody else.
func atRest(s *state.Task, definition string) bool {
	applied := s.UpToDate() && s.Applied.Definition == definition
	requested := s.Pending != nil || s.Forced.By != "" || s.Applied.Doubt != ""
	stopped := s.OnHold != nil || s.Stop != nil || !s.Observed.UnreadableSince.IsZero()
	return applied && !requested && !stopped && !s.Observed.Recheck && s.Run == nil
}

// AppliesDrift reports whether a task at rest should run because it is drifted.
func AppliesDrift(t *config.Task, s *state.Task) bool {
	found := s.Drifted()
	return t.Drift.Enabled && t.Drift.Action == drift.Apply && found != nil && !found.Persists
}

// CheckDue is when a task is due for a check; zero if it is not to be checked.
func CheckDue(t *config.Task, definition string, s *state.Task, now time.Time, skew time.Duration) time.Time {
	switch d := s.Drift; {
	case !t.Enabled || !t.Drift.Enabled || d == nil || d.Run != nil || !atRest(s, definition) || AppliesDrift(t, s):
		return time.Time{}
	case d.Applied != "":
		return clock.Earlier(d.After, now)
	default:
		return t.Drift.Next(t.Name, d.After, now, skew)
	}
}

// noteDrift takes over what is known of checks since the last decision.
func (d *decider) noteDrift() {
	s := &d.state
	switch {
	case !d.Task.Drift.Enabled:
		s.Drift = nil
	case d.EndedCheck != nil:
		*s = s.EndCheck(*d.EndedCheck)
	case !d.Task.Enabled:
		*s = s.WithoutCheck()
	case s.Drift == nil:
		s.Drift = &state.Drift{After: d.now} // so that not all tasks are checked when checks are configured
	}
}

// checks reports whether the task is to be checked, if nothing triggers it.
func (d *decider) checks(t trigger) bool {
	return d.Check && d.Paused == nil && d.Observed != nil && t.reason.Code == state.ReasonUnchanged && !t.missed &&
		clock.Reached(CheckDue(d.Task, d.Definition, &d.state, d.now, d.Skew), d.now)
}
