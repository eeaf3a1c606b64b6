// Package drift says when a task is checked for drift: for what differs from what was
// applied last, although nothing in Consul has changed. It has the drift block of a
// task, or of the whole configuration, and takes the time as a value.
package drift

import (
	"hash/fnv"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/cron"
)

// Action is what happens to drift that a check finds.
type Action string

// The actions.
const (
	Report Action = "report" // an event and the phase show it
	Apply  Action = "apply"  // the task runs
)

// Spec says when a task is checked. Either Schedule or Every is set.
type Spec struct {
	Enabled  bool          `json:"enabled"`
	Schedule string        `json:"schedule,omitempty"`
	TimeZone string        `json:"time_zone,omitempty"` // of Schedule
	Every    time.Duration `json:"every,omitempty"`
	Action   Action        `json:"action"`

	schedule cron.Schedule
	zone     *time.Location
}

// Default is the rule of a task without drift blocks: it is not checked.
var Default = Spec{Every: 24 * time.Hour, Action: Report}

// Same reports whether two rules say the same.
func (s Spec) Same(other Spec) bool {
	s.schedule, s.zone, other.schedule, other.zone = cron.Schedule{}, nil, cron.Schedule{}, nil
	return s == other
}

// String says in words when the task is checked, and what follows.
func (s Spec) String() string {
	if !s.Enabled {
		return "the task is not checked for drift"
	}
	text := "checked for drift every " + block.Brief(s.Every)
	if s.Schedule != "" {
		text = "checked for drift at each time of " + s.Schedule
		if s.TimeZone != "" {
			text += " in " + s.TimeZone
		}
	}
	if s.Action == Apply {
		return text + "; a run changes back what differs"
	}
	return text + "; what differs is reported"
}

// Next is when the task is due for its next check, if the times until after are dealt
// with; zero if it never is. An interval is spread by the task's name: tasks that were
// applied together are not checked together. If after is further ahead of now than
// clocks may be apart, a clock that was wrong has written it, and a check is due now.
func (s Spec) Next(task string, after, now time.Time, skew time.Duration) time.Time {
	switch {
	case !s.Enabled:
		return time.Time{}
	case after.IsZero() || after.Sub(now) > skew:
		return now
	case s.Schedule != "":
		return s.schedule.Next(after.In(s.zone))
	}
	h := fnv.New64a()
	h.Write([]byte(task))
	wait := time.Duration(h.Sum64()%uint64(s.Every)) - time.Duration(after.UnixNano()%int64(s.Every))
	if wait <= 0 {
		wait += s.Every
	}
	return after.Add(wait)
}
