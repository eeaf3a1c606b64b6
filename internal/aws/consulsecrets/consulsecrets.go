// Package consulsecrets adds to the configuration of Consul's client what the stack keeps as secrets.
package consulsecrets

import (
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Source has secrets by their ARNs. A *secrets.Source is one.
type Source interface {
	Get(ctx context.Context, arn string) (string, error)
	Drop(arn, refused string) // Get reads it again, if it still has this value
}

// Consul adds the secrets for Consul to the configuration of its client.
type Consul struct {
	Source Source
	ARNs   settings.Consul
	Dir    string // folder for the certificates and the key, readable only by this user
}

// Configure returns cfg with the current token, certificates and key from the secrets. Values of
// the task files have precedence. The result is equal as long as the secrets are unchanged, so that
// a caller can compare with == whether its client is current.
func (c *Consul) Configure(ctx context.Context, cfg config.Consul) (config.Consul, error) {
	if c.tokenIsSecret(cfg) {
		token, err := c.Source.Get(ctx, c.ARNs.TokenARN)
		if err != nil {
			return cfg, fmt.Errorf("get Consul's token (parameter ConsulTokenArn): %w", err)
		}
		cfg.Token = token
	}
	for _, pem := range []struct {
		arn, parameter string
		path           *string
	}{
		{c.ARNs.CAARN, "ConsulCaArn", &cfg.TLS.CACert},
		{c.ARNs.CertARN, "ConsulCertArn", &cfg.TLS.Cert},
		{c.ARNs.KeyARN, "ConsulKeyArn", &cfg.TLS.Key},
	} {
		if pem.arn == "" || *pem.path != "" {
			continue
		}
		text, err := c.Source.Get(ctx, pem.arn)
		if err == nil {
			*pem.path, err = secrets.Keep(c.Dir, text+"\n")
		}
		if err != nil {
			return cfg, fmt.Errorf("read the secret of the parameter %s: %w", pem.parameter, err)
		}
	}
	return cfg, nil
}

// Renew is Configure after Consul has denied a token: it reads the token again. It reports whether
// there is another token to try.
func (c *Consul) Renew(ctx context.Context, cfg config.Consul, refused string) (fresh config.Consul, another bool, err error) {
	if !c.tokenIsSecret(cfg) {
		return cfg, false, nil
	}
	c.Source.Drop(c.ARNs.TokenARN, refused)
	fresh, err = c.Configure(ctx, cfg)
	return fresh, err == nil && fresh.Token != refused, err
}

func (c *Consul) tokenIsSecret(cfg config.Consul) bool {
	return c.ARNs.TokenARN != "" && cfg.Token == ""
}
