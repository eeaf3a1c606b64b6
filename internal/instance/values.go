package instance

import (
	"context"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/awsconfig"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/dynamic"
	"github.com/terrapulse/terrapulse/internal/secrets"
)

// Values evaluates the templates of provider blocks. It looks for credentials of
// AWS only if a template needs them.
func Values(ctx context.Context, log *slog.Logger) *dynamic.Evaluator {
	return &dynamic.Evaluator{
		Context: ctx, Log: log,
		AWS: func(ctx context.Context) (dynamic.AWS, error) {
			cfg, err := awsconfig.Load(ctx)
			if err != nil {
				return nil, err
			}
			return secrets.New(cfg), nil
		},
	}
}

// keepToken renews Vault's token from now on if a provider needs it. Otherwise
// it could expire before the first run.
func (i *Instance) keepToken(ctx context.Context, cfg *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, consulPatience)
	defer cancel()
	if err := i.values.Keep(ctx, cfg); err != nil {
		i.log.Warn("the token for Vault is not renewed before the first run that needs it", "error", err)
	}
}
