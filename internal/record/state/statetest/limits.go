package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func largest(t *testing.T, open func() state.Store) {
	s := open()
	key := "large/" + strings.Repeat("k", state.MaxKey-len("large/"))
	r := apply(t, s, state.Create(key, bytes.Repeat([]byte("v"), state.MaxBytes-len(key))))[0]
	expect(t, s, r)
	if got, err := s.List(context.Background(), key[:len(key)-1]); err != nil || len(got) != 1 {
		t.Errorf("list of the longest key: %d records, %v", len(got), err)
	}

	var changes []state.Change
	for i := range state.MaxWrite {
		k := fmt.Sprintf("many/%02d", i)
		changes = append(changes, state.Create(k, bytes.Repeat([]byte("v"), state.MaxBytes/state.MaxWrite-len(k))))
	}
	for _, r := range apply(t, s, changes...) {
		expect(t, s, r)
	}
}

// expectRefused makes the changes, and expects an error that contains all of what and no change.
func expectRefused(t *testing.T, s state.Store, changes []state.Change, what ...string) {
	t.Helper()
	_, err := s.Apply(context.Background(), changes...)
	var refused *state.ConflictError
	if err == nil || errors.As(err, &refused) {
		t.Fatalf("apply: %v, want a refusal that is no conflict", err)
	}
	for _, w := range what {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
	for _, prefix := range []string{"task/", "many/"} {
		if got, err := s.List(context.Background(), prefix); err != nil || len(got) != 0 {
			t.Errorf("after the refusal there are %d records %s*, %v", len(got), prefix, err)
		}
	}
}

func tooMuch(t *testing.T, open func() state.Store) {
	s := open()
	var changes []state.Change
	for i := range state.MaxWrite + 1 {
		changes = append(changes, state.Create(fmt.Sprintf("many/%d", i), nil))
	}
	expectRefused(t, s, changes, "65", "64")
	expectRefused(t, s, []state.Change{
		state.Create("task/a", bytes.Repeat([]byte("v"), state.MaxBytes-len("task/a"))),
		state.Create("task/b", nil),
	}, "262150", "262144", "task/a")
	expectRefused(t, s, []state.Change{state.Create("task/a", nil), state.Create("task/a", nil)}, "two changes", "task/a")
	expectRefused(t, s, []state.Change{state.Replace(state.Record{Key: "task/a"}, nil)}, "version", "task/a")
	expectRefused(t, s, []state.Change{{Op: state.OpCreate, Key: "task/a", Version: "1"}}, "version", "task/a")
	expectRefused(t, s, []state.Change{{Key: "task/a"}}, "operation", "task/a")
}

func malformedKeys(t *testing.T, open func() state.Store) {
	s := open()
	for key, what := range map[string]string{
		"":               "no whole collection",
		"task":           "no whole collection",
		"task/":          "empty element",
		"/a":             "empty element",
		"task//a":        "empty element",
		"task/a b":       "printable ASCII",
		"task/a\n":       "printable ASCII",
		"task/\x00":      "printable ASCII",
		"task/Zürich":    "printable ASCII",
		"task/\x7f":      "printable ASCII",
		"task/" + longID: "1024",
	} {
		expectRefused(t, s, []state.Change{state.Create(key, nil)}, what)
		if _, err := s.Get(context.Background(), key); err == nil || errors.Is(err, state.ErrNotFound) || !strings.Contains(err.Error(), what) {
			t.Errorf("get %.40q: %v, want an error that says %q", key, err, what)
		}
	}
	for prefix, what := range map[string]string{
		"": "no whole collection", "task": "no whole collection", "/": "empty element",
		"task//": "empty element", "task/ä": "printable ASCII", "task/" + longID: "1024",
	} {
		if _, err := s.List(context.Background(), prefix); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("list %.40q: %v, want an error that says %q", prefix, err, what)
		}
	}
}

var longID = strings.Repeat("x", state.MaxKey)
