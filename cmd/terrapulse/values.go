package main

import (
	"context"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/awsconfig"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/dynamic"
	"github.com/terrapulse/terrapulse/internal/secrets"
)

// values looks up what the templates of providers stand for. AWS is only asked
// for its credentials where a template needs it.
func (a *app) values(log *slog.Logger) *dynamic.Evaluator {
	return &dynamic.Evaluator{
		Context: a.ctx, Log: log,
		AWS: func(ctx context.Context) (dynamic.AWS, error) {
			cfg, err := awsconfig.Load(ctx)
			if err != nil {
				return nil, err
			}
			return secrets.New(cfg), nil
		},
	}
}

// keepToken has Vault's token renewed from now on where a provider needs it: no
// run may come for longer than it lives.
func keepToken(ctx context.Context, values *dynamic.Evaluator, cfg *config.Config, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, consulPatience)
	defer cancel()
	if err := values.Keep(ctx, cfg); err != nil {
		log.Warn("the token for Vault is not renewed before the first run that needs it", "error", err)
	}
}
