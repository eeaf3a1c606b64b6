package guard_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
)

// entries are the names web-FROM to web-(TO-1).
func entries(from, to int) map[string]string {
	all := map[string]string{}
	for i := from; i < to; i++ {
		all[fmt.Sprintf("web-%02d", i)] = "digest"
	}
	return all
}

// source is one that had the applied entries and has others now.
func source(name string, applied, now map[string]string) guard.Source {
	s := guard.Source{Count: state.Count{Of: name, Applied: len(applied), Now: len(now)}}
	count := func(action state.EntryAction, of, without map[string]string) {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if _, there := without[name]; !there {
				names = append(names, name)
			}
		}
		s.Changes.Count(action, names, func(string) state.EntryChange { return state.EntryChange{Group: "web"} })
	}
	count(state.EntryRemoved, applied, now)
	count(state.EntryAdded, now, applied)
	return s
}

func with(change func(*guard.Spec)) guard.Spec {
	s := guard.Default
	change(&s)
	return s
}

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func ptr(n int) *int { return &n }

func TestInput_LimitsHowManyEntriesMayGoAtOnce(t *testing.T) {
	for _, c := range []struct {
		name         string
		spec         guard.Spec
		applied, now map[string]string
		want         string
	}{
		{"nothing was applied", guard.Default, nil, entries(0, 60), ""},
		{"half is left", guard.Default, entries(0, 60), entries(0, 30), ""},
		{"less than half is left", guard.Default, entries(0, 60), entries(0, 29),
			"31 of 60 service instances are gone: web-29, web-30, web-31, web-32, web-33 and 26 more, and max_removed_percent is 50"},
		{"all were replaced", guard.Default, entries(0, 60), entries(60, 120), ""},
		{"most went and some came", guard.Default, entries(0, 20), entries(18, 24),
			"18 of 20 service instances are gone (4 are new): web-00, web-01, web-02, web-03, web-04 and 13 more, and max_removed_percent is 50"},
		{"few entries", guard.Default, entries(0, 9), nil, ""},
		{"10 entries, 4 left", guard.Default, entries(0, 10), entries(0, 4),
			"6 of 10 service instances are gone: web-04, web-05, web-06, web-07, web-08 and 1 more, and max_removed_percent is 50"},
		{"off", with(func(s *guard.Spec) { s.Enabled = false }), entries(0, 60), nil, ""},
		{"a number, of few entries", with(func(s *guard.Spec) { s.MaxRemoved = ptr(2) }), entries(0, 5), entries(0, 2),
			"3 of 5 service instances are gone: web-02, web-03, web-04, and max_removed is 2"},
		{"none may go", with(func(s *guard.Spec) { s.MaxRemoved = ptr(0) }), entries(0, 5), entries(0, 4),
			"1 of 5 service instances are gone: web-04, and max_removed is 0"},
		{"empty", with(func(s *guard.Spec) { s.HoldEmpty = true }), entries(0, 1), nil,
			`1 of 1 service instances are gone: web-00, and on_empty is "hold"`},
		{"all may go", with(func(s *guard.Spec) { s.MaxRemovedPercent = 100 }), entries(0, 60), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.spec.Input([]guard.Source{source("service instances", c.applied, c.now)}, noon).Text
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestInput_HoldsIfAndOnlyIfALimitIsExceeded compares Input with the limits' definition.
func TestInput_HoldsIfAndOnlyIfALimitIsExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Custom(func(t *rapid.T) *int {
			if rapid.Bool().Draw(t, "unlimited") {
				return nil
			}
			return ptr(rapid.IntRange(0, 30).Draw(t, "limit"))
		})
		s := guard.Spec{
			Enabled: rapid.IntRange(0, 5).Draw(t, "enabled") > 0, MaxRemovedPercent: rapid.IntRange(0, 100).Draw(t, "percent"),
			MinEntries: rapid.IntRange(0, 20).Draw(t, "min"), MaxRemoved: limit.Draw(t, "max"), HoldEmpty: rapid.Bool().Draw(t, "empty"),
		}
		applied, from := rapid.IntRange(0, 40).Draw(t, "applied"), rapid.IntRange(0, 40).Draw(t, "from")
		now := rapid.IntRange(0, 40).Draw(t, "now")
		fewer := applied - now
		want := s.Enabled && fewer > 0 && (s.MaxRemoved != nil && fewer > *s.MaxRemoved ||
			applied >= s.MinEntries && float64(fewer)/float64(applied) > float64(s.MaxRemovedPercent)/100 ||
			s.HoldEmpty && now == 0)
		got := s.Input([]guard.Source{source("keys", entries(0, applied), entries(from, from+now))}, noon).Text
		if (got != "") != want {
			t.Fatalf("%+v: of %d entries %d are left: %q, held must be %v", s, applied, now, got, want)
		}
	})
}

func TestInput_JudgesEachSourceByItself(t *testing.T) {
	got := guard.Default.Input([]guard.Source{
		source("keys", entries(0, 1000), entries(0, 1000)),
		source("service instances", entries(0, 20), entries(0, 3)),
	}, noon)
	if got.Text == "" {
		t.Error("a source with many entries hides that most of another are gone")
	}
}

func TestPlan_WhatIsNotKnownExceedsEachLimit(t *testing.T) {
	number := with(func(s *guard.Spec) { s.MaxDestroy = ptr(1000) })
	percent := with(func(s *guard.Spec) { s.MaxDestroyPercent = ptr(99) })
	const unsaid = "the plan does not say how many resources it destroys or replaces, and "
	for _, c := range []struct {
		spec    guard.Spec
		plan    state.Changes
		inState *int
		want    string
	}{
		{number, state.Changes{Unknown: true}, ptr(10), unsaid + "max_destroy is 1000"},
		{percent, state.Changes{Unknown: true}, ptr(10), unsaid + "max_destroy_percent is 99"},
		{percent, state.Changes{Destroy: 1}, nil, "1 resource would be destroyed or replaced, and max_destroy_percent is 99, but it is not known how many resources the state has"},
		{number, state.Changes{Destroy: 1}, nil, "1 resource would be destroyed or replaced, and max_destroy is 1000, but it is not known how many resources the state has, and so not how many it has lost within 15m"},
		{with(func(s *guard.Spec) { s.MaxDestroy, s.Within = ptr(1000), 0 }), state.Changes{Destroy: 1}, nil, ""},
		{percent, state.Changes{Destroy: 2}, ptr(0), "2 resources would be destroyed or replaced, and max_destroy_percent is 99, but it is not known how many resources the state has"},
		{percent, state.Changes{Add: 1}, nil, ""},
		{guard.Default, state.Changes{Unknown: true}, nil, ""},
		{with(func(s *guard.Spec) { s.MaxDestroy, s.Enabled = ptr(0), false }), state.Changes{Unknown: true}, nil, ""},
	} {
		if got := c.spec.Plan(guard.Planned{Changes: c.plan, InState: c.inState}, state.Sizes{}, noon).Text; got != c.want {
			t.Errorf("%+v: %+v: %q, want %q", c.spec, c.plan, got, c.want)
		}
	}
}

func TestPlan_LimitsWhatMayBeDestroyed(t *testing.T) {
	for _, c := range []struct {
		spec               guard.Spec
		destroyed, inState int
		want               string
	}{
		{guard.Default, 100, 100, ""},
		{with(func(s *guard.Spec) { s.MaxDestroy = ptr(5) }), 5, 100, ""},
		{with(func(s *guard.Spec) { s.MaxDestroy = ptr(5) }), 6, 100, "6 of 100 resources would be destroyed or replaced, and max_destroy is 5"},
		{with(func(s *guard.Spec) { s.MaxDestroy = ptr(0) }), 0, 100, ""},
		{with(func(s *guard.Spec) { s.MaxDestroyPercent = ptr(10) }), 10, 100, ""},
		{with(func(s *guard.Spec) { s.MaxDestroyPercent = ptr(10) }), 11, 100, "11 of 100 resources would be destroyed or replaced, and max_destroy_percent is 10"},
		{with(func(s *guard.Spec) { s.MaxDestroy, s.Enabled = ptr(0), false }), 6, 100, ""},
	} {
		if got := c.spec.Plan(guard.Planned{Changes: state.Changes{Destroy: c.destroyed}, InState: &c.inState}, state.Sizes{}, noon).Text; got != c.want {
			t.Errorf("%+v: %d of %d: %q, want %q", c.spec, c.destroyed, c.inState, got, c.want)
		}
		if needed := c.spec.Enabled && (c.spec.MaxDestroy != nil || c.spec.MaxDestroyPercent != nil); c.spec.PlanLimited() != needed {
			t.Errorf("%+v: a plan is needed: %v", c.spec, c.spec.PlanLimited())
		}
	}
}
