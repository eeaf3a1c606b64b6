package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/bundle"
	"github.com/terrapulse/terrapulse/internal/fault"
	"github.com/terrapulse/terrapulse/internal/launch"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
)

// launcher starts containers for launches. Launches of a bundle with driver "terraform-cloud" need
// none, because their runs only send requests: the invocation itself executes them.
type launcher struct {
	containers reconcile.Launcher
	store      state.Store
	load       func(ctx context.Context, digest string) (*config.Config, error) // a bundle
	here       *launch.Local                                                    // of the invocation in progress
	inFunction bool                                                             // the bundle that is used needs no containers
}

// Start implements reconcile.Launcher.
func (l *launcher) Start(ctx context.Context, launch state.Launch) error {
	cfg, err := l.load(ctx, launch.Bundle)
	switch {
	case err != nil:
		return fault.As(fault.Transient, fmt.Errorf("get the task files of the launch: %w", err))
	case cfg.Cloud == nil:
		return l.containers.Start(ctx, launch)
	}
	return l.here.Start(ctx, launch)
}

// Status implements reconcile.Launcher. Launches that another invocation executes are unknown: the
// claims of their runs show whether they are alive.
func (l *launcher) Status(ctx context.Context, ids []string) (map[string]reconcile.LaunchStatus, error) {
	statuses, err := l.here.Status(ctx, ids)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, id := range ids {
		if !statuses[id].Running && !l.needsNone(ctx, id) {
			others = append(others, id)
		}
	}
	if len(others) == 0 {
		return statuses, nil
	}
	found, err := l.containers.Status(ctx, others)
	if err != nil {
		return nil, err
	}
	for _, id := range others {
		statuses[id] = found[id]
	}
	return statuses, nil
}

// needsNone reports whether a launch has no container. The id may be that of a container.
func (l *launcher) needsNone(ctx context.Context, id string) bool {
	if !l.inFunction {
		return false
	}
	rec, err := state.Read[state.Launch](ctx, l.store, state.LaunchKey(id))
	if err != nil || !rec.Exists() {
		return false
	}
	cfg, err := l.load(ctx, rec.Data.Bundle)
	return err == nil && cfg.Cloud != nil
}

// unpacked loads bundles, and keeps their files: runs in HCP Terraform get modules from them. It is
// safe for concurrent use.
type unpacked struct {
	*bundle.Bucket
	dir string

	mu     sync.Mutex
	loaded map[string]*config.Config
}

// Load returns the configuration in a bundle.
func (u *unpacked) Load(ctx context.Context, digest string) (*config.Config, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if cfg := u.loaded[digest]; cfg != nil {
		return cfg, nil
	}
	dir := filepath.Join(u.dir, digest)
	if err := os.RemoveAll(dir); err != nil { // what an earlier process has left
		return nil, err
	}
	cfg, err := u.LoadInto(ctx, digest, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if u.loaded == nil {
		u.loaded = map[string]*config.Config{}
	}
	u.loaded[digest] = cfg
	return cfg, nil
}

// keep removes all bundles but one, so that they do not fill the disk.
func (u *unpacked) keep(digest string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for other := range u.loaded {
		if other != digest && os.RemoveAll(filepath.Join(u.dir, other)) == nil {
			delete(u.loaded, other)
		}
	}
}
