package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/consulkv"
	"github.com/terrapulse/terrapulse/internal/state/sqlite"
)

// storeFile is the store in the working_dir of the configuration.
const storeFile = "terrapulse.db"

// storeURLFlag registers -store. Its value is "" unless the store is named.
func storeURLFlag(f *flag.FlagSet) *string {
	return f.String("store", os.Getenv("TERRAPULSE_STORE"), "The `URL` of the store that keeps state: sqlite:PATH, or dynamodb://TABLE of a deployment in AWS, with ?region=NAME if that is not the usual one, or consul:PATH of a cluster, as in consul:consul-terraform-sync/NAME, at the Consul of CONSUL_HTTP_ADDR. Also TERRAPULSE_STORE. Without it the store is "+storeFile+" in the working_dir of the task files, or in sync-tasks if there are none.")
}

// storeFlags name the store of a command that reads it: directly, or with the
// task files of the instance that writes it.
type storeFlags struct {
	url    *string
	config configFlags
}

func registerStore(f *flag.FlagSet) *storeFlags {
	s := &storeFlags{url: storeURLFlag(f)}
	s.config.register(f)
	return s
}

// openStore opens the store for reading.
func (a *app) openStore(flags *storeFlags) (state.Store, int) {
	if *flags.url != "" {
		return a.openStoreURL(*flags.url)
	}
	settings, err := config.LoadStoreSettings(config.Options{Paths: flags.config.paths, Getenv: os.Getenv})
	if err != nil {
		return nil, a.invalid(err)
	}
	if h := settings.HighAvailability; h != nil {
		store, err := consulkv.Open(settings.Consul, h.Cluster.Path(), h.Cluster.Storage.Namespace)
		if err != nil {
			return nil, a.fail(exitConfig, err)
		}
		return store, -1
	}
	return a.openStoreFile(filepath.Join(settings.WorkingDir, storeFile))
}

// openStoreURL opens the store with this URL for reading.
func (a *app) openStoreURL(url string) (state.Store, int) {
	if strings.HasPrefix(url, "dynamodb:") {
		return a.openTable(url)
	}
	if strings.HasPrefix(url, "consul:") {
		store, err := consulStore(url)
		if err != nil {
			return nil, a.fail(exitConfig, err)
		}
		return store, -1
	}
	path, err := storePath(url)
	if err != nil {
		return nil, a.fail(exitConfig, err)
	}
	return a.openStoreFile(path)
}

func (a *app) openStoreFile(path string) (state.Store, int) {
	store, err := sqlite.ReadOnly(a.ctx, path)
	if err != nil {
		return nil, a.fail(exitError, err)
	}
	return store, -1
}

// localStore returns the path of the store if it is a file of this machine.
func (s *storeFlags) localStore() (string, error) {
	if *s.url != "" {
		return storePath(*s.url)
	}
	settings, err := config.LoadStoreSettings(config.Options{Paths: s.config.paths, Getenv: os.Getenv})
	if err != nil {
		return "", err
	}
	if settings.HighAvailability != nil {
		return "", errors.New("the store is in Consul")
	}
	return filepath.Join(settings.WorkingDir, storeFile), nil
}

// engineStore opens the store that an instance writes: the one that is named,
// else the one of its working_dir. The instances of a cluster share one in Consul.
func engineStore(ctx context.Context, cfg *config.Config, url string) (state.Store, error) {
	if h := cfg.HighAvailability; h != nil {
		return consulkv.Open(cfg.Consul, h.Cluster.Path(), h.Cluster.Storage.Namespace)
	}
	if url != "" {
		path, err := storePath(url)
		if err != nil {
			return nil, err
		}
		return sqlite.Open(ctx, path)
	}
	if err := os.MkdirAll(cfg.WorkingDir, 0o750); err != nil {
		return nil, fmt.Errorf("create working_dir %s for the store: %w; set working_dir in the task files, or name another place with -store", cfg.WorkingDir, err)
	}
	return sqlite.Open(ctx, filepath.Join(cfg.WorkingDir, storeFile))
}

// consulStore opens the store of a cluster to read, at the Consul of the
// environment.
func consulStore(url string) (state.Store, error) {
	path := strings.TrimPrefix(url, "consul:")
	if strings.Trim(path, "/") == "" {
		return nil, fmt.Errorf("store %q names no path: write consul:PATH, such as consul:consul-terraform-sync/NAME of the cluster", url)
	}
	cfg, err := config.ConsulOf(os.Getenv)
	if err != nil {
		return nil, err
	}
	return consulkv.Open(cfg, path, "")
}

// storePath returns the file of a sqlite URL.
func storePath(url string) (string, error) {
	const example = "sqlite:/var/lib/terrapulse/" + storeFile
	scheme, rest, ok := strings.Cut(url, ":")
	if scheme == "dynamodb" {
		return "", fmt.Errorf("store %q is that of a deployment in AWS, which runs its tasks itself: start runs there with `terrapulse invoke`", url)
	}
	if scheme == "consul" {
		return "", fmt.Errorf("store %q is that of a cluster: start uses it where high_availability is configured", url)
	}
	if !ok || scheme != "sqlite" {
		return "", fmt.Errorf("store %q is of no known kind: write sqlite:PATH, such as %s, dynamodb://TABLE or consul:PATH", url, example)
	}
	path := filepath.FromSlash(strings.TrimPrefix(rest, "//"))
	if path == "" {
		return "", fmt.Errorf("store %q names no file, such as %s", url, example)
	}
	return path, nil
}
