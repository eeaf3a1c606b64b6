package reconcile_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/statetest"
)

// memory is a store for tests that need thousands of writes, or to look at
// each of them.
type memory struct {
	mu      sync.Mutex
	records map[string]state.Record
	version int
}

func newMemory() *memory { return &memory{records: map[string]state.Record{}} }

func (m *memory) Get(ctx context.Context, key string) (state.Record, error) {
	if err := state.ValidateKey(key); err != nil {
		return state.Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return state.Record{}, err
	}
	rec, ok := m.records[key]
	if !ok {
		return state.Record{}, state.ErrNotFound
	}
	rec.Value = slices.Clone(rec.Value)
	return rec, nil
}

func (m *memory) List(ctx context.Context, prefix string) ([]state.Record, error) {
	if err := state.ValidatePrefix(prefix); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var list []state.Record
	for _, key := range slices.Sorted(maps.Keys(m.records)) {
		if strings.HasPrefix(key, prefix) {
			rec := m.records[key]
			rec.Value = slices.Clone(rec.Value)
			list = append(list, rec)
		}
	}
	return list, nil
}

func (m *memory) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if err := state.Validate(changes...); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, c := range changes {
		switch current, there := m.records[c.Key]; {
		case there && (c.Op == state.OpCreate || c.Version != current.Version):
			return nil, &state.ConflictError{Change: c, Current: &current}
		case !there && c.Op != state.OpCreate:
			return nil, &state.ConflictError{Change: c}
		}
	}
	m.version++
	written := make([]state.Record, len(changes))
	for i, c := range changes {
		switch c.Op {
		case state.OpCreate, state.OpReplace:
			rec := state.Record{Key: c.Key, Value: slices.Clone(c.Value), Version: strconv.Itoa(m.version)}
			m.records[c.Key] = rec
			written[i] = rec
		case state.OpDelete:
			delete(m.records, c.Key)
		}
	}
	return written, nil
}

func (m *memory) Close() error { return nil }

func TestMemory_IsAStore(t *testing.T) {
	statetest.Test(t, func(*testing.T) func() state.Store {
		m := newMemory()
		return func() state.Store { return m }
	})
}
