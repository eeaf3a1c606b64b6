package launch

import (
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// sightings show which instances live. An instance that lives writes its record cluster/ID again and
// again: what counts is that it changes, and not the time in it, which is that of another clock.
type sightings struct {
	mu   sync.Mutex
	last map[string]sighting // by id of the instance
}

// sighting is a version of a record.
type sighting struct {
	version string
	since   time.Time // when this process saw it first
}

// silent reports whether an instance has not written its record for longer than it may. An instance
// without a record is not known to be silent.
func (s *sightings) silent(record state.Stored[state.Instance]) bool {
	if !record.Exists() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, id := time.Now(), record.Data.ID
	if was, seen := s.last[id]; seen && was.version == record.Version {
		return now.Sub(was.since) > record.Data.Silent
	}
	if s.last == nil {
		s.last = map[string]sighting{}
	}
	s.last[id] = sighting{record.Version, now}
	return false
}
