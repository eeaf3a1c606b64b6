package guard_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func TestInput_ComparesWithTheMostThatWasAppliedWithinTheWindow(t *testing.T) {
	peaks := state.Peaks{{Count: 60, Until: ago(10 * time.Minute)}, {Count: 40, Until: ago(5 * time.Minute)}}
	at := with(func(s *guard.Spec) { s.Within = 0 })
	for _, c := range []struct {
		name         string
		spec         guard.Spec
		applied, now int
		peaks        state.Peaks
		want         guard.Verdict
	}{
		{"half of the most is left", guard.Default, 32, 30, peaks, guard.Verdict{}},
		{"less than half of the most is left", guard.Default, 30, 25, peaks, guard.Verdict{
			Text: "35 of the 60 service instances that were applied within the last 15m are gone (5 since the last apply: web-25, web-26, web-27, web-28, web-29), and max_removed_percent is 50", Until: noon.Add(5 * time.Minute)}},
		{"it is permitted when two have left the window", guard.Default, 21, 19, peaks, guard.Verdict{
			Text: "41 of the 60 service instances that were applied within the last 15m are gone (2 since the last apply: web-19, web-20), and max_removed_percent is 50", Until: noon.Add(10 * time.Minute)}},
		{"time does not permit it", guard.Default, 30, 14, peaks, guard.Verdict{
			Text: "46 of the 60 service instances that were applied within the last 15m are gone (16 since the last apply: web-14, web-15, web-16, web-17, web-18 and 11 more), and max_removed_percent is 50"}},
		{"more than before", guard.Default, 20, 21, peaks, guard.Verdict{}},
		{"as many as before", guard.Default, 20, 20, peaks, guard.Verdict{}},
		{"only what was applied last counts", at, 30, 25, peaks, guard.Verdict{}},
		{"the window has passed", guard.Default, 30, 25, state.Peaks{{Count: 60, Until: ago(15 * time.Minute)}}, guard.Verdict{}},
		{"a clock was ahead", guard.Default, 30, 25, state.Peaks{{Count: 60, Until: noon.Add(time.Hour)}}, guard.Verdict{
			Text: "35 of the 60 service instances that were applied within the last 15m are gone (5 since the last apply: web-25, web-26, web-27, web-28, web-29), and max_removed_percent is 50", Until: noon.Add(15 * time.Minute)}},
		{"few now, and many before", guard.Default, 6, 5, state.Peaks{{Count: 12, Until: ago(time.Minute)}}, guard.Verdict{
			Text: "7 of the 12 service instances that were applied within the last 15m are gone (1 since the last apply: web-05), and max_removed_percent is 50", Until: noon.Add(14 * time.Minute)}},
		{"a number", with(func(s *guard.Spec) { s.MaxRemoved = ptr(10) }), 55, 49, state.Peaks{{Count: 60, Until: ago(time.Minute)}}, guard.Verdict{
			Text: "11 of the 60 service instances that were applied within the last 15m are gone (6 since the last apply: web-49, web-50, web-51, web-52, web-53 and 1 more), and max_removed is 10", Until: noon.Add(14 * time.Minute)}},
	} {
		of := source("service instances", entries(0, c.applied), entries(0, c.now))
		of.Peaks = c.peaks
		if diff := cmp.Diff(c.want, c.spec.Input([]guard.Source{of}, noon)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestInput_TwoSourcesArePermittedWhenBothAre(t *testing.T) {
	of := func(until time.Time) guard.Source {
		s := source("keys", entries(0, 30), entries(0, 25))
		s.Peaks = state.Peaks{{Count: 60, Until: until}}
		return s
	}
	if v := guard.Default.Input([]guard.Source{of(ago(time.Minute)), of(ago(2 * time.Minute))}, noon); !v.Until.Equal(noon.Add(14 * time.Minute)) {
		t.Errorf("%+v", v)
	}
	if v := guard.Default.Input([]guard.Source{of(ago(time.Minute)), source("services", entries(0, 30), nil)}, noon); !v.Until.IsZero() || v.Text == "" {
		t.Errorf("%+v", v)
	}
}

// Whatever was applied when: Until is the first time at which the same change is not held.
func TestInput_UntilIsWhenTheChangeIsPermitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count, p := 100, state.Peaks(nil)
		for range rapid.IntRange(0, 6).Draw(t, "peaks") {
			next := rapid.IntRange(0, count).Draw(t, "count")
			until := ago(time.Duration(rapid.IntRange(0, 20*60).Draw(t, "ago")) * time.Second)
			p, count = p.Replaced(count, next, until, ago(time.Hour)), next
		}
		of := source("keys", entries(0, count), entries(0, rapid.IntRange(0, count).Draw(t, "now")))
		of.Peaks = p
		v := guard.Default.Input([]guard.Source{of}, noon)
		if v.Until.IsZero() {
			if later := guard.Default.Input([]guard.Source{of}, noon.Add(time.Hour)); (later.Text == "") != (v.Text == "") {
				t.Fatalf("held for ever: %+v, and in an hour %+v", v, later)
			}
			return
		}
		if before := guard.Default.Input([]guard.Source{of}, v.Until.Add(-time.Millisecond)); before.Text == "" {
			t.Fatalf("%+v is permitted before", v)
		}
		if then := guard.Default.Input([]guard.Source{of}, v.Until); then.Text != "" {
			t.Fatalf("%+v is held then: %+v", v, then)
		}
	})
}

// had are 50 resources that the state had some time ago, before an apply that was to replace some.
func had(ago time.Duration, replaces int) state.Sizes {
	return state.Sizes{Latest: &state.Begun{InState: ptr(50), Replaces: replaces, State: "s/1", Until: noon.Add(-ago)}}
}

func TestPlan_ComparesWithTheMostThatTheStateHadWithinTheWindow(t *testing.T) {
	most := with(func(s *guard.Spec) { s.MaxDestroy = ptr(5) })
	percent := with(func(s *guard.Spec) { s.MaxDestroyPercent = ptr(50) })
	alone := with(func(s *guard.Spec) { s.MaxDestroy, s.Within = ptr(5), 0 })
	for _, c := range []struct {
		name                string
		spec                guard.Spec
		destroyed, resource int
		state               string
		sizes               state.Sizes
		want                guard.Verdict
	}{
		{"as many as permitted", most, 2, 47, "s/2", had(time.Minute, 0), guard.Verdict{}},
		{"one more", most, 3, 47, "s/2", had(time.Minute, 0), guard.Verdict{
			Text: "6 of 50 resources would be destroyed or replaced within 15m, 3 of them by this plan, and max_destroy is 5", Until: noon.Add(14 * time.Minute)}},
		{"the plan destroys nothing", most, 0, 20, "s/2", had(time.Minute, 0), guard.Verdict{}},
		{"each plan alone", alone, 5, 45, "s/2", had(time.Minute, 0), guard.Verdict{}},
		{"long ago", most, 5, 45, "s/2", had(15*time.Minute, 0), guard.Verdict{}},
		{"the rest of what an apply has begun", most, 2, 47, "s/2", had(time.Minute, 0), guard.Verdict{}},
		{"what was lost is there again", most, 5, 50, "s/2", had(time.Minute, 0), guard.Verdict{}},
		{"an earlier apply has perhaps replaced some", most, 3, 50, "s/2", had(time.Minute, 3), guard.Verdict{
			Text: "6 of 53 resources would be destroyed or replaced within 15m, 3 of them by this plan, and max_destroy is 5", Until: noon.Add(14 * time.Minute)}},
		{"an earlier apply has replaced nothing: the state is the same", most, 3, 50, "s/1", had(time.Minute, 3), guard.Verdict{}},
		{"time does not permit it", most, 6, 47, "s/2", had(time.Minute, 0), guard.Verdict{
			Text: "9 of 50 resources would be destroyed or replaced within 15m, 6 of them by this plan, and max_destroy is 5"}},
		{"half of what there was", percent, 5, 30, "s/2", had(time.Minute, 0), guard.Verdict{}},
		{"more than half of what there was", percent, 6, 30, "s/2", had(time.Minute, 0), guard.Verdict{
			Text: "26 of 50 resources would be destroyed or replaced within 15m, 6 of them by this plan, and max_destroy_percent is 50", Until: noon.Add(14 * time.Minute)}},
	} {
		plan := guard.Planned{Changes: state.Changes{Destroy: c.destroyed}, InState: &c.resource, State: c.state}
		if diff := cmp.Diff(c.want, c.spec.Plan(plan, c.sizes, noon)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestLimits_ShowBaseAndWindow(t *testing.T) {
	spec := with(func(s *guard.Spec) { s.MaxDestroy = ptr(5) })
	limits := spec.Limits(guard.Known{Now: noon, Waiting: &guard.Planned{Changes: state.Changes{Destroy: 4}, InState: ptr(47), State: "s/2"}, Had: had(time.Minute, 0),
		Counts: []state.Count{{Of: "keys", Applied: 30, Now: 25, Peaks: state.Peaks{{Count: 60, Until: ago(time.Minute)}}}}})
	want := []string{"at most 50 % of the keys, which is 30, may go within 15m: 60 were applied within the last 15m, 30 were applied last, 25 are there now",
		`the guard lets the last entry go: on_empty is "apply"`,
		"plans within 15m may destroy or replace at most 5 resources: the plan that waits would destroy or replace 4, and 3 were before it"}
	for i, l := range limits {
		if l.Text != want[i] || l.Exceeded == (l.Key == "on_empty") {
			t.Errorf("%+v, want %s", l, want[i])
		}
	}
	if limits[0].Base != 60 {
		t.Errorf("%+v", limits[0])
	}
}
