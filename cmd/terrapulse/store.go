package main

import (
	"context"
	"errors"
	"flag"
	"os"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// storeURLFlag registers -store. Its value is "" unless the store is named.
func storeURLFlag(f *flag.FlagSet, url *string) {
	f.StringVar(url, "store", os.Getenv("TERRAPULSE_STORE"), "The `URL` of the store that keeps state: "+stores.Help()+
		". Also TERRAPULSE_STORE. Without it the store is "+stores.DefaultFile+" in the working_dir of the task files, or in sync-tasks if there are none.")
}

// storeFlags name the store of a command that reads it: directly, or with the
// task files of the instance that writes it.
type storeFlags struct {
	url    string
	config configFlags
}

func (s *storeFlags) register(f *flag.FlagSet) {
	storeURLFlag(f, &s.url)
	s.config.register(f)
}

// place returns the place of the store that the flags name.
func (s *storeFlags) place(ctx context.Context) (stores.Place, error) {
	if s.url != "" {
		return stores.At(ctx, s.url)
	}
	settings, err := config.LoadStoreSettings(config.Options{Paths: s.config.paths, Getenv: os.Getenv})
	if err != nil {
		return stores.Place{}, err
	}
	return stores.Of(ctx, settings)
}

// openStore opens the store for reading.
func (a *app) openStore(flags *storeFlags) (*stores.Store, int) {
	place, err := flags.place(a.ctx)
	if err != nil {
		return nil, a.invalid(err)
	}
	store, err := place.Read(a.ctx)
	return store, a.fail(exitError, err)
}

// errNoFiles says that a selection needs the task files.
var errNoFiles = errors.New("labels are in the task files: name them with -config-file or -config-dir, or use the API with -http-addr")

// effective returns a function that reads the task files, and what people changed beside them.
func (s *storeFlags) effective(store state.Store) func(context.Context) (*overlay.Effective, error) {
	return func(ctx context.Context) (*overlay.Effective, error) {
		if len(s.config.paths) == 0 {
			return nil, errNoFiles
		}
		cfg, err := s.config.read()
		if err != nil {
			return nil, err
		}
		return new(overlay.Source).Read(ctx, store, cfg)
	}
}
