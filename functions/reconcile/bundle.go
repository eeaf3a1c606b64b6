package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/bundle"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
)

// errNoBundle says that there is no bundle that could be in force.
var errNoBundle = errors.New("no bundle can be in force")

// bundles is where bundles come from.
type bundles interface {
	Current(ctx context.Context) (bundle.Pointer, error)
	// Load returns the configuration in the bundle, or what is wrong with it
	// as a *bundle.InvalidError.
	Load(ctx context.Context, digest string) (*config.Config, error)
}

// loaded is a bundle that was read, with what works on it.
type loaded struct {
	digest  string
	config  *config.Config
	refused *state.Refused // a newer one, which is wrong

	reconciler *reconcile.Reconciler
	client     consulClient
}

// look reads the pointer, and the bundle that it names if that is a new one.
// Where that one is wrong, the last good one stays in force.
func (i *invocation) look(ctx context.Context) error {
	pointer, err := i.bundles.Current(ctx)
	if err != nil {
		if i.current != nil {
			// What is in force goes on: a bucket that does not answer is no
			// reason to stop.
			i.log.Warn("cannot look for a new bundle", "error", err)
			i.looked = i.now()
			return nil
		}
		return fmt.Errorf("look for the bundle: %w", err)
	}
	digest := pointer.Digest
	switch {
	case digest == "":
		return fmt.Errorf("%w: none was pushed yet; push one with `terrapulse bundle push`", errNoBundle)
	case i.current != nil && i.current.digest == digest && i.current.refused == nil:
		i.looked = i.now()
		return nil
	}
	cfg, err := i.bundles.Load(ctx, digest)
	if wrong := (*bundle.InvalidError)(nil); errors.As(err, &wrong) {
		return i.keepLastGood(ctx, state.Refused{Bundle: digest, Error: state.Cut(wrong.Error()), Since: i.now()})
	}
	if err != nil {
		return err
	}
	i.current, i.looked = &loaded{digest: digest, config: cfg}, i.now()
	i.log.Info("bundle read", "bundle", digest, "tasks", len(cfg.Tasks))
	return nil
}

// keepLastGood goes on with the bundle that the store names as the one in
// force, and says that the new one is not.
func (i *invocation) keepLastGood(ctx context.Context, refused state.Refused) error {
	i.log.Error("bundle refused", "bundle", refused.Bundle, "error", refused.Error)
	rec, err := state.Read[state.Reconcile](ctx, i.store, state.ReconcileKey)
	if err != nil {
		return fmt.Errorf("find the last good bundle: %w", err)
	}
	good := rec.Data.Bundle
	if good == "" {
		if rec.Data.Refused == nil || rec.Data.Refused.Bundle != refused.Bundle {
			next := rec.Data
			next.Refused = &refused
			if _, err := i.store.Apply(ctx, rec.Write(next)); err != nil {
				i.log.Warn("that the bundle is refused is not noted", "error", err)
			}
		}
		return fmt.Errorf("%w: bundle %.12s is wrong, and there is none before it: %s", errNoBundle, refused.Bundle, refused.Error)
	}
	if i.current == nil || i.current.digest != good {
		cfg, err := i.bundles.Load(ctx, good)
		if err != nil {
			return fmt.Errorf("go on with the last good bundle: %w", err)
		}
		i.current = &loaded{digest: good, config: cfg}
	}
	i.current.refused, i.current.reconciler = &refused, nil
	i.looked = i.now()
	return nil
}
