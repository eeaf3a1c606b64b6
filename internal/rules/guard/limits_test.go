package guard_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
)

func TestLimits_SayWhatIsThereNow(t *testing.T) {
	instances := func(applied, now int) []state.Count {
		return []state.Count{{Of: "service instances", Applied: applied, Now: now}}
	}
	all := with(func(s *guard.Spec) {
		s.MaxRemoved, s.HoldEmpty, s.MaxDestroy, s.MaxDestroyPercent = ptr(2), true, ptr(5), ptr(20)
	})
	const lastMayGo = `the guard lets the last entry go: on_empty is "apply"`
	for name, c := range map[string]struct {
		spec    guard.Spec
		counts  []state.Count
		waiting *guard.Planned
		want    []string // those that are exceeded begin with !
	}{
		"default":       {guard.Default, instances(12, 10), nil, []string{"at most 50 % of the service instances, which is 6, may go within 15m: 12 were applied, 10 are there now", lastMayGo}},
		"exceeded":      {guard.Default, instances(13, 6), nil, []string{"!at most 50 % of the service instances, which is 6, may go within 15m: 13 were applied, 6 are there now", lastMayGo}},
		"few":           {guard.Default, instances(9, 0), nil, []string{"at most 50 % of the service instances may go within 15m, if at least 10 were applied: 9 were applied, 0 are there now", lastMayGo}},
		"never applied": {guard.Default, nil, nil, []string{"at most 50 % of the entries may go within 15m, if at least 10 were applied", lastMayGo}},
		"off":           {with(func(s *guard.Spec) { s.Enabled = false }), instances(13, 6), nil, []string{"the guard is off, and lets every entry and resource go"}},
		"all may go":    {with(func(s *guard.Spec) { s.MaxRemovedPercent = 100 }), instances(13, 0), nil, []string{lastMayGo}},
		"none may go":   {with(func(s *guard.Spec) { s.MaxRemoved = ptr(0) }), nil, nil, []string{"at most 0 entries may go within 15m", "at most 50 % of the entries may go within 15m, if at least 10 were applied"}},
		"unknown counts": {all, nil, nil, []string{"at most 2 entries may go within 15m", "at most 50 % of the entries may go within 15m, if at least 10 were applied", "a change that leaves no entries waits for an approval",
			"plans within 15m may destroy or replace at most 5 resources", "plans within 15m may destroy or replace at most 20 % of the resources in the state"}},
		"all limits": {all, instances(3, 0), &guard.Planned{Changes: state.Changes{Destroy: 6}}, []string{"!at most 2 service instances may go within 15m: 3 were applied, 0 are there now",
			"at most 50 % of the service instances may go within 15m, if at least 10 were applied: 3 were applied, 0 are there now",
			"!a change that leaves no service instances waits for an approval: 3 were applied, 0 are there now",
			"!plans within 15m may destroy or replace at most 5 resources: the plan that waits would destroy or replace 6",
			"plans within 15m may destroy or replace at most 20 % of the resources in the state: the plan that waits would destroy or replace 6"}},
		"two sources": {guard.Default, append(instances(12, 12), state.Count{Of: "keys", Applied: 20, Now: 2}), nil, []string{
			"at most 50 % of the service instances, which is 6, may go within 15m: 12 were applied, 12 are there now", "!at most 50 % of the keys, which is 10, may go within 15m: 20 were applied, 2 are there now", lastMayGo}},
	} {
		var got []string
		for _, l := range c.spec.Limits(guard.Known{Counts: c.counts, Waiting: c.waiting, Now: noon}) {
			if l.Exceeded {
				l.Text = "!" + l.Text
			}
			got = append(got, l.Text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A limit of entries is exceeded exactly if the input guard holds the same entries.
func TestLimits_AgreeWithTheInputGuard(t *testing.T) {
	specs := []guard.Spec{guard.Default, with(func(s *guard.Spec) { s.MaxRemoved = ptr(3) }), with(func(s *guard.Spec) { s.HoldEmpty = true }),
		with(func(s *guard.Spec) { s.MaxRemovedPercent, s.MinEntries = 0, 0 }), with(func(s *guard.Spec) { s.MaxRemovedPercent = 100 })}
	for _, spec := range specs {
		for applied := range 15 {
			for now := range 15 {
				exceeded := false
				for _, l := range spec.Limits(guard.Known{Counts: []state.Count{{Of: "keys", Applied: applied, Now: now}}, Now: noon}) {
					exceeded = exceeded || l.Exceeded
				}
				if held := spec.Input([]guard.Source{{Count: state.Count{Of: "keys", Applied: applied, Now: now}}}, noon).Text; exceeded != (held != "") {
					t.Fatalf("%+v, %d applied, %d now: exceeded %v, held %q", spec, applied, now, exceeded, held)
				}
			}
		}
	}
}
