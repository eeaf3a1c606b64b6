package summary

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Store is a store that keeps a summary.
type Store struct{ state.Store }

var (
	_ state.Writable = Store{}
	_ state.Awaiter  = Store{}
	_ state.Backward = Store{}
	_ state.Several  = Store{}
)

// Keep returns the store, with a summary that each Apply keeps up to date.
func Keep(store state.Store) Store { return Store{store} }

// Unwritable implements state.Writable.
func (s Store) Unwritable() error { return state.Unwritable(s.Store) }

// Await implements state.Awaiter.
func (s Store) Await(ctx context.Context, prefix, mark string) (string, error) {
	return state.Await(ctx, s.Store, prefix, mark)
}

// Last implements state.Backward.
func (s Store) Last(ctx context.Context, prefix, before string, n int) ([]state.Record, error) {
	return state.Last(ctx, s.Store, prefix, before, n)
}

// GetSeveral implements state.Several.
func (s Store) GetSeveral(ctx context.Context, keys []string) (map[string]state.Record, error) {
	return state.GetSeveral(ctx, s.Store, keys)
}

// Apply implements state.Store. If it changes records of tasks, it writes their rows with them.
func (s Store) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	var rows []Row
	for _, c := range changes {
		if row, ok := changed(c); ok {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return s.Store.Apply(ctx, changes...)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	all := append(changes[:len(changes):len(changes)], state.Create(notesPrefix+id.String(), state.Encode(note{rows})))
	records, err := s.Store.Apply(ctx, all...)
	if err != nil {
		return nil, err
	}
	return records[:len(changes)], nil
}

// changed returns the row that a change gives to a task.
func changed(c state.Change) (Row, bool) {
	if !strings.HasPrefix(c.Key, state.TaskPrefix) || c.Op == state.OpCheck {
		return Row{}, false
	}
	task := state.TaskName(c.Key)
	if c.Op == state.OpDelete {
		return Row{Task: task, Gone: true}, true
	}
	written, err := state.Decode[state.Task](state.Record{Key: c.Key, Value: c.Value})
	if err != nil {
		return Row{Task: task, Gone: true}, true // its record is read
	}
	return Of(task, written.Data), true
}
