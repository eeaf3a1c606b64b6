package statetest

import (
	"context"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Moment has something happen once, just before the first request that is like the one named:
// "get", "list" or "write", and the beginning of a key.
type Moment struct {
	state.Store
	Request string
	Happens func()
}

func (m *Moment) comes(verb, key string) {
	if m.Happens != nil && strings.HasPrefix(verb+" "+key, m.Request) {
		happens := m.Happens
		m.Happens = nil
		happens()
	}
}

// Get implements state.Store.
func (m *Moment) Get(ctx context.Context, key string) (state.Record, error) {
	m.comes("get", key)
	return m.Store.Get(ctx, key)
}

// List implements state.Store.
func (m *Moment) List(ctx context.Context, prefix string) ([]state.Record, error) {
	m.comes("list", prefix)
	return m.Store.List(ctx, prefix)
}

// Apply implements state.Store.
func (m *Moment) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	for _, c := range changes {
		m.comes("write", c.Key)
	}
	return m.Store.Apply(ctx, changes...)
}
