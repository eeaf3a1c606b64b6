package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/consul/dynamic"
	"github.com/terrapulse/terrapulse/internal/driver"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// terraformDriver makes the driver that runs Terraform in this container.
type terraformDriver struct {
	tfdriver.Options             // the same for all launches
	aws              dynamic.AWS // secrets that templates of providers name
	hidden           []string    // secrets in files that Terraform and git can read
}

// prepare returns the driver for a configuration.
func (d *terraformDriver) prepare(ctx context.Context, cfg *config.Config) (driver.Driver, error) {
	o := d.Options
	var err error
	if o.Terraform, err = findTerraform(ctx, cfg.Terraform, d.Log); err != nil {
		return nil, err
	}
	o.Values = &dynamic.Evaluator{Context: ctx, Log: d.Log, Hidden: d.hidden, AWS: func(context.Context) (dynamic.AWS, error) { return d.aws, nil }}
	return tfdriver.New(o), nil
}

// findTerraform finds the Terraform of the image. It downloads another one only if the
// configuration names a version: a container that downloads at every launch is slow, and depends on
// HashiCorp.
func findTerraform(ctx context.Context, cfg config.Terraform, log *slog.Logger) (*terraformcli.Binary, error) {
	if cfg.Version != "" {
		return terraformcli.Find(ctx, cfg, log)
	}
	binary, err := terraformcli.FindLocal(ctx, cfg, log)
	if err != nil {
		return nil, fmt.Errorf("the runner's image cannot be used: %w: build it with infra/runner/Containerfile, "+
			"or name a version in the driver \"terraform\" block to have that one downloaded at every launch", err)
	}
	return binary, nil
}
