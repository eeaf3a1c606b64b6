package statetest

import (
	"context"
	"sync/atomic"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Faulty is a Store that counts the requests to it, and whose Apply fails on demand. The functions
// may be called from several goroutines.
type Faulty struct {
	state.Store
	// Before, if set, is called before each Apply. If it returns an error, Apply returns that error
	// and writes nothing, as on a full disk.
	Before func(changes []state.Change) error
	// After, if set, is called after each successful Apply. If it returns an error, Apply returns
	// that error although everything was written: the answer was lost.
	After func(changes []state.Change) error

	Reads, Writes atomic.Int64 // Gets, also of several records, and Lists; Applies
}

// Get implements state.Store.
func (f *Faulty) Get(ctx context.Context, key string) (state.Record, error) {
	f.Reads.Add(1)
	return f.Store.Get(ctx, key)
}

// List implements state.Store.
func (f *Faulty) List(ctx context.Context, prefix string) ([]state.Record, error) {
	f.Reads.Add(1)
	return f.Store.List(ctx, prefix)
}

// GetSeveral implements state.Several.
func (f *Faulty) GetSeveral(ctx context.Context, keys []string) (map[string]state.Record, error) {
	f.Reads.Add(1)
	return state.GetSeveral(ctx, f.Store, keys)
}

// Apply implements state.Store.
func (f *Faulty) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	f.Writes.Add(1)
	if f.Before != nil {
		if err := f.Before(changes); err != nil {
			return nil, err
		}
	}
	records, err := f.Store.Apply(ctx, changes...)
	if err == nil && f.After != nil {
		if err := f.After(changes); err != nil {
			return nil, err
		}
	}
	return records, err
}

// Reset sets the counts to zero.
func (f *Faulty) Reset() {
	f.Reads.Store(0)
	f.Writes.Store(0)
}
