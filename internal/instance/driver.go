package instance

import (
	"context"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/awsconfig"
	"github.com/terrapulse/terrapulse/internal/config"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/dynamic"
	"github.com/terrapulse/terrapulse/internal/secrets"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// Driver returns the driver that runs a Terraform on this machine, and so many
// tasks at a time (see Workers). It looks for credentials of AWS only if a template
// needs them.
func Driver(ctx context.Context, found *terraform.Binary, parallel int, log *slog.Logger) *tfdriver.Driver {
	return tfdriver.New(tfdriver.Options{
		Terraform: found, Parallel: Workers(parallel), Log: log,
		Values: Values(ctx, log),
	})
}

// Values returns what evaluates templates on this machine.
func Values(ctx context.Context, log *slog.Logger) *dynamic.Evaluator {
	return &dynamic.Evaluator{Context: ctx, Log: log, AWS: func(ctx context.Context) (dynamic.AWS, error) {
		cfg, err := awsconfig.Load(ctx)
		if err != nil {
			return nil, err
		}
		return secrets.New(cfg), nil
	}}
}

// keepToken renews Vault's token from now on if a provider needs it. Otherwise
// it could expire before the first run.
func (i *Instance) keepToken(ctx context.Context, cfg *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, consulPatience)
	defer cancel()
	if err := i.values.Keep(ctx, cfg); err != nil {
		i.Log.Warn("the token for Vault is not renewed before the first run that needs it", "error", err)
	}
}
