package statetest

import (
	"context"
	"sync/atomic"

	"github.com/terrapulse/terrapulse/internal/state"
)

// Counted is a store that counts the requests to it: Gets and Lists as reads, Applies as writes.
type Counted struct {
	state.Store
	Reads, Writes atomic.Int64
}

// Get implements state.Store.
func (c *Counted) Get(ctx context.Context, key string) (state.Record, error) {
	c.Reads.Add(1)
	return c.Store.Get(ctx, key)
}

// List implements state.Store.
func (c *Counted) List(ctx context.Context, prefix string) ([]state.Record, error) {
	c.Reads.Add(1)
	return c.Store.List(ctx, prefix)
}

// Apply implements state.Store.
func (c *Counted) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	c.Writes.Add(1)
	return c.Store.Apply(ctx, changes...)
}

// Reset sets the counts to zero.
func (c *Counted) Reset() {
	c.Reads.Store(0)
	c.Writes.Store(0)
}
