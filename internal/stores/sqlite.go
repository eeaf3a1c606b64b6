package stores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

// DefaultFile is the name of the store in working_dir.
const DefaultFile = "terrapulse.db"

var sqliteFile = kind{
	scheme: "sqlite", form: "sqlite:PATH", about: "a file on this machine",
	at: func(_ context.Context, url string) (Place, error) {
		path := fromURL(strings.TrimPrefix(url, "sqlite:"))
		if path == "" {
			return Place{}, fmt.Errorf("store %q names no file: write for example sqlite:/var/lib/terrapulse/%s", url, DefaultFile)
		}
		return file(path), nil
	},
}

// fromURL returns the path of a file, as it is in a URL after the scheme.
func fromURL(path string) string { return filepath.FromSlash(strings.TrimPrefix(path, "//")) }

func file(path string) Place {
	open := func(ctx context.Context) (state.Store, error) { return sqlite.Open(ctx, path) }
	return Place{
		Kind: "sqlite", Where: path, File: path, OneClock: true, LiveOutput: 2 * time.Second,
		read:  func(ctx context.Context) (state.Store, error) { return sqlite.ReadOnly(ctx, path) },
		write: open, change: open,
	}
}

// fileIn is the store in the working_dir of an instance, which creates it.
func fileIn(dir string) Place {
	p := file(filepath.Join(dir, DefaultFile))
	open := p.write
	p.write = func(ctx context.Context) (state.Store, error) {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("create working_dir %s for the store: %w; set working_dir in the task files, or name another place with -store", dir, err)
		}
		return open(ctx)
	}
	p.change = p.write
	return p
}
