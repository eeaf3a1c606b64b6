package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Unpacked are bundles whose files are on this machine, where runs get their modules from. Each
// bundle is read once. It is safe for concurrent use.
type Unpacked struct {
	*Bucket
	Dir string // has a folder for each bundle

	mu     sync.Mutex
	loaded map[string]*config.Config
}

// Load returns the configuration in a bundle.
func (u *Unpacked) Load(ctx context.Context, digest string) (*config.Config, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if cfg := u.loaded[digest]; cfg != nil {
		return cfg, nil
	}
	dir := filepath.Join(u.Dir, digest)
	if err := os.RemoveAll(dir); err != nil { // an earlier process may have left it
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

// Keep removes all bundles but one, so that they do not fill the disk.
func (u *Unpacked) Keep(digest string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for other := range u.loaded {
		if other != digest && os.RemoveAll(filepath.Join(u.Dir, other)) == nil {
			delete(u.loaded, other)
		}
	}
}
