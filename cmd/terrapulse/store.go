package main

import (
	"context"
	"flag"
	"os"

	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
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
