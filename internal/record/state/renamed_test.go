package state

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// filled sets every field of a value to something.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(2)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				filled(v.Field(i))
			}
		}
	}
}

// Everything that a record of a task has moves to its new name, or is named here: a new field
// needs a decision.
func TestRename_EveryFieldMovesOrIsNamed(t *testing.T) {
	anew := []string{"Reason", "Due", "Observed.UnreadableSince", "Observed.Recheck", "Drift", "OnRemoval", "Forced.Replaces"} // judged, read or kept anew
	stays := []string{"Ended.IDs", "Ended.Recent", "Events", "Gone", "Run"}                                                    // under the former name
	both := []string{"Renamed"}                                                                                                // perhaps the former name comes back
	renamed := []string{"Applied.Definition", "Attempted.Definition", "Stop", "Accepted", "Ended.Last", "Former"}              // see below
	var from Task
	filled(reflect.ValueOf(&from).Elem())
	from.Failing.RetryAt = time.Date(2026, 11, 24, 12, 0, 1, 0, time.UTC)
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	next, left := Rename{From: "old", To: "new", Was: "x", Is: "y", At: at}.Take(from, Task{Events: 3})
	was, is, former := reflect.ValueOf(from), reflect.ValueOf(next), reflect.ValueOf(left)
	for _, field := range FieldsOf(was.Type()) {
		name, i := field.Name, field.Index
		moves := reflect.DeepEqual(was.FieldByIndex(i).Interface(), is.FieldByIndex(i).Interface())
		switch listed := field.In(slices.Concat(anew, stays, renamed)); {
		case !listed && !moves:
			t.Errorf("%s does not move: %v", name, is.FieldByIndex(i))
		case !listed && !field.In(both) && !former.FieldByIndex(i).IsZero():
			t.Errorf("%s is under both names", name)
		case field.In(stays) && moves && name != "Run":
			t.Errorf("%s moves", name)
		}
	}
	def := Attempt{Definition: "y", Observed: "x"}
	if next.Applied.Definition != "y" || next.Attempted != def || next.Stop.For != def || next.Accepted.For() != def || !next.Stop.Next {
		t.Errorf("the same definition under the new name: %+v", next)
	}
	if next.Ended.Last.Task != "x" || !slices.Equal(next.Former.Moving, []string{"old", "x"}) || next.Former.Moved != nil || next.Events != 3 {
		t.Errorf("%+v", next)
	}
	if left.Gone.MovedTo != "new" || !left.Gone.Final || !left.Gone.Since.Equal(at) || left.Ended.Last == nil || len(left.Ended.IDs) != 1 {
		t.Errorf("what is left: %+v", left)
	}
}

func TestRename_AnotherDefinitionEndsWhatAppliesToTheFormerOne(t *testing.T) {
	from := Task{Applied: Applied{Definition: "d1"}, Stops: Stops{Stop: &Stop{Code: ReasonHeld, For: Attempt{Definition: "d1", Observed: "A"}}}}
	next, _ := Rename{From: "old", To: "new", Was: "d2", Is: "d3"}.Take(from, Task{})
	if next.Applied.Definition != "d1" || next.Stop.For.Definition != "d1" {
		t.Errorf("a definition that has changed counts as the same: %+v", next)
	}
}

func TestRename_WhatWasSaidOfTheNewNameCountsMore(t *testing.T) {
	from := Task{Stops: Stops{OnHold: &OnHold{By: "ann"}}, Requests: Requests{Forced: Forced{By: "ann"}}, Failing: Failing{RetryAt: time.Date(2026, 11, 24, 13, 0, 0, 0, time.UTC), Count: 2}, Naming: Naming{Former: Former{Moving: []string{"new", "first"}}}}
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	next, _ := Rename{From: "old", To: "new", At: at}.Take(from, Task{Stops: Stops{OnHold: &OnHold{By: "bob"}, Stop: &Stop{Code: ReasonHeld, Next: true}}, Requests: Requests{Forced: Forced{By: "bob"}}, Ended: Ended{IDs: []string{"r0"}}})
	if next.OnHold.By != "bob" || next.Forced.By != "bob" || !next.Stop.Next || !slices.Equal(next.Ended.IDs, []string{"r0"}) || !slices.Equal(next.Former.Moving, []string{"old", "first"}) {
		t.Errorf("%+v", next)
	}
	if limit := at.Add(Backoff("new", 2)); !next.Failing.RetryAt.Equal(limit) {
		t.Errorf("the next attempt is at %s, which is more than the backoff of the new name: %s", next.Failing.RetryAt, limit)
	}
}

// The task has had that name before: its run under it moved the state, and could not save it. A run elsewhere would
// move the older state once more.
func TestRename_StateThatAnEarlierMoveCouldNotSaveIsKept(t *testing.T) {
	left := &Unsaved{Run: "r1", Instance: true, Runner: "cts-01", Place: "errored.tfstate"}
	next, _ := Rename{From: "old", To: "new"}.Take(Task{}, Task{Stops: Stops{Unsaved: left}})
	if by := next.Keeper(); by != "cts-01" {
		t.Errorf("the next run is for %q, and cts-01 keeps the latest state", by)
	}
	later := &Unsaved{Run: "r2", Instance: true, Runner: "cts-02", Place: "errored.tfstate"}
	if next, _ = (Rename{From: "old", To: "new"}).Take(Task{Stops: Stops{Unsaved: later}}, Task{Stops: Stops{Unsaved: left}}); next.Unsaved != later {
		t.Errorf("the state that the former name keeps is not taken along: %+v", next.Unsaved)
	}
}
