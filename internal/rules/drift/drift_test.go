package drift

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func value[T string | bool | int | time.Duration | []string | map[string]string](v T) block.Value[T] {
	return block.Value[T]{Origin: block.Origin{Set: true}, V: v, Text: fmt.Sprint(v)}
}

func TestNext_IntervalIsSpreadByTheNameOfTheTask(t *testing.T) {
	s := Spec{Enabled: true, Every: 24 * time.Hour}
	hours := map[int]int{}
	for i := range 1000 {
		hours[s.Next(fmt.Sprintf("task-%d", i), noon, noon, 0).Hour()]++
	}
	if len(hours) != 24 {
		t.Errorf("1,000 tasks are checked in %d hours of the day", len(hours))
	}
	for hour, n := range hours {
		if n > 100 {
			t.Errorf("%d of 1,000 tasks are checked in hour %d", n, hour)
		}
	}
}

func TestNext_EachIntervalHasOneCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{Enabled: true, Every: time.Duration(rapid.Int64Range(int64(time.Minute), int64(1000*time.Hour)).Draw(t, "every"))}
		task := rapid.String().Draw(t, "task")
		after := noon.Add(time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "after")))
		next := s.Next(task, after, after, 0)
		if wait := next.Sub(after); wait <= 0 || wait > s.Every {
			t.Fatalf("the check after %s is due at %s", after, next)
		}
		if later := s.Next(task, next, next, 0); later.Sub(next) != s.Every {
			t.Fatalf("after the check at %s the next is due at %s", next, later)
		}
		late := next.Add(time.Duration(rapid.Int64Range(0, int64(s.Every)-1).Draw(t, "late")))
		if later := s.Next(task, late, late, 0); later.Sub(next) != s.Every {
			t.Fatalf("a check that is late moves the next one to %s", later)
		}
	})
}

func TestNext_ScheduleIsReadInItsTimeZone(t *testing.T) {
	r := block.Report{Now: noon}
	k := Keys{Schedule: value("0 3 * * *"), TimeZone: value("Europe/Berlin")}
	k.Set = true
	s := k.Spec(&r, Default)
	if next := s.Next("web", noon, noon, 0); len(r.Errors) > 0 || !next.Equal(time.Date(2026, 7, 2, 1, 0, 0, 0, time.UTC)) {
		t.Errorf("due at %s: %v", next, r.Errors)
	}
	task := Keys{Action: value("apply")}
	if s = task.Spec(&r, s); s.Action != Apply || !s.Next("web", noon, noon, 0).Equal(time.Date(2026, 7, 2, 1, 0, 0, 0, time.UTC)) {
		t.Errorf("a task that sets the action alone has %+v", s)
	}
}

func TestNext_TimeOfAWrongClockDelaysNoCheck(t *testing.T) {
	for _, s := range []Spec{{Enabled: true, Every: time.Hour}, {Enabled: true, Every: 24 * time.Hour}} {
		if next := s.Next("web", noon.AddDate(10, 0, 0), noon, 30*time.Second); !next.Equal(noon) {
			t.Errorf("due at %s", next)
		}
		if next := s.Next("web", noon.Add(20*time.Second), noon, 30*time.Second); !next.After(noon.Add(20 * time.Second)) {
			t.Errorf("a clock that is as far ahead as clocks may be: due at %s", next)
		}
	}
	if next := Default.Next("web", noon, noon, 0); !next.IsZero() {
		t.Errorf("without drift blocks a check is due at %s", next)
	}
}

func TestSpec_ScheduleAndIntervalReplaceEachOther(t *testing.T) {
	global := Keys{Origin: block.Origin{Set: true}, Schedule: value("@daily"), TimeZone: value("UTC")}
	r := block.Report{Now: noon}
	daily := global.Spec(&r, Default)
	hourly := Keys{Every: value(time.Hour)}
	off := Keys{Enabled: value(false)}
	for _, tt := range []struct {
		name string
		got  Spec
		want Spec
	}{
		{"an empty block", (&Keys{Origin: block.Origin{Set: true}}).Spec(&r, Default), Spec{Enabled: true, Every: 24 * time.Hour, Action: Report}},
		{"a schedule", daily, Spec{Enabled: true, Schedule: "@daily", TimeZone: "UTC", Action: Report}},
		{"a task without a block", new(Keys).Spec(&r, daily), daily},
		{"a task with an interval", hourly.Spec(&r, daily), Spec{Enabled: true, Every: time.Hour, Action: Report}},
		{"a task that is not checked", off.Spec(&r, daily), Spec{Schedule: "@daily", TimeZone: "UTC", Action: Report}},
	} {
		if !tt.got.Same(tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, tt.got, tt.want)
		}
	}
	if len(r.Errors) > 0 {
		t.Error(r.Errors)
	}
}
