package launch

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestSightings_AreOfInstancesThatAreThere(t *testing.T) {
	var s sightings
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	record := func(id, version string) state.Stored[state.Instance] {
		return state.Stored[state.Instance]{Record: state.Record{Key: state.InstanceKey(id), Version: version}, Data: state.Instance{ID: id, Silent: 20 * time.Second}}
	}
	if s.silent("a", record("a", "1"), now) || s.silent("b", record("b", "1"), now) {
		t.Error("an instance is silent at the first sight")
	}
	now = now.Add(21 * time.Second)
	if s.silent("a", record("a", "2"), now) || !s.silent("b", record("b", "1"), now) {
		t.Error("the one that has written its record is silent, or the other one is not")
	}
	if s.silent("b", state.Stored[state.Instance]{}, now) || len(s.last) != 1 {
		t.Errorf("an instance without a record is silent, or is not forgotten: %v", s.last)
	}
	s.silent("b", record("b", "1"), now)
	s.forget(map[string]uint64{"b": 0, "c": 0})
	if _, is := s.last["b"]; !is || len(s.last) != 1 {
		t.Errorf("of the instances b and c, these are known: %v", s.last)
	}
}
