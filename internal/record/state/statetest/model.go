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

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// What a history draws from. A key is one of a history's own collections and a name.
var (
	collections = []string{"/", "/", "/", "!/", "0/"} // neighbours of the first in the order of bytes
	names       = []string{"a", "A", "a/b", "a-b", "b%", "b_", "~"}
	prefixes    = []string{"/a", "/a/", "/b%", "/~", "/c", "!/"}

	values = rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 20),
		rapid.SampledFrom([][]byte{nil, {0}, everyByte(), []byte("Zürich 東京\r\n"), {0xff, 0xfe, 0xc3}}))

	// Versions that no record has; %s is the version of the record.
	strange = []string{"0", "0%s", "%s ", "-1", "nonsense", "99999999999999999999", "' OR 1=1"}
)

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// agreesWithModel makes random changes, current and stale ones, over two handles, and compares the
// store with a map.
func agreesWithModel(t *testing.T, open func() state.Store) {
	handles := []state.Store{open(), open()}
	history := 0
	rapid.Check(t, func(t *rapid.T) {
		history++ // separate collections
		base := fmt.Sprintf("h%d.", history)
		keys := rapid.SampledFrom(rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
			return base + rapid.SampledFrom(collections).Draw(t, "collection") + rapid.SampledFrom(names).Draw(t, "name")
		}), 3, 5, rapid.ID).Draw(t, "keys"))
		model := map[string]state.Record{}
		past := map[string][]state.Record{} // every version that a key has had

		for range rapid.IntRange(8, 16).Draw(t, "steps") {
			s := rapid.SampledFrom(handles).Draw(t, "handle")
			var changes []state.Change
			for _, key := range rapid.SliceOfNDistinct(keys, 0, 3, rapid.ID).Draw(t, "changed") {
				changes = append(changes, drawChange(t, key, past[key]))
			}
			records, err := s.Apply(context.Background(), changes...)

			if refused := refusedBy(model, changes); refused != nil {
				var got *state.ConflictError
				if !errors.As(err, &got) {
					t.Fatalf("apply %v: %v, want a refusal of %s", changes, err, refused.Change.Key)
				}
				// If several changes are refused, the store may report any of them.
				want := refusedBy(model, []state.Change{got.Change})
				if want == nil || !cmp.Equal(want.Current, got.Current, cmpopts.EquateEmpty()) || !strings.Contains(got.Error(), got.Change.Key) {
					t.Fatalf("apply %v: refused %v because of %v, which does not stand there: %v", changes, got.Change, got.Current, got)
				}
			} else {
				if err != nil || len(records) != len(changes) {
					t.Fatalf("apply %v: %d records, %v", changes, len(records), err)
				}
				for i, c := range changes {
					var want state.Record
					switch c.Op {
					case state.OpCreate, state.OpReplace:
						want = state.Record{Key: c.Key, Value: c.Value, Version: records[i].Version}
						if want.Version == "" || slices.ContainsFunc(past[c.Key], func(p state.Record) bool { return p.Version == want.Version }) {
							t.Fatalf("version %q of %s is empty or came twice", want.Version, c.Key)
						}
						model[c.Key] = want
						past[c.Key] = append(past[c.Key], want)
					case state.OpDelete:
						delete(model, c.Key)
					}
					if diff := cmp.Diff(want, records[i], cmpopts.EquateEmpty()); diff != "" {
						t.Fatalf("apply returned (-want +got):\n%s", diff)
					}
				}
			}
			expectModel(t, handles[0], base+"/", model)
			expectModel(t, handles[1], base+rapid.SampledFrom(prefixes).Draw(t, "prefix"), model)
			for _, s := range handles {
				key := keys.Draw(t, "key")
				got, err := s.Get(context.Background(), key)
				if want, there := model[key]; !cmp.Equal(want, got, cmpopts.EquateEmpty()) || there != (err == nil) || !there && !errors.Is(err, state.ErrNotFound) {
					t.Fatalf("get %s: %v, %v; want %v", key, got, err, want)
				}
			}
		}
	})
}

// drawChange draws a change of key whose condition may be true or false.
func drawChange(t *rapid.T, key string, past []state.Record) state.Change {
	value := values.Draw(t, "value")
	read := state.Record{Key: key}
	if len(past) > 0 {
		read = past[len(past)-1]
	}
	kind := rapid.SampledFrom([]string{"create", "newest", "newest", "newest", "newest", "stale", "strange"}).Draw(t, "kind")
	switch {
	case kind == "create" || len(past) == 0 && kind != "strange":
		return state.Create(key, value)
	case kind == "stale":
		read = rapid.SampledFrom(past).Draw(t, "stale")
	case kind == "strange":
		read.Version = strings.ReplaceAll(rapid.SampledFrom(strange).Draw(t, "strange"), "%s", read.Version)
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
		if conflict, ok := errors.AsType[*state.ConflictError](c.Conflict(model[c.Key])); ok {
			return conflict
		}
	}
	return nil
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
}
