package statetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/state"
)

// agreesWithModel makes random changes, current and stale ones, over two handles, and compares the
// store with a map.
func agreesWithModel(t *testing.T, open func() state.Store) {
	handles := []state.Store{open(), open()}
	history := 0
	rapid.Check(t, func(t *rapid.T) {
		history++ // separate collections
		collection := fmt.Sprintf("h%d/", history)
		model := map[string]state.Record{}
		past := map[string][]state.Record{} // every version that a key has had

		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			s := rapid.SampledFrom(handles).Draw(t, "handle")
			names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "a/b", "a-b", "b", "~"}), 1, 4, rapid.ID).Draw(t, "keys")
			var changes []state.Change
			for _, name := range names {
				changes = append(changes, drawChange(t, collection+name, past[collection+name]))
			}
			records, err := s.Apply(context.Background(), changes...)

			if refused := refusedBy(model, changes); refused != nil {
				var got *state.ConflictError
				if !errors.As(err, &got) {
					t.Fatalf("apply %v: %v, want a refusal of %s", changes, err, refused.Change.Key)
				}
				// If several changes are refused, the store may report any of them.
				if !refusedAlone(model, *got) {
					t.Fatalf("apply %v: refused %v because of %v, which does not stand there", changes, got.Change, got.Current)
				}
			} else {
				if err != nil {
					t.Fatalf("apply %v: %v", changes, err)
				}
				for i, c := range changes {
					switch c.Op {
					case state.OpCreate, state.OpReplace:
						for _, p := range past[c.Key] {
							if p.Version == records[i].Version {
								t.Fatalf("version %s of %s came twice", p.Version, c.Key)
							}
						}
						want := state.Record{Key: c.Key, Value: c.Value, Version: records[i].Version}
						if diff := cmp.Diff(want, records[i], cmpopts.EquateEmpty()); diff != "" {
							t.Fatalf("apply returned (-want +got):\n%s", diff)
						}
						model[c.Key] = records[i]
						past[c.Key] = append(past[c.Key], records[i])
					case state.OpDelete:
						delete(model, c.Key)
					}
				}
			}
			expectModel(t, handles[0], collection, model)
			expectModel(t, handles[1], collection+"a", model)
		}
	})
}

// drawChange draws a change of key whose condition may be true or false.
func drawChange(t *rapid.T, key string, past []state.Record) state.Change {
	value := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "value")
	if len(past) == 0 || rapid.IntRange(0, 3).Draw(t, "create") == 0 {
		return state.Create(key, value)
	}
	read := past[len(past)-1]
	if rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
		read = rapid.SampledFrom(past).Draw(t, "read")
	}
	switch rapid.SampledFrom([]state.Op{state.OpReplace, state.OpDelete, state.OpCheck}).Draw(t, "op") {
	case state.OpReplace:
		return state.Replace(read, value)
	case state.OpDelete:
		return state.Delete(read)
	}
	return state.Check(read)
}

// refusedBy returns the first change that the model refuses, or nil.
func refusedBy(model map[string]state.Record, changes []state.Change) *state.ConflictError {
	for _, c := range changes {
		current, there := model[c.Key]
		switch {
		case c.Op == state.OpCreate && there, c.Op != state.OpCreate && there && current.Version != c.Version:
			return &state.ConflictError{Change: c, Current: &current}
		case c.Op != state.OpCreate && !there:
			return &state.ConflictError{Change: c}
		}
	}
	return nil
}

// refusedAlone reports whether the model would refuse this change for the same reason.
func refusedAlone(model map[string]state.Record, got state.ConflictError) bool {
	want := refusedBy(model, []state.Change{got.Change})
	return want != nil && cmp.Equal(want.Current, got.Current, cmpopts.EquateEmpty())
}

func expectModel(t *rapid.T, s state.Store, prefix string, model map[string]state.Record) {
	var want []state.Record
	for _, key := range slices.Sorted(maps.Keys(model)) {
		if strings.HasPrefix(key, prefix) {
			want = append(want, model[key])
		}
	}
	got, err := s.List(context.Background(), prefix)
	if err != nil {
		t.Fatalf("list %s: %v", prefix, err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("list %s (-want +got):\n%s", prefix, diff)
	}
	for _, r := range want {
		one, err := s.Get(context.Background(), r.Key)
		if diff := cmp.Diff(r, one, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("get %s: %v (-want +got):\n%s", r.Key, err, diff)
		}
	}
}
