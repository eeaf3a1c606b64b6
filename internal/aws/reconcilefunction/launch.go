package reconcilefunction

import (
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// launcher starts containers for launches. Launches of a bundle whose runs go on in another system
// need none, because their runs only send requests: the invocation itself executes them.
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
	case !cfg.Driver().Kind().Remote:
		return l.containers.Start(ctx, launch)
	}
	return l.here.Start(ctx, launch)
}

// Admits implements reconcile.Bounded.
func (l *launcher) Admits(ctx context.Context, by string, plans int) (launches int, err error) {
	if b, ok := l.containers.(reconcile.Bounded); ok && !l.inFunction {
		return b.Admits(ctx, by, plans)
	}
	return l.here.Admits(ctx, by, plans)
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
	return err == nil && cfg.Driver().Kind().Remote
}
