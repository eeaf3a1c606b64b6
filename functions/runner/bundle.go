package main

import (
	"context"
	"os"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/config/bundle"
)

// bundles reads bundles.
type bundles struct {
	bucket bundle.Bucket
	dir    string // folder with the modules of the bundle
}

// load reads the configuration in a bundle.
func (b bundles) load(ctx context.Context, digest string) (*config.Config, error) {
	// The folder is not empty if a container starts on a used volume.
	if err := os.RemoveAll(b.dir); err != nil {
		return nil, err
	}
	return b.bucket.LoadInto(ctx, digest, b.dir)
}
