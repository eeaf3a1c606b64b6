package decide

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
)

// removalLasts is how long a task must be missing in the configuration until that counts as
// its removal: task files that are copied slowly are not all there for some seconds.
const removalLasts = 30 * time.Second

// noteRemoved notes that the task is not in the configuration. If somebody has deleted or
// renamed it, that counts at once.
func (d *decider) noteRemoved() {
	s := &d.state
	since := s.Gone.Since
	if since.IsZero() || since.After(d.now.Add(d.Skew)) {
		since = d.now
	}
	s.Missing(since, d.now, s.Gone.Deleted != nil || d.MovedTo != "" || clock.Reached(since.Add(removalLasts), d.now))
}

// missing reports whether the task is missing in the configuration and does not count as
// removed yet. Nothing is done about it then, and nothing is forgotten.
func (d *decider) missing() bool { return d.Removed && d.state.Gone.Missing() }
