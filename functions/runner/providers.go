package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/aws/providercache"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
)

// providers are Terraform's providers, which the runs of this container share, and containers through
// the bucket.
type providers struct {
	shared *terraformcli.Shared
	cache  *providercache.Server
}

// shareProviders prepares the folder of providers on the work volume, and the cache in the bucket.
func shareProviders(client *s3.Client, settings settings.Runner, log *slog.Logger) (p providers, err error) {
	location := s3url.URL{Bucket: settings.Bundle.Bucket, Prefix: settings.Bundle.Key("providers")}
	if p.cache, err = providercache.Start(client, location, log); err != nil {
		return p, err
	}
	p.shared, err = terraformcli.NewShared(filepath.Join(settings.Work, "providers"), terraformcli.Mirrors(), p.cache.Registries())
	return p, err
}

// uploadFor is how long a container waits at its end for a provider that is put into the bucket.
const uploadFor = 30 * time.Second

// close ends the cache.
func (p providers) close(ctx context.Context) {
	if p.cache == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, uploadFor)
	defer cancel()
	p.cache.Close(ctx)
}
