// Package statetest contains the contract of state.Store as tests for every implementation, and a
// Store that counts requests and fails on demand.
package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Test runs the tests of the contract. create makes a new, empty store and returns a function that
// opens a handle on it; every handle must behave like that of another process. Test closes the
// handles.
func Test(t *testing.T, create func(t *testing.T) (open func() state.Store)) {
	contract := map[string]func(*testing.T, func() state.Store){
		"a change of an earlier version is refused":             staleRefused,
		"a list is in key order":                                list,
		"the last records come first":                           last,
		"a long list is complete":                               longList,
		"several records are read by their keys":                several,
		"an expired record can be replaced until it is removed": expired,
		"a record replaced without expiry does not expire":      expiryIsForgotten,
		"no increment is lost":                                  increments,
		"one of many creators succeeds":                         creators,
		"the largest changes fit":                               largest,
		"too many changes are refused":                          tooMuch,
		"malformed keys are refused and named":                  malformedKeys,
		"an ended context ends a request":                       endedContext,
		"any history agrees with a map":                         agreesWithModel,
	}
	for name, test := range contract {
		t.Run(name, func(t *testing.T) {
			open := create(t)
			test(t, func() state.Store {
				s := open()
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				})
				return s
			})
		})
	}
}

func apply(t testing.TB, s state.Store, changes ...state.Change) []state.Record {
	t.Helper()
	records, err := s.Apply(context.Background(), changes...)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if len(records) != len(changes) {
		t.Fatalf("%d changes returned %d records", len(changes), len(records))
	}
	return records
}

func create(t testing.TB, s state.Store, key, value string) state.Record {
	t.Helper()
	return apply(t, s, state.Create(key, []byte(value)))[0]
}

func expect(t testing.TB, s state.Store, want state.Record) {
	t.Helper()
	got, err := s.Get(context.Background(), want.Key)
	if err != nil {
		t.Fatalf("get %s: %v", want.Key, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("get %s (-want +got):\n%s", want.Key, diff)
	}
}

// Each of the conditions of a change is refused for a version that was replaced, removed or created
// again, which never has an earlier version.
func staleRefused(t *testing.T, open func() state.Store) {
	s := open()
	for name, change := range map[string]func(state.Record) state.Change{
		"replace": func(r state.Record) state.Change { return state.Replace(r, []byte("x")) }, "delete": state.Delete, "check": state.Check,
	} {
		key := "task/" + name
		read := create(t, s, key, "read")
		now := apply(t, s, state.Replace(read, []byte("changed")))[0]
		expectConflict(t, s, &now, change(read))
		apply(t, s, state.Delete(now))
		expectConflict(t, s, nil, change(now))
		anew := create(t, s, key, "read")
		expectConflict(t, s, &anew, change(read))
		expectConflict(t, s, &anew, change(now))
		expectConflict(t, s, &anew, state.Create(key, nil))
		expect(t, s, anew)
	}
}

func expectConflict(t testing.TB, s state.Store, current *state.Record, change state.Change) {
	t.Helper()
	_, err := s.Apply(context.Background(), change)
	var refused *state.ConflictError
	if !errors.As(err, &refused) || !cmp.Equal(current, refused.Current) {
		t.Errorf("%+v: %v, want a conflict with %v", change, err, current)
	}
}

// A list is in the order of bytes, not of words.
func list(t *testing.T, open func() state.Store) {
	s := open()
	keys := []string{"run/A", "run/B", "run/a", "run/a-1", "run/a.1", "run/a/1", "run/a0", "run/aa", "run/b%", "run/b_", "run/bb", "run/~"}
	others := []string{"ru/a", "runs/a", "run!/a", "run0/a", "RUN/a"}
	for _, i := range rand.Perm(len(keys)) {
		create(t, s, keys[i], "")
	}
	for _, key := range others {
		create(t, s, key, "")
	}
	got, err := s.List(context.Background(), "run/")
	var listed []string
	for _, r := range got {
		listed = append(listed, r.Key)
	}
	if diff := cmp.Diff(keys, listed); err != nil || diff != "" {
		t.Errorf("list: %v (-want +got):\n%s", err, diff)
	}
}

// Last has what List has, from its end. Stores that read no more than that return no more than n records.
func last(t *testing.T, open func() state.Store) {
	s := open()
	var keys []string
	for i := range 30 {
		key := fmt.Sprintf("run/%c/%02d", 'a'+i/10, i)
		create(t, s, key, "")
		keys = append(keys, key)
	}
	create(t, s, "runs/a", "")
	_, backward := s.(state.Backward)
	for _, tt := range []struct {
		prefix, before string
		n              int
		want           []string // all that Last may return, in key order
	}{
		{"run/", "", 7, keys},
		{"run/", "", 100, keys},
		{"run/", keys[12], 5, keys[:12]},
		{"run/", "run/b/12-", 5, keys[:13]}, // no record
		{"run/", keys[0], 5, nil},
		{"run/b", "", 3, keys[10:20]},
		{"run/b/1", keys[13], 2, keys[10:13]},
		{"run/b", "run/b/", 2, nil},
		{"run/x", "", 2, nil},
	} {
		got, err := state.Last(context.Background(), s, tt.prefix, tt.before, tt.n)
		want := tt.want
		if backward {
			want = want[max(0, len(want)-tt.n):]
		}
		var listed []string
		for _, r := range slices.Backward(got) {
			listed = append(listed, r.Key)
		}
		if !slices.Equal(listed, want) || err != nil {
			t.Errorf("the last %d of %s before %q: %q, %v; want %q", tt.n, tt.prefix, tt.before, listed, err, want)
		}
	}
}

// More records are read by their keys than any store takes in one request; those that do not exist are left out.
func several(t *testing.T, open func() state.Store) {
	s := open()
	want := map[string]state.Record{}
	var keys []string
	for i := range 250 {
		key := fmt.Sprintf("task/%03d", i)
		if keys = append(keys, key); i%5 > 0 {
			want[key] = create(t, s, key, key)
		}
	}
	want["run/a/1"] = apply(t, s, state.Create("run/a/1", []byte{0x1f, 0x8b, 0xff, 0}))[0]
	create(t, s, "task/other", "not read")
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	got, err := state.GetSeveral(context.Background(), open(), append(keys, "run/a/1", keys[0]))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := state.GetSeveral(context.Background(), s, nil); err != nil || len(got) != 0 {
		t.Errorf("no keys: %v, %v", got, err)
	}
	if _, err := state.GetSeveral(context.Background(), s, []string{"task/001", "task"}); err == nil {
		t.Error("a malformed key is accepted")
	}
}

// longList is longer than a page of any store (DynamoDB's is 1 MB).
func longList(t *testing.T, open func() state.Store) {
	s := open()
	var want []state.Record
	for i := range 24 {
		want = append(want, apply(t, s, state.Create(fmt.Sprintf("large/%02d", i), bytes.Repeat([]byte{byte(i)}, 100<<10)))...)
	}
	if got, err := s.List(context.Background(), "large/"); err != nil || !reflect.DeepEqual(want, got) {
		t.Errorf("%d records, %v; want %d as they were written", len(got), err, len(want))
	}
}

// Expired records may stay or be removed. The next write must succeed in both cases.
func expired(t *testing.T, open func() state.Store) {
	s := open()
	r := apply(t, s, state.Create("run/old", []byte("old")).Until(time.Now().Add(-time.Hour)))[0]
	create(t, s, "run/other", "x")
	got, err := s.Get(context.Background(), "run/old")
	switch {
	case errors.Is(err, state.ErrNotFound):
		create(t, s, "run/old", "new")
	case err != nil:
		t.Fatal(err)
	case !cmp.Equal(r, got):
		t.Errorf("the record is %+v, want %+v", got, r)
	}
}

func expiryIsForgotten(t *testing.T, open func() state.Store) {
	s := open()
	end := time.Now().Add(20 * time.Millisecond)
	r := apply(t, s, state.Create("run/kept", []byte("a")).Until(end))[0]
	r = apply(t, s, state.Replace(r, []byte("b")))[0]
	time.Sleep(time.Until(end))
	create(t, s, "run/other", "x")
	expect(t, s, r)
}

func endedContext(t *testing.T, open func() state.Store) {
	s := open()
	r := create(t, s, "task/a", "a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Get(ctx, "task/a"); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.List(ctx, "task/"); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	if _, err := state.GetSeveral(ctx, s, []string{"task/a", "task/b"}); !errors.Is(err, context.Canceled) {
		t.Errorf("get several: %v", err)
	}
	if _, err := s.Apply(ctx, state.Replace(r, []byte("b"))); !errors.Is(err, context.Canceled) {
		t.Errorf("apply: %v", err)
	}
	expect(t, s, r)
}
