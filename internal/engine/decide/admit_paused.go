package decide

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// holdPaused refuses every run while everything is paused. It is the last rule: its
// reason says what would run at once after a resume.
func holdPaused(d *decider, t trigger) *hold {
	if d.Paused == nil || !t.run || d.elsewhere() {
		return nil
	}
	return refuse(state.ReasonPaused, time.Time{}, "%s; `terrapulse resume` lets it run: %s", d.Paused, t.reason.Text)
}
