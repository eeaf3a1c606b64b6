package tableapi

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// inForce is the bundle in force: the one that the reconcile record names or, before the first
// tick, the one that the pointer names.
type inForce struct {
	store   state.Store
	bundles bundle.Bucket

	mu     sync.Mutex
	digest string // of the last read bundle
	config *config.Config
	latest *config.Config // that was in force at the last read; nil before it
	at     time.Time      // when that was
}

// recent returns its configuration as it was read at most so long ago.
func (i *inForce) recent(ctx context.Context, age time.Duration) (*config.Config, error) {
	i.mu.Lock()
	latest, at := i.latest, i.at
	i.mu.Unlock()
	if latest != nil && time.Since(at) <= age {
		return latest, nil
	}
	return i.load(ctx)
}

// load returns its configuration.
func (i *inForce) load(ctx context.Context) (*config.Config, error) {
	began := time.Now()
	cfg, _, err := i.named(ctx)
	if err == nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		if began.After(i.at) {
			i.latest, i.at = cfg, began
		}
	}
	return cfg, err
}

// named returns its configuration and its digest. It reads the bundle only if another one is in
// force.
func (i *inForce) named(ctx context.Context) (*config.Config, string, error) {
	rec, err := state.Read[state.Reconcile](ctx, i.store, state.ReconcileKey)
	if err != nil {
		return nil, "", fmt.Errorf("read the reconcile record for the bundle in force: %w", err)
	}
	digest := rec.Data.Bundle
	if digest == "" {
		pointer, err := i.bundles.Current(ctx)
		if err != nil {
			return nil, "", fmt.Errorf("read the latest bundle: %w", err)
		}
		if digest = pointer.Digest; digest == "" {
			return &config.Config{}, "", nil // nothing was pushed yet: there are no tasks
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.digest == digest {
		return i.config, digest, nil
	}
	cfg, err := i.bundles.Load(ctx, digest)
	if err != nil {
		return nil, "", err
	}
	i.digest, i.config = digest, cfg
	return cfg, digest, nil
}
