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
	dir    string // where the modules of the one that was read lie
}

// load reads the configuration in a bundle.
func (b bundles) load(ctx context.Context, digest string) (*config.Config, error) {
	// There is something where a container is started on a volume that was used.
	if err := os.RemoveAll(b.dir); err != nil {
		return nil, err
	}
	return b.bucket.LoadInto(ctx, digest, b.dir)
}
