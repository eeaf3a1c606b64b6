package launch

import (
	"maps"
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
// without a record is not known to be silent, and is forgotten.
func (s *sightings) silent(instance string, record state.Stored[state.Instance], now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !record.Exists() {
		delete(s.last, instance)
		return false
	}
	if was, seen := s.last[instance]; seen && was.version == record.Version {
		return now.Sub(was.since) > record.Data.Silent
	}
	if s.last == nil {
		s.last = map[string]sighting{}
	}
	s.last[instance] = sighting{record.Version, now}
	return false
}

// forget forgets the instances that are not there any more.
func (s *sightings) forget(there map[string]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.last, func(instance string, _ sighting) bool {
		_, is := there[instance]
		return !is
	})
}
