package overlay

import (
	"context"
	"fmt"
	"sync"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Source caches the effective configuration of one store until the base or an
// override changes: the reconcile record names the latest change of any override. A
// nil Source caches nothing. It is safe for concurrent use.
type Source struct {
	mu        sync.Mutex
	change    string // in effective
	effective *Effective
}

// At returns the effective configuration of base. Change is the latest change of
// any override that the caller has read from the reconcile record.
func (s *Source) At(ctx context.Context, store state.Store, base *config.Config, change string) (*Effective, error) {
	if change == "" {
		return Compose(base, nil), nil // there was no change yet
	}
	if s == nil {
		return load(ctx, store, base)
	}
	s.mu.Lock()
	cached := s.effective
	fits := cached != nil && cached.Base == base && s.change == change
	s.mu.Unlock()
	if fits {
		return cached, nil
	}
	// An override that changes between the caller's read and this one has another
	// change in the reconcile record, and so is read again next time.
	effective, err := load(ctx, store, base)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.change, s.effective = change, effective
	s.mu.Unlock()
	return effective, nil
}

// Read returns the effective configuration of base with every override that was
// changed before.
func (s *Source) Read(ctx context.Context, store state.Store, base *config.Config) (*Effective, error) {
	rec, err := state.Read[state.Reconcile](ctx, store, state.ReconcileKey)
	if err != nil {
		return nil, fmt.Errorf("read the latest change of the overrides: %w", err)
	}
	return s.At(ctx, store, base, rec.Data.Overrides)
}
