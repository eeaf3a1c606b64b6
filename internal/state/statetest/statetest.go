// Package statetest contains the contract of state.Store as tests for every implementation, and a
// Store that fails on demand.
package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/terrapulse/terrapulse/internal/state"
)

// Test runs the tests of the contract. create makes a new, empty store and returns a function that
// opens a handle on it; every handle must behave like that of another process. Test closes the
// handles.
func Test(t *testing.T, create func(t *testing.T) (open func() state.Store)) {
	contract := map[string]func(*testing.T, func() state.Store){
		"a written record is read":                              roundTrip,
		"values keep every byte":                                arbitraryBytes,
		"a missing record is not found":                         notFound,
		"create is refused if the record exists":                createRefused,
		"replace is refused if the record has changed":          staleRefused(state.Replace),
		"delete is refused if the record has changed":           staleRefused(func(r state.Record, _ []byte) state.Change { return state.Delete(r) }),
		"check is refused if the record has changed":            staleRefused(func(r state.Record, _ []byte) state.Change { return state.Check(r) }),
		"an unknown version is refused":                         strangeVersion,
		"all changes are made or none":                          allOrNone,
		"results are in the order of the changes":               resultOrder,
		"no changes are allowed":                                noChanges,
		"versions never repeat":                                 versionsNeverRepeat,
		"a list is in key order and has only its prefix":        list,
		"a long list is complete":                               longList,
		"an expired record can be replaced until it is removed": expired,
		"a record replaced without expiry does not expire":      expiryIsForgotten,
		"two handles see each other's writes":                   twoHandles,
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

func expectNone(t testing.TB, s state.Store, key string) {
	t.Helper()
	if r, err := s.Get(context.Background(), key); !errors.Is(err, state.ErrNotFound) {
		t.Fatalf("get %s: %v, %v; want no record", key, r, err)
	}
}

// expectConflict makes the changes and expects that the one of key is refused because of current,
// or because there is no record.
func expectConflict(t testing.TB, s state.Store, key string, current *state.Record, changes ...state.Change) {
	t.Helper()
	_, err := s.Apply(context.Background(), changes...)
	var refused *state.ConflictError
	if !errors.As(err, &refused) {
		t.Fatalf("apply: %v, want a ConflictError", err)
	}
	if refused.Change.Key != key {
		t.Errorf("the change of %s was refused, want %s", refused.Change.Key, key)
	}
	if diff := cmp.Diff(current, refused.Current); diff != "" {
		t.Errorf("the current record (-want +got):\n%s", diff)
	}
	if !strings.Contains(refused.Error(), key) {
		t.Errorf("the error does not name the record: %v", refused)
	}
}

func roundTrip(t *testing.T, open func() state.Store) {
	s := open()
	first := create(t, s, "task/a", "one")
	if first.Key != "task/a" || string(first.Value) != "one" || first.Version == "" {
		t.Fatalf("create returned %+v", first)
	}
	expect(t, s, first)

	second := apply(t, s, state.Replace(first, []byte("two")))[0]
	if string(second.Value) != "two" || second.Version == first.Version {
		t.Fatalf("replace of %+v returned %+v", first, second)
	}
	expect(t, s, second)

	if r := apply(t, s, state.Check(second))[0]; r.Key != "" {
		t.Errorf("check returned %+v, want no record", r)
	}
	expect(t, s, second)

	if r := apply(t, s, state.Delete(second))[0]; r.Key != "" {
		t.Errorf("delete returned %+v, want no record", r)
	}
	expectNone(t, s, "task/a")
}

func arbitraryBytes(t *testing.T, open func() state.Store) {
	s := open()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, value := range map[string][]byte{
		"none": nil, "zero": {0}, "every": all, "utf8": []byte("Zürich 東京\r\n"), "broken": {0xff, 0xfe, 0xc3},
	} {
		r := apply(t, s, state.Create("value/"+name, value))[0]
		got, err := s.Get(context.Background(), r.Key)
		if err != nil || !bytes.Equal(got.Value, value) {
			t.Errorf("%s: read %q, %v; want %q", name, got.Value, err, value)
		}
	}
}

func notFound(t *testing.T, open func() state.Store) {
	s := open()
	expectNone(t, s, "task/a")
	create(t, s, "task/a/b", "deeper")
	expectNone(t, s, "task/a")
	expectNone(t, s, "task/A/b")
}

func createRefused(t *testing.T, open func() state.Store) {
	s := open()
	there := create(t, s, "task/a", "there")
	expectConflict(t, s, "task/a", &there, state.Create("task/a", []byte("other")))
	expect(t, s, there)
}

func staleRefused(change func(state.Record, []byte) state.Change) func(*testing.T, func() state.Store) {
	return func(t *testing.T, open func() state.Store) {
		s := open()
		read := create(t, s, "task/a", "read")
		now := apply(t, s, state.Replace(read, []byte("changed")))[0]
		expectConflict(t, s, "task/a", &now, change(read, []byte("x")))
		expect(t, s, now)

		apply(t, s, state.Delete(now))
		expectConflict(t, s, "task/a", nil, change(now, []byte("x")))
		expectNone(t, s, "task/a")

		anew := create(t, s, "task/a", "read")
		expectConflict(t, s, "task/a", &anew, change(read, []byte("x")))
		expect(t, s, anew)
	}
}

func strangeVersion(t *testing.T, open func() state.Store) {
	s := open()
	there := create(t, s, "task/a", "there")
	for _, version := range []string{"0", "0" + there.Version, there.Version + " ", "-1", "nonsense", "99999999999999999999", "' OR 1=1"} {
		read := there
		read.Version = version
		expectConflict(t, s, "task/a", &there, state.Replace(read, []byte("x")))
		expectConflict(t, s, "task/a", &there, state.Check(read))
	}
}

func allOrNone(t *testing.T, open func() state.Store) {
	s := open()
	kept := create(t, s, "task/kept", "kept")
	gone := create(t, s, "task/gone", "gone")
	checked := create(t, s, "lease/x", "1")
	stale := checked
	checked = apply(t, s, state.Replace(checked, []byte("2")))[0]

	for at := range 4 {
		changes := []state.Change{
			state.Create("task/new", []byte("new")),
			state.Replace(kept, []byte("changed")),
			state.Delete(gone),
		}
		expectConflict(t, s, "lease/x", &checked, slices.Insert(changes, at, state.Check(stale))...)
		expectNone(t, s, "task/new")
		expect(t, s, kept)
		expect(t, s, gone)
	}
	apply(t, s, state.Create("task/new", []byte("new")), state.Replace(kept, []byte("changed")),
		state.Delete(gone), state.Check(checked))
	expectNone(t, s, "task/gone")
}

func resultOrder(t *testing.T, open func() state.Store) {
	s := open()
	old := create(t, s, "b/old", "old")
	seen := create(t, s, "c/seen", "seen")
	records := apply(t, s, state.Create("z/last", []byte("z")), state.Check(seen),
		state.Replace(old, []byte("b")), state.Create("a/first", []byte("a")))
	var keys []string
	for _, r := range records {
		keys = append(keys, r.Key)
		if r.Key != "" {
			expect(t, s, r)
		}
	}
	if diff := cmp.Diff([]string{"z/last", "", "b/old", "a/first"}, keys); diff != "" {
		t.Errorf("keys of the returned records (-want +got):\n%s", diff)
	}
}

func noChanges(t *testing.T, open func() state.Store) {
	if records, err := open().Apply(context.Background()); err != nil || len(records) != 0 {
		t.Errorf("apply of nothing: %v, %v", records, err)
	}
}

func versionsNeverRepeat(t *testing.T, open func() state.Store) {
	s := open()
	seen := map[string]bool{}
	note := func(r state.Record) {
		t.Helper()
		if seen[r.Version] {
			t.Fatalf("version %s came twice", r.Version)
		}
		seen[r.Version] = true
	}
	for range 5 {
		// The same value each time: a version is not a digest.
		r := create(t, s, "task/a", "same")
		note(r)
		r = apply(t, s, state.Replace(r, []byte("same")))[0]
		note(r)
		apply(t, s, state.Delete(r))
	}
	s = open()
	note(create(t, s, "task/a", "same"))
}

func list(t *testing.T, open func() state.Store) {
	s := open()
	// In byte order, not in the order of words.
	keys := []string{"run/A", "run/a", "run/a-1", "run/a.1", "run/a/1", "run/a/1/x", "run/a/2", "run/a0", "run/aa", "run/b%", "run/b_", "run/bb", "run/~", "run/~~"}
	var want []state.Record
	for _, k := range keys {
		want = append(want, create(t, s, k, k))
	}
	slices.SortFunc(want, func(a, b state.Record) int { return strings.Compare(a.Key, b.Key) })
	for _, k := range []string{"ru/a", "runs/a", "rum/a", "run!/a", "run0/a", "RUN/a"} {
		create(t, s, k, k)
	}
	for _, prefix := range []string{"run/", "run/a", "run/a/", "run/a/1", "run/b%", "run/b_", "run/~", "run/c", "none/"} {
		var expected []state.Record
		for _, r := range want {
			if strings.HasPrefix(r.Key, prefix) {
				expected = append(expected, r)
			}
		}
		got, err := s.List(context.Background(), prefix)
		if err != nil {
			t.Fatalf("list %s: %v", prefix, err)
		}
		if len(got) != 0 || len(expected) != 0 {
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("list %s (-want +got):\n%s", prefix, diff)
			}
		}
	}
}

// longList is longer than a page of any store (DynamoDB's is 1 MB).
func longList(t *testing.T, open func() state.Store) {
	s := open()
	const n, size = 24, 100 << 10
	for i := range n {
		apply(t, s, state.Create(fmt.Sprintf("large/%02d", i), bytes.Repeat([]byte{byte(i)}, size)))
	}
	got, err := s.List(context.Background(), "large/")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != n {
		t.Fatalf("%d records, want %d", len(got), n)
	}
	for i, r := range got {
		if r.Key != fmt.Sprintf("large/%02d", i) || len(r.Value) != size || r.Value[size-1] != byte(i) {
			t.Errorf("record %d is %s, of %d bytes", i, r.Key, len(r.Value))
		}
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
	if _, err := s.Apply(ctx, state.Replace(r, []byte("b"))); !errors.Is(err, context.Canceled) {
		t.Errorf("apply: %v", err)
	}
	expect(t, s, r)
}
