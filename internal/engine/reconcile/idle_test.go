package reconcile

import (
	"reflect"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// An idle tick writes nothing: a field that it does not compare may be out of date until another tick. So each field
// is compared, or stands here with the reason why it is not.
func TestIdle_EveryFieldOfTheRecordIsCompared(t *testing.T) {
	for of, test := range map[string]struct {
		in   func(*state.Reconcile) any
		left map[string]string
	}{
		"the record": {func(r *state.Reconcile) any { return r }, map[string]string{
			"Overrides":   "the configuration is read with these overrides, and Config is its digest",
			"LastSuccess": "refreshEvery is shorter than the silence that is unhealthy",
			"Stalled":     "Due is then the time of the tick",
			"Unplaced":    "a run under way makes a tick due",
			"Failing":     "counted from tasks, whose changes make a tick due",
			"Tasks":       "counted from tasks, whose changes make a tick due",
			"Consuls":     "read with the views",
			"Replaced":    "read with the views; an approval makes a tick due",
			"Paused":      "who pauses makes a tick due",
			"Resumed":     "who resumes makes a tick due",
			"Remote":      "idle compares it if another system has news; polls are due",
			"Unreadable":  "a condition that cannot be read makes a tick due",
			"Unpolled":    "a poll makes a tick due",
			"LeftOut":     "read with the views",
			"Delivered":   "removed later, with other records",
			"Events":      "a number that the next event needs",
		}},
		"the sight": {func(r *state.Reconcile) any { return &r.Sight }, map[string]string{
			"Since":     "of ConsulError and ConsulUnreachable, which are compared",
			"Concerned": "counted from tasks, whose changes make a tick due",
		}},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(test.in(new(state.Reconcile))).Elem()) {
			if f.Anonymous || len(f.Index) > 1 {
				continue
			}
			b := newBench(t, tasks(1)...)
			b.settle()
			if !b.tick().Idle {
				t.Fatal("a tick is not idle although nothing has changed")
			}
			rec, err := state.ReadReconcile(t.Context(), b.store)
			b.must(err)
			next := rec.Data
			other(t, reflect.ValueOf(test.in(&next)).Elem().FieldByIndex(f.Index), b.now)
			b.must(b.store.Apply(t.Context(), rec.Write(next)))
			report, err := b.Tick(t.Context(), TickOptions{})
			idle := err == nil && report.Idle
			if _, listed := test.left[f.Name]; idle != listed {
				t.Errorf("%s: with another %s, a tick is idle: %v", of, f.Name, idle)
			}
		}
	}
}

// other makes a value another one; a time is long ago.
func other(t *testing.T, v reflect.Value, now time.Time) {
	t.Helper()
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(now.Add(-24 * time.Hour)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		other(t, v.Elem(), now)
	case reflect.Struct:
		for i := range v.NumField() {
			other(t, v.Field(i), now)
		}
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
	case reflect.Map:
		into := reflect.MakeMap(v.Type())
		for _, key := range append(v.MapKeys(), reflect.ValueOf("new")) {
			value := reflect.New(v.Type().Elem()).Elem()
			other(t, value, now)
			into.SetMapIndex(key, value)
		}
		v.Set(into)
	default:
		t.Fatalf("no other value of type %s", v.Type())
	}
}
