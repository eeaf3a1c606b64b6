package state_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestConflict_OfEachOperation(t *testing.T) {
	read := state.Record{Key: "task/a", Version: "1"}
	changed := state.Record{Key: "task/a", Version: "2"}
	for name, change := range map[string]state.Change{
		"create": state.Create("task/a", nil), "replace": state.Replace(read, nil), "delete": state.Delete(read), "check": state.Check(read),
	} {
		for _, current := range []state.Record{{}, read, changed} {
			err := change.Conflict(current)
			if holds := current.Version == "" && change.Op == state.OpCreate || current.Version == "1" && change.Op != state.OpCreate; holds {
				if err != nil {
					t.Errorf("%s with %+v: %v", name, current, err)
				}
				continue
			}
			var want *state.Record
			if current.Version != "" {
				want = &current
			}
			var conflict *state.ConflictError
			if !errors.As(err, &conflict) || !cmp.Equal(want, conflict.Current) || !cmp.Equal(change, conflict.Change) {
				t.Errorf("%s with %+v: %v, want a conflict", name, current, err)
			}
		}
	}
}
