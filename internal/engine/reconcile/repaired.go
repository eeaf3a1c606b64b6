package reconcile

import (
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Where modules are folders of this machine, people repair the module of a failing task in place: its definition
// stays the same, and nothing moves in Consul. So while tasks wait for their retries, their modules are read, too.

// repairEvery is how often that happens between two ticks that are not idle.
const repairEvery = 2 * time.Second

// repaired reports whether the local module of a failing task was changed after its latest run.
func (t *tick) repaired(task *config.Task, s *state.Task) bool {
	if t.ModuleChanged == nil || s.Failing.Count == 0 || s.Ended.Last == nil || !task.LocalModule() {
		return false
	}
	at, known := t.modulesAt[task.Module]
	if !known {
		if at = t.ModuleChanged(task.Module); t.modulesAt == nil {
			t.modulesAt = map[string]time.Time{}
		}
		t.modulesAt[task.Module] = at
	}
	return at.After(s.Ended.Last.Ended) && !at.After(t.Now()) // a time to come is one of a wrong clock
}

// noteBackoffs notes which tasks wait for their retries after the tick.
func (t *tick) noteBackoffs() {
	t.backoffs = nil
	for _, d := range t.report.Decisions {
		if d.Reason.Code == state.ReasonBackoff && t.ModuleChanged != nil && d.Task.LocalModule() {
			t.backoffs = append(t.backoffs, backoff{d.Task, d.State})
		}
	}
}

// backoff is a task that waits for its retry.
type backoff struct {
	*config.Task
	state state.Task
}

// anyRepaired reports whether a task need not wait for its retry any more.
func (t *tick) anyRepaired() bool {
	return slices.ContainsFunc(t.backoffs, func(b backoff) bool { return t.repaired(b.Task, &b.state) })
}
